//! The console of a stack.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The console: pages at `/console` for links, jobs and the state of the service. They need a key with a scope of management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsoleSpec {
    /// Serves the console when true. It needs `gateway.auth`.
    pub enabled: bool,
}
