//! Settings that more than one program reads. Every flag has an environment variable of the same name.

mod memory;
mod pooler;
mod purge;
mod queue;
mod tls;

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::{
    logging::{self, Logging},
    memory::Memory,
    telemetry::{LogRecords, Service, Telemetry, TelemetryError},
    tls::ClientTls,
};
pub use memory::MemoryArgs;
use pooler::with_session_settings;
pub use pooler::{LIMITS, Pooler};
pub use purge::PurgeArgs;
pub use queue::QueueArgs;
pub use tls::{CacheTlsFiles, DatabaseTlsFiles, QueueTlsFiles, VectorTlsFiles};

/// The default port of PostgreSQL.
const POSTGRES_PORT: u16 = 5432;

/// Address and credentials of the database.
#[derive(Clone, Debug, Args)]
pub struct DatabaseArgs {
    /// `postgres://host:port/database`, with or without credentials.
    #[arg(
        long,
        env,
        hide_env_values = true,
        required_unless_present = "database_host"
    )]
    pub database_url: Option<String>,
    /// Host name or address of the database server, as an alternative to a URL.
    #[arg(long, env)]
    pub database_host: Option<String>,
    /// Port of the database server, used with the host; 5432 by default.
    #[arg(long, env, value_parser = port)]
    pub database_port: Option<u16>,
    /// Name of the database, used with the host; the server's default is the name of the user.
    #[arg(long, env)]
    pub database_name: Option<String>,
    /// User name; takes precedence over the user in the URL.
    #[arg(long, env)]
    pub database_username: Option<String>,
    /// Password; takes precedence over the password in the URL.
    #[arg(long, env, hide_env_values = true)]
    pub database_password: Option<String>,
    /// Extent to which the server's certificate is verified: `require` (not at all), `verify-ca` or `verify-full`. It takes
    /// precedence over `sslmode` in the URL, and is `verify-full` if absent and certificates are set.
    #[arg(long, env)]
    pub database_tls_mode: Option<PgSslMode>,
    /// Pooler between this program and the server; none if absent.
    #[arg(long, env, value_enum)]
    pub database_pooler: Option<Pooler>,
    /// Host of that pooler, if the other settings are those of the server: the program then knows both. If absent, the other
    /// settings are those of the pooler.
    #[arg(long, env, requires = "database_pooler")]
    pub database_pooler_host: Option<String>,
    /// The certificates.
    #[command(flatten)]
    pub tls: DatabaseTlsFiles,
}

impl DatabaseArgs {
    /// Returns the options of a connection, through the pooler if there is one.
    ///
    /// # Errors
    /// Fails if neither a URL nor a host is set, if the URL is malformed, or if a certificate cannot be read. The
    /// message does not repeat the URL, because it may contain a password.
    pub fn connect_options(&self) -> anyhow::Result<PgConnectOptions> {
        match self.pooler_options()? {
            Some(pooler) => Ok(pooler),
            None => self.server_options(),
        }
    }

    /// Returns the options of a connection to the server, past a pooler that has a host of its own.
    ///
    /// # Errors
    /// Fails as [`connect_options`](Self::connect_options) does.
    pub fn server_options(&self) -> anyhow::Result<PgConnectOptions> {
        let pooler = self.database_pooler;
        let pooler = pooler.filter(|_| given(&self.database_pooler_host).is_none());
        Ok(with_session_settings(self.address()?, pooler))
    }

    /// Returns the options of a connection through a pooler that has a host of its own; `None` without one.
    ///
    /// # Errors
    /// Fails as [`connect_options`](Self::connect_options) does.
    pub fn pooler_options(&self) -> anyhow::Result<Option<PgConnectOptions>> {
        let Some(host) = given(&self.database_pooler_host) else {
            return Ok(None);
        };
        let options = self.address()?.host(without_brackets(host));
        Ok(Some(with_session_settings(options, self.database_pooler)))
    }

