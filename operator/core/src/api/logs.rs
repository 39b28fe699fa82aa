//! The log lines of the app.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log lines and the spans of the app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogsSpec {
    #[serde(default)]
    pub client_address: ClientAddress,
}

/// What the app's log lines and spans show of the address of a client. Rate limits always count by the whole address. The
/// setting has no effect on the logs of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum ClientAddress {
    /// The address.
    #[default]
    Full,
    /// Its network: the first 24 bits of an IPv4 address, the first 48 of an IPv6 address.
    Network,
    /// Nothing.
    None,
}
