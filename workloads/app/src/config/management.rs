//! The settings of the management port.

use std::net::SocketAddr;

use clap::{Args, builder::NonEmptyStringValueParser};

/// The port by which the operator manages the links of ShortLinks.
#[derive(Clone, Debug, Args)]
pub struct ManagementArgs {
    /// Listening address of the management of ShortLinks, for the operator alone.
    #[arg(long, env, default_value = "[::]:9091")]
    pub management_listen: SocketAddr,
    /// Key of that port. Without it, the port stays closed.
    #[arg(long, env, hide_env_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub management_key: Option<String>,
}