    /// Returns the options without the settings of a session.
    fn address(&self) -> anyhow::Result<PgConnectOptions> {
        let mut options = match (given(&self.database_url), given(&self.database_host)) {
            (Some(url), _) => url
                .parse()
                .map_err(|error| anyhow!("DATABASE_URL is invalid: {error}"))?,
            (None, Some(host)) => self.of_parts(host),
            (None, None) => {
                return Err(anyhow!(
                    "no database is configured: set DATABASE_URL or DATABASE_HOST"
                ));
            }
        };
        if let Some(username) = given(&self.database_username) {
            options = options.username(username);
        }
        if let Some(password) = given(&self.database_password) {
            options = options.password(password);
        }
        let tls = self.tls.settings(self.database_tls_mode.is_some()).read()?;
        Ok(match tls {
            Some(tls) => self.over_tls(options, tls),
            None => options,
        })
    }

    fn over_tls(&self, options: PgConnectOptions, tls: ClientTls) -> PgConnectOptions {
        // The library verifies nothing in the mode `require`, even with an authority.
        let mode = self.database_tls_mode.unwrap_or(PgSslMode::VerifyFull);
        let mut options = options.ssl_mode(mode);
        if let Some(authorities) = tls.authorities {
            options = options.ssl_root_cert_from_pem(authorities.into_bytes());
        }
        match tls.identity {
            Some(identity) => options
                .ssl_client_cert_from_pem(identity.certificate)
                .ssl_client_key_from_pem(identity.key),
            None => options,
        }
    }

    fn of_parts(&self, host: &str) -> PgConnectOptions {
        let port = self.database_port.unwrap_or(POSTGRES_PORT);
        let options = PgConnectOptions::new_without_pgpass()
            .host(without_brackets(host))
            .port(port);
        match given(&self.database_name) {
            Some(name) => options.database(name),
            None => options,
        }
    }
}

/// Returns the value of a variable, or `None` if it is absent or empty. Line breaks at the end are removed, because
/// Secrets often contain them.
pub fn given(value: &Option<String>) -> Option<&str> {
    let value = value.as_deref()?.trim_end_matches(['\r', '\n']);
    (!value.is_empty()).then_some(value)
}

/// Builds a URL without credentials from a scheme, a host and a port. An IPv6 address is put in brackets.
pub fn url_of(scheme: &str, host: &str, port: u16) -> String {
    let host = without_brackets(host.trim());
    if host.contains(':') {
        format!("{scheme}://[{host}]:{port}")
    } else {
        format!("{scheme}://{host}:{port}")
    }
}

fn without_brackets(host: &str) -> &str {
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inside.unwrap_or(host)
}

/// Parses a port. White space around it is ignored, because the value of a Secret often ends in a line break.
///
/// # Errors
/// Fails if the text is not a number from 1 to 65535.
pub fn port(text: &str) -> Result<u16, String> {
    match text.trim().parse() {
        Ok(0) | Err(_) => Err("must be a port from 1 to 65535".to_owned()),
        Ok(port) => Ok(port),
    }
}

/// Settings of the log.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// Filter of the log events. The broker's client library is limited to errors, because it logs messages with
    /// their content, and to one for each end of a connection.
    #[arg(long, env, default_value = "info,lapin=error,lapin::io_loop=off")]
    pub rust_log: String,
    /// Identity of this replica in `/health` and in the log; the host name of the machine if absent.
    #[arg(long, env)]
    pub hostname: Option<String>,
}

impl LogArgs {
    /// Returns the identity of this replica.
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

    /// Starts the log within this memory. Its events are exported as well if `records` is given.
    ///
    /// # Errors
    /// Fails if the filter is malformed.
    pub fn start(&self, records: Option<LogRecords>, memory: &Memory) -> anyhow::Result<Logging> {
        logging::init(&self.rust_log, &self.host(), records, memory)
            .map_err(|error| anyhow!(error))
            .context("RUST_LOG is invalid")
    }
}

/// Settings of the export of traces and logs. `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS` have the
/// meaning that OpenTelemetry defines.
#[derive(Clone, Debug, Args)]
pub struct TelemetryArgs {
    /// `http[s]://host:4317`, a collector that accepts OTLP over gRPC; nothing is exported without it.
    #[arg(long, env)]
    pub otel_exporter_otlp_endpoint: Option<String>,
}

impl TelemetryArgs {
    /// Returns true if traces and logs are exported.
    pub fn is_on(&self) -> bool {
        given(&self.otel_exporter_otlp_endpoint).is_some()
    }

