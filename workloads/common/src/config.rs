//! Settings that more than one program reads. Every flag has an environment variable of the same name.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use lapin::uri::AMQPUri;
use sqlx::postgres::PgConnectOptions;
use url::{Host, Url};

use crate::{
    logging::{self, Logging},
    telemetry::{LogRecords, Service, Telemetry},
};

/// Where the database is and how to log in.
#[derive(Clone, Debug, Args)]
pub struct DatabaseArgs {
    /// `postgres://host:port/database`, with or without credentials.
    #[arg(long, env, hide_env_values = true)]
    pub database_url: String,
    /// Takes precedence over the user in the URL.
    #[arg(long, env)]
    pub database_username: Option<String>,
    /// Takes precedence over the password in the URL.
    #[arg(long, env, hide_env_values = true)]
    pub database_password: Option<String>,
}

impl DatabaseArgs {
    /// Options for a connection.
    ///
    /// # Errors
    /// When the URL is malformed. The message does not repeat the URL, which may hold a password.
    pub fn connect_options(&self) -> anyhow::Result<PgConnectOptions> {
        let mut options: PgConnectOptions = self
            .database_url
            .parse()
            .map_err(|error| anyhow!("DATABASE_URL is invalid: {error}"))?;
        if let Some(username) = given(&self.database_username) {
            options = options.username(username);
        }
        if let Some(password) = given(&self.database_password) {
            options = options.password(password);
        }
        Ok(options)
    }
}

/// Where the message broker is and how to log in.
#[derive(Clone, Debug, Args)]
pub struct QueueArgs {
    /// `amqp[s]://host:port/vhost`, with or without credentials; without it the queue profile is off.
    #[arg(long, env, hide_env_values = true)]
    pub queue_url: Option<String>,
    /// Takes precedence over the user in the URL.
    #[arg(long, env)]
    pub queue_username: Option<String>,
    /// Takes precedence over the password in the URL.
    #[arg(long, env, hide_env_values = true)]
    pub queue_password: Option<String>,
}

impl QueueArgs {
    /// The broker's address with credentials; `None` when the queue profile is off.
    ///
    /// # Errors
    /// When the URL is malformed. The message does not repeat the URL, which may hold a password.
    pub fn uri(&self) -> anyhow::Result<Option<AMQPUri>> {
        let Some(text) = given(&self.queue_url) else {
            return Ok(None);
        };
        let url: Url = text
            .parse()
            .map_err(|error| anyhow!("QUEUE_URL is invalid: {error}"))?;
        let mut uri: AMQPUri = text
            .parse()
            .map_err(|_| anyhow!("QUEUE_URL must be like amqp://host:5672/%2f"))?;
        // The library takes an address in brackets for no host at all, and no host for this machine.
        uri.authority.host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(_) => uri.authority.host,
            None => return Err(anyhow!("QUEUE_URL names no host")),
        };
        let user = &mut uri.authority.userinfo;
        if let Some(username) = given(&self.queue_username) {
            user.username = username.to_owned();
        }
        if let Some(password) = given(&self.queue_password) {
            user.password = password.to_owned();
        }
        Ok(Some(uri))
    }
}

/// An empty variable means the same as none.
fn given(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|value| !value.is_empty())
}

/// What every line of the log says.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// Which events are logged. The client of the broker would log messages with their content.
    #[arg(long, env, default_value = "info,lapin=error")]
    pub rust_log: String,
    /// The identity of this replica in `/health` and in the log; the machine's name when absent.
    #[arg(long, env)]
    pub hostname: Option<String>,
}

