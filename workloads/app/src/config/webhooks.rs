//! The settings of `app webhooks`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use shortener_common::config::{DatabaseArgs, LogArgs, TelemetryArgs};
use url::Url;

use super::public_url;
use crate::webhooks::Receivers;

/// Settings of `app webhooks`.
#[derive(Clone, Debug, Args)]
pub struct WebhooksArgs {
    /// The receivers of webhooks, as for `app migrate`, which stores them.
    #[arg(long, env, default_value = "[]")]
    pub webhooks: Receivers,
    /// The folder with a folder for each receiver, whose file `secret` has one or two lines like `whsec_MfKQ...`.
    #[arg(long, env, default_value = "/etc/shortener/webhooks")]
    pub webhooks_secrets_directory: PathBuf,
    /// Public base URL of the service; short URLs begin with it.
    #[arg(long, env, default_value = "http://localhost:8080", value_parser = public_url)]
    pub public_url: Url,
    /// Listening address of probes and metrics, for use inside the cluster.
    #[arg(long, env = "WEBHOOKS_INTERNAL_LISTEN", default_value = "[::]:9090")]
    pub internal_listen: SocketAddr,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The export of traces and logs.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}