    /// Starts the export on behalf of this service, within this memory.
    ///
    /// # Errors
    /// Fails if the endpoint is malformed.
    pub fn start(
        &self,
        service: Service<'_>,
        memory: &Memory,
    ) -> Result<Telemetry, TelemetryError> {
        Telemetry::start(given(&self.otel_exporter_otlp_endpoint), service, memory)
    }
}

/// Parses a number of seconds, with or without a fraction.
///
/// # Errors
/// Fails if the text is not a number, or is negative.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser, builder::Resettable};
    use lapin::uri::{AMQPScheme, AMQPUri};

    use super::*;

    #[derive(Debug, Parser)]
    struct FileSettings {
        #[command(flatten)]
        database: DatabaseArgs,
        #[command(flatten)]
        queue: QueueArgs,
    }

    fn queue(arguments: &[&str]) -> anyhow::Result<Option<AMQPUri>> {
        let url = ["program", "--database-url", "postgres://db/x"];
        FileSettings::parse_from(url.iter().chain(arguments))
            .queue
            .uri()
    }

    fn user_of(arguments: &[&str]) -> String {
        let url = ["program", "--database-url", "postgres://u:p@db/x"];
        let settings = FileSettings::parse_from(url.iter().chain(arguments));
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
    fn a_pooler_with_a_host_of_its_own_leaves_the_way_to_the_server() {
        let settings = |arguments: &[&str]| {
            let url = ["program", "--database-url", "postgres://u:p@server/x"];
            let all = [&url, arguments].concat();
            let database = FileSettings::parse_from(all).database;
            let through = database.connect_options().unwrap();
            let server = database.server_options().unwrap();
            [through, server].map(|options| {
                let has_limits = options.get_options().is_some();
                (options.get_host().to_owned(), has_limits)
            })
        };
        let at = |host: &str, has_limits| (host.to_owned(), has_limits);
        assert_eq!(settings(&[]), [at("server", true), at("server", true)]);
        let pooler = ["--database-pooler", "transaction"];
        assert_eq!(
            settings(&pooler),
            [at("server", false), at("server", false)]
        );
        let named = [&pooler[..], &["--database-pooler-host", "pooler\n"]].concat();
        assert_eq!(settings(&named), [at("pooler", false), at("server", true)]);
        let alone = ["program", "--database-url", "postgres://x/y"];
        let alone = [&alone[..], &["--database-pooler-host", "pooler"]].concat();
        let error = FileSettings::try_parse_from(alone).unwrap_err().to_string();
        assert!(error.contains("--database-pooler"), "{error}");
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
        let credentials = ["--queue-username", "alice", "--queue-password", "s%e/c"];
        let uri = queue(&[&url[..], &credentials].concat()).unwrap().unwrap();
        let user = &uri.authority.userinfo;
        assert_eq!(
            (user.username.as_str(), user.password.as_str()),
            ("alice", "s%e/c")
        );
    }

    #[test]
    fn no_virtual_host_and_an_empty_one_are_the_default_one() {
        for (url, vhost) in [
            ("amqp://u:p@h:5672", "/"),
            ("amqp://u:p@h:5672/", "/"),
            ("amqp://u:p@h:5672/%2f", "/"),
            ("amqp://u:p@h:5672/%2F?heartbeat=10", "/"),
            ("amqp://u:p@h:5672/vh", "vh"),
            ("amqp://u:p@h:5672/a%2fb", "a/b"),
        ] {
            let uri = queue(&["--queue-url", url]).unwrap().unwrap();
            assert_eq!(uri.vhost, vhost, "{url}");
        }
    }

    #[test]
    fn a_broker_is_reached_by_parts_that_no_url_could_hold_as_they_are() {
        let host = ["--queue-host", "h"];
        let uri = queue(&host).unwrap().unwrap();
        assert_eq!((uri.authority.port, uri.vhost.as_str()), (5672, "/"));
        let rest = [
            "--queue-port=5673",
            "--queue-vhost=a/b",
            "--queue-username=u@x",
            "--queue-password=s%e/c",
        ];
        let uri = queue(&[&host[..], &rest].concat()).unwrap().unwrap();
        let user = &uri.authority.userinfo;
        assert_eq!(
            (
                uri.authority.host.as_str(),
                uri.authority.port,
                uri.vhost.as_str()
            ),
            ("h", 5673, "a/b")
        );
        assert_eq!(
            (user.username.as_str(), user.password.as_str()),
            ("u@x", "s%e/c")
        );
        let url = ["--queue-url", "amqp://other"];
        let uri = queue(&[&host[..], &url].concat()).unwrap().unwrap();
        assert_eq!(uri.authority.host, "other", "the URL takes precedence");
    }

    #[test]
    fn a_broker_is_reached_over_tls_whatever_its_address_says() {
        for (address, port) in [
            ("--queue-url=amqp://h", 5671),
            ("--queue-url=amqps://h", 5671),
            ("--queue-url=amqp://h:5672/%2f", 5672),
            ("--queue-url=amqps://h:1/%2f", 1),
            ("--queue-host=h", 5671),
        ] {
            let uri = queue(&[address, "--queue-tls=true"]).unwrap().unwrap();
            let found = (uri.scheme, uri.authority.port);
            assert_eq!(found, (AMQPScheme::AMQPS, port), "{address}");
        }
        let plain = queue(&["--queue-url=amqp://h"]).unwrap().unwrap();
        assert_eq!(plain.scheme, AMQPScheme::AMQP);
        let authority = ["--queue-host=h", "--queue-tls-ca-file=/ca.crt"];
        assert_eq!(
            queue(&authority).unwrap().unwrap().scheme,
            AMQPScheme::AMQPS
        );
    }

    #[test]
    fn the_mode_of_tls_takes_precedence_over_the_url_of_the_database() {
        let url = "--database-url=postgres://db/x?sslmode=disable";
        let mode = |arguments: &[&str]| {
            let arguments = ["program", url]
                .into_iter()
                .chain(arguments.iter().copied());
            let settings = FileSettings::parse_from(arguments);
            format!(
                "{:?}",
                settings.database.connect_options().unwrap().get_ssl_mode()
            )
        };
        assert_eq!(mode(&[]), "Disable");
        assert_eq!(mode(&["--database-tls-mode=require"]), "Require");
        assert_eq!(mode(&["--database-tls-mode=verify-ca"]), "VerifyCa");
        assert_eq!(mode(&["--database-tls-mode=verify-full"]), "VerifyFull");
    }

    #[test]
    fn a_database_is_reached_by_parts_that_no_url_could_hold_as_they_are() {
        let parts = [
            "program",
            // Overrides a URL that the environment of the tests may contain.
            "--database-url=",
            "--database-host=db.test\n",
            "--database-port=5433\n",
            "--database-name=li/nks",
            "--database-username=u@x",
            "--database-password=s%e/c@",
        ];
        let options = |parts: &[&str]| {
            FileSettings::parse_from(parts)
                .database
                .connect_options()
                .unwrap()
        };
        let all = options(&parts);
        assert_eq!((all.get_host(), all.get_port()), ("db.test", 5433));
        assert_eq!(
            (all.get_username(), all.get_database()),
            ("u@x", Some("li/nks"))
        );
        assert_eq!(options(&parts[..3]).get_port(), 5432);
    }

    #[test]
    fn a_database_needs_a_url_or_a_host() {
        // Ignores a URL that the environment of the tests may contain.
        let command = FileSettings::command().mut_args(|argument| argument.env(Resettable::Reset));
        let message = command
            .try_get_matches_from(["program"])
            .unwrap_err()
            .to_string();
        assert!(message.contains("--database-url"), "{message}");
        let empty = ["program", "--database-url", ""];
        let message = FileSettings::parse_from(empty)
            .database
            .connect_options()
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "no database is configured: set DATABASE_URL or DATABASE_HOST"
        );
    }

    #[test]
    fn a_url_is_made_of_a_host_of_any_form() {
        for (host, url) in [
            ("cache", "redis://cache:6379"),
            ("10.0.0.1\n", "redis://10.0.0.1:6379"),
            ("fd00::1", "redis://[fd00::1]:6379"),
            ("[fd00::1]", "redis://[fd00::1]:6379"),
        ] {
            assert_eq!(url_of("redis", host, 6379), url);
        }
    }

    #[test]
    fn what_is_no_port_is_refused() {
        assert_eq!(port(" 5432\n"), Ok(5432));
        for text in ["", "0", "65536", "postgres", "tcp://10.0.0.1:5432"] {
            assert!(port(text).is_err(), "{text}");
        }
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