impl LogArgs {
    /// The identity of this replica.
    #[must_use]
    pub fn host(&self) -> String {
        let machine = || {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .ok()
                .map(|name| name.trim().to_owned())
        };
        self.hostname
            .clone()
            .or_else(machine)
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// Starts the log; what it says is exported too, if records are.
    ///
    /// # Errors
    /// When the filter is malformed.
    pub fn start(&self, records: Option<LogRecords>) -> anyhow::Result<Logging> {
        logging::init(&self.rust_log, &self.host(), records)
            .map_err(|error| anyhow!(error))
            .context("RUST_LOG is invalid")
    }
}

/// Where traces and logs go. `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS` have the meaning that
/// OpenTelemetry gives them.
#[derive(Clone, Debug, Args)]
pub struct TelemetryArgs {
    /// `http[s]://host:4317`, a collector that takes OTLP over gRPC; without it nothing is exported.
    #[arg(long, env)]
    pub otel_exporter_otlp_endpoint: Option<String>,
}

impl TelemetryArgs {
    /// Begins to export in the name of this service.
    ///
    /// # Errors
    /// When the endpoint is malformed.
    pub fn start(&self, service: Service<'_>) -> anyhow::Result<Telemetry> {
        Telemetry::start(given(&self.otel_exporter_otlp_endpoint), service)
    }
}

/// Reads seconds, with or without a fraction.
///
/// # Errors
/// When the text is not a number, or negative.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        database: DatabaseArgs,
        #[command(flatten)]
        queue: QueueArgs,
    }

    fn queue(arguments: &[&str]) -> anyhow::Result<Option<AMQPUri>> {
        let url = ["program", "--database-url", "postgres://db/x"];
        Settings::parse_from(url.iter().chain(arguments))
            .queue
            .uri()
    }

    fn user_of(arguments: &[&str]) -> String {
        let url = ["program", "--database-url", "postgres://u:p@db/x"];
        let settings = Settings::parse_from(url.iter().chain(arguments));
        let options = settings.database.connect_options().unwrap();
        options.get_username().to_owned()
    }

    #[test]
    fn credentials_of_their_own_take_precedence_over_those_in_the_url() {
        assert_eq!(user_of(&[]), "u");
        assert_eq!(
            user_of(&[
                "--database-username",
                "alice",
                "--database-password",
                "s%e/c"
            ]),
            "alice"
        );
    }

    #[test]
    fn without_a_url_there_is_no_queue() {
        assert_eq!(queue(&[]).unwrap(), None);
        assert_eq!(queue(&["--queue-url", ""]).unwrap(), None);
    }

    #[test]
    fn a_queue_is_reached_with_the_credentials_that_come_first() {
        let url = ["--queue-url", "amqp://u:p%2F@broker/%2f"];
        let uri = queue(&url).unwrap().unwrap();
        let user = &uri.authority.userinfo;
        assert_eq!(
            (uri.authority.host.as_str(), uri.authority.port),
            ("broker", 5672)
        );
        assert_eq!(
            (user.username.as_str(), user.password.as_str()),
            ("u", "p/")
        );
        assert_eq!(uri.vhost, "/");
        let credentials = ["--queue-username", "alice", "--queue-password", "s%e/c"];
        let uri = queue(&[&url[..], &credentials].concat()).unwrap().unwrap();
        let user = &uri.authority.userinfo;
        assert_eq!(
            (user.username.as_str(), user.password.as_str()),
            ("alice", "s%e/c")
        );
    }

    #[test]
    fn every_form_of_host_is_understood() {
        for (url, host) in [
            ("amqp://10.0.0.1/x", "10.0.0.1"),
            ("amqps://broker.example:1234", "broker.example"),
            ("amqp://[fd00::1]:5672/%2f", "fd00::1"),
        ] {
            let uri = queue(&["--queue-url", url]).unwrap().unwrap();
            assert_eq!(uri.authority.host, host);
        }
    }

    #[test]
    fn a_malformed_address_is_refused_without_being_repeated() {
        for url in [
            "secret",
            "http://secret@broker",
            "amqp:secret",
            "amqp://:secret@/x",
            "amqp://",
        ] {
            let message = queue(&["--queue-url", url]).unwrap_err().to_string();
            assert!(
                message.contains("QUEUE_URL") && !message.contains("secret"),
                "{message}"
            );
        }
    }
}
