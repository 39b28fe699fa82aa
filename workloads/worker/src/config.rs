//! Command line and environment variables. Every flag has an environment variable of the same name.

use std::{net::SocketAddr, time::Duration};

use clap::Parser;
use shortener_common::{
    config::{DatabaseArgs, LogArgs, MemoryArgs, PurgeArgs, QueueArgs, TelemetryArgs, seconds},
    vector::VectorArgs,
};

/// The worker of the link shortener: processes jobs until SIGTERM.
#[derive(Clone, Debug, Parser)]
#[command(name = "worker", version, about)]
pub struct WorkerArgs {
    /// The message broker; required.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The vector store.
    #[command(flatten)]
    pub vector: VectorArgs,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The export of traces and logs.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// The removal of expired data.
    #[command(flatten)]
    pub purge: PurgeArgs,
    /// The memory.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Listening address of probes and metrics.
    #[arg(long, env = "WORKER_INTERNAL_LISTEN", default_value = "[::]:9090")]
    pub internal_listen: SocketAddr,
    /// Time limit of one attempt at a job, in seconds. For `reindex` it is the limit of each batch of documents;
    /// `purge_expired` has none.
    #[arg(long = "job-timeout-seconds", env = "JOB_TIMEOUT_SECONDS", default_value = "300", value_parser = seconds)]
    pub job_timeout: Duration,
    /// Time limit for the job in progress after SIGTERM, in seconds.
    #[arg(long = "drain-timeout-seconds", env = "DRAIN_TIMEOUT_SECONDS", default_value = "60", value_parser = seconds)]
    pub drain_timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        WorkerArgs::command().debug_assert();
    }

    #[test]
    fn malformed_settings_are_refused_with_the_name_of_the_flag() {
        for (flag, value) in [
            ("--job-timeout-seconds", "soon"),
            ("--drain-timeout-seconds", "-1"),
            ("--internal-listen", "9090"),
            ("--purge-retention-days", "0"),
        ] {
            let setting = format!("{flag}={value}");
            let arguments = ["worker", "--database-url", "postgres://db/x", &setting];
            let message = WorkerArgs::try_parse_from(arguments)
                .unwrap_err()
                .to_string();
            assert!(message.contains(flag), "{message}");
        }
    }
}
