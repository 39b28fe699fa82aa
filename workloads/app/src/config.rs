//! Command line and environment variables. Every flag has an environment variable of the same name.

mod auth;
mod cache;
mod client_address;
mod console;
mod destinations;
mod links;
mod management;
mod replica;
mod webhooks;

use std::{net::SocketAddr, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand};
use http::HeaderValue;
use shortener_common::{
    config::{DatabaseArgs, LogArgs, MemoryArgs, PurgeArgs, QueueArgs, TelemetryArgs, seconds},
    memory::{Memory, TooLow},
    queue::public_tasks::PublicTasks,
    server::{PER_CONNECTION, most_connections},
    vector::VectorArgs,
};
use url::Url;

pub use self::{
    auth::{AuthArgs, AuthProxyArgs},
    cache::{CacheArgs, CacheMode},
    client_address::ClientAddress,
    console::ConsoleArgs,
    destinations::DestinationArgs,
    links::LinksArgs,
    management::ManagementArgs,
    replica::ReplicaArgs,
    webhooks::WebhooksArgs,
};
use crate::{
    authorities::AuthoritiesArgs, cors, dead_letters::DeadLettersArgs, webhooks::Receivers,
};

/// The memory of the payloads that queries hold at the same time, in bytes: a hundred of the largest ones, with the
/// answer of the vector store, the values, and the response.
pub const PAYLOADS: u64 = 64 * 1024 * 1024;

/// The open files beside the connections of clients and to the database: those to other stores and to the collector, those of
/// the operator to the management port, and what the runtime has open.
const OTHER_FILES: u64 = 128;

/// The link-shortening application.
#[derive(Debug, Parser)]
#[command(name = "app", version, about)]
pub struct Cli {
    /// The command; `serve` by default.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the app.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve requests until SIGTERM (the default).
    Serve(Box<ServeArgs>),
    /// Wait for the database, migrate its schema, and exit.
    Migrate(Box<MigrateArgs>),
    /// Work with dead letters, print the answer as JSON, and exit.
    DeadLetters(Box<DeadLettersArgs>),
    /// Send webhooks until SIGTERM.
    Webhooks(Box<WebhooksArgs>),
    /// Remove expired data, and exit.
    Purge(Box<PurgeOnceArgs>),
    /// Resolve a sample of the links of a restored database, and exit.
    CheckLinks(Box<CheckLinksArgs>),
    /// Copy the certificates of the public authorities out of the image, and exit.
    Authorities(AuthoritiesArgs),
}

impl Cli {
    /// Parses the command line; the default command is `serve`.
    pub fn from_command_line() -> Self {
        Self::parse_from(with_default_command(std::env::args().collect()))
    }
}

fn with_default_command(mut arguments: Vec<String>) -> Vec<String> {
    let asks_for_help = |argument: &str| matches!(argument, "-h" | "--help" | "-V" | "--version");
    let is_flag = |argument: &String| argument.starts_with('-') && !asks_for_help(argument);
    if arguments.get(1).is_none_or(is_flag) {
        arguments.insert(1.min(arguments.len()), "serve".to_owned());
    }
    arguments
}

/// Settings of `app migrate`.
#[derive(Clone, Debug, Args)]
pub struct MigrateArgs {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The receivers of webhooks, a list (JSON) like
    /// `[{"name":"crm","url":"https://hooks.example.com/x","events":["link.created"]}]`. Those that are not in it go, with
    /// what was not delivered to them.
    #[arg(long, env, default_value = "[]")]
    pub webhooks: Receivers,
    /// Time limit in seconds for the database to become ready. A migration that waits for locks has none.
    #[arg(long = "migrate-timeout-seconds", env = "MIGRATE_TIMEOUT_SECONDS", default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
}

/// Settings of `app purge`.
#[derive(Clone, Debug, Args)]
pub struct PurgeOnceArgs {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The extent of the removal.
    #[command(flatten)]
    pub extent: PurgeArgs,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The export of traces and logs.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Settings of `app check-links`.
#[derive(Clone, Debug, Args)]
pub struct CheckLinksArgs {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Settings of `app serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Listening address of the public routes; `[::]` accepts IPv6 and IPv4 on all interfaces.
    #[arg(long, env = "APP_LISTEN", default_value = "[::]:3000")]
    pub listen: SocketAddr,
    /// Listening address of probes and metrics, for use inside the cluster.
    #[arg(long, env = "APP_INTERNAL_LISTEN", default_value = "[::]:9090")]
    pub internal_listen: SocketAddr,
    /// The management of ShortLinks.
    #[command(flatten)]
    pub management: ManagementArgs,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The servers that follow it.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// The message broker.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Tasks that can be enqueued without a key, separated by commas; `*` stands for every task except purge_expired,
    /// reindex and wait. Empty: none.
    #[arg(long, env, default_value = "*", value_parser = PublicTasks::parse)]
    pub public_tasks: PublicTasks,
    /// Key that marks the identifiers of jobs, the same one in every replica. Without it, a job is unknown until a
    /// worker has received it.
    #[arg(long, env, hide_env_values = true)]
    pub job_id_key: Option<String>,
    /// Maximum number of database connections for requests, half of them for look-ups and at least one for each kind; one
    /// more is used for health probes, and one for clicks. A replica has as many for look-ups.
    #[arg(long, env, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub database_max_connections: u32,
    /// Space for the database on its volume, in bytes. From 70 % of it on, requests without a key store no jobs and
    /// documents, and from 85 % on no links. Without it they always may.
    #[arg(long, env)]
    pub database_capacity_bytes: Option<u64>,
    /// The cache.
    #[command(flatten)]
    pub cache: CacheArgs,
    /// The vector store.
    #[command(flatten)]
    pub vector: VectorArgs,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The export of traces and logs.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// Public base URL of the service; short URLs begin with it.
    #[arg(long, env, default_value = "http://localhost:8080", value_parser = public_url)]
    pub public_url: Url,
    /// Number of trusted proxies in front of the app; as many entries of `X-Forwarded-For` are trusted.
    #[arg(long, env, default_value_t = 1)]
    pub trusted_hops: usize,
    /// Continues the trace of a request's `traceparent` if true; if false, starts a new trace with a link to it.
    #[arg(long, env, default_value_t = true, action = ArgAction::Set)]
    pub trust_incoming_trace: bool,
    /// What log lines and spans show of the address of a client.
    #[arg(long, env, value_enum, default_value_t = ClientAddress::Full)]
    pub log_client_address: ClientAddress,
    /// Serves `/metrics` on the public port if true.
    #[arg(long, env, default_value_t = true, action = ArgAction::Set)]
    pub expose_metrics: bool,
    /// Rate limit of new links per client and minute; 0 turns the limit off.
    #[arg(long, env, default_value_t = 60)]
    pub limit_shorten_per_minute: u32,
    /// Burst of new links per client.
    #[arg(long, env, default_value_t = 20)]
    pub limit_shorten_burst: u32,
    /// Rate limit of other requests per client and second; 0 turns the limit off.
    #[arg(long, env, default_value_t = 50)]
    pub limit_requests_per_second: u32,
    /// Burst of other requests per client.
    #[arg(long, env, default_value_t = 200)]
    pub limit_requests_burst: u32,
    /// The keys of clients.
    #[command(flatten)]
    pub auth: AuthArgs,
    /// The removal of expired data. A job is unknown once it may have been removed.
    #[command(flatten)]
    pub purge: PurgeArgs,
    /// The destinations that links may have.
    #[command(flatten)]
    pub destinations: DestinationArgs,
    /// The answers to visitors.
    #[command(flatten)]
    pub links: LinksArgs,
    /// Counts clicks on links if true.
    #[arg(long, env, default_value_t = true, action = ArgAction::Set)]
    pub clicks_enabled: bool,
    /// The console.
    #[command(flatten)]
    pub console: ConsoleArgs,
    /// Origins whose scripts may use the API, separated by commas, such as `https://app.example.com`; `*` stands for every
    /// origin. Without an origin, only pages of the service itself may.
    #[arg(long, env, value_delimiter = ',', value_parser = cors::origin)]
    pub cors_allow_origins: Vec<HeaderValue>,
    /// The memory.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Maximum number of open connections on the public port, where the memory has room for so many. Further ones wait
    /// until one of them ends.
    #[arg(long, env, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Time limit of a request, in seconds.
    #[arg(long = "request-timeout-seconds", env = "REQUEST_TIMEOUT_SECONDS", default_value = "10", value_parser = seconds)]
    pub request_timeout: Duration,
    /// Time limit for a client to send the head of a request, in seconds.
    #[arg(long = "header-timeout-seconds", env = "HEADER_TIMEOUT_SECONDS", default_value = "10", value_parser = seconds)]
    pub header_timeout: Duration,
    /// Time to keep serving after SIGTERM while the cluster stops sending traffic to this replica, in seconds.
    #[arg(long = "drain-delay-seconds", env = "DRAIN_DELAY_SECONDS", default_value = "5", value_parser = seconds)]
    pub drain_delay: Duration,
    /// Time limit for requests in flight after that delay, in seconds.
    #[arg(long = "drain-timeout-seconds", env = "DRAIN_TIMEOUT_SECONDS", default_value = "15", value_parser = seconds)]
    pub drain_timeout: Duration,
}

impl ServeArgs {
    /// Divides the memory among the buffers, except what payloads of documents may take.
    ///
    /// # Errors
    /// Fails if the memory limit is too low.
    pub fn divide_memory(&self) -> Result<Memory, TooLow> {
        let payloads = self.vector.url().map_or(0, |_| PAYLOADS);
        self.memory.divide(payloads)
    }

    /// Returns the hosts of the service, each once, and that of the public URL first.
    pub fn hosts(&self) -> Vec<&str> {
        let own = self.public_url.host_str().unwrap_or_default();
        let gateway = self.destinations.gateway_hosts.iter().map(String::as_str);
        let mut hosts = vec![own];
        for host in gateway {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    /// Returns the number of connections on the public port for which there is memory.
    pub fn connections(&self, memory: &Memory) -> usize {
        let room = memory.connections / PER_CONNECTION;
        room.min(self.max_connections as usize)
    }

    /// Returns the highest number of files that the app has open at the same time, with its memory divided like this.
    pub fn open_files(&self, memory: &Memory) -> u64 {
        let clients = most_connections(self.connections(memory));
        let databases = 1 + u64::from(self.replica.database_replica_host.is_some());
        clients as u64 + databases * u64::from(self.database_max_connections) + OTHER_FILES
    }
}

/// Parses an absolute URL to which short codes can be appended.
fn public_url(text: &str) -> Result<Url, String> {
    let url: Url = text
        .parse()
        .map_err(|error| format!("is not a URL: {error}"))?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if plain {
        Ok(url)
    } else {
        Err(
            "must be http:// or https:// with a host, without credentials, a query or a fragment"
                .to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use shortener_common::time_limits;

    use super::*;

    fn serve(arguments: &[&str]) -> Result<ServeArgs, clap::Error> {
        let mut all = vec!["app".to_owned()];
        all.extend(arguments.iter().map(ToString::to_string));
        all.extend([
            "--database-url".to_owned(),
            "postgres://u:p@db/x".to_owned(),
        ]);
        match Cli::try_parse_from(with_default_command(all))?.command {
            Command::Serve(args) => Ok(*args),
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_the_command_when_none_is_given() {
        assert_eq!(serve(&["--trusted-hops", "3"]).unwrap().trusted_hops, 3);
        assert_eq!(
            serve(&["serve", "--trusted-hops", "3"])
                .unwrap()
                .trusted_hops,
            3
        );
        assert_eq!(
            with_default_command(vec!["app".to_owned()]),
            ["app", "serve"]
        );
        assert_eq!(
            with_default_command(vec!["app".to_owned(), "--help".to_owned()]),
            ["app", "--help"]
        );
    }

    #[test]
    fn the_time_limits_that_others_depend_on_are_the_defaults() {
        let defaults = serve(&[]).unwrap();
        assert_eq!(defaults.request_timeout.as_secs(), time_limits::REQUEST);
        assert_eq!(defaults.drain_timeout.as_secs(), time_limits::DRAIN);
        assert_eq!(defaults.drain_delay.as_secs(), time_limits::DRAIN_DELAY);
    }

    #[test]
    fn an_empty_list_of_public_tasks_is_a_list() {
        let tasks = |value: &str| {
            let args = serve(&[&format!("--public-tasks={value}")]);
            args.unwrap().public_tasks
        };
        assert!(tasks("*").contains("email"));
        assert!(!tasks("").contains("email"));
    }

    #[test]
    fn payloads_have_memory_of_their_own() {
        let vector = "--vector-url=http://vector:6334";
        let divided = |mebibytes: u64, flags: &[&str]| {
            let limit = format!("--memory-limit-bytes={}", mebibytes << 20);
            let flags = [&[limit.as_str()][..], flags].concat();
            serve(&flags).unwrap().divide_memory().is_ok()
        };
        for (needed, flags) in [(64, vec![]), (64 + 64, vec![vector])] {
            assert!(divided(needed, &flags), "{flags:?}");
            assert!(!divided(needed - 1, &flags), "{flags:?}");
        }
    }

    #[test]
    fn the_open_files_have_room_for_the_connections_that_the_memory_holds() {
        let files = |flags: &[&str]| {
            let flags = [&["--memory-limit-bytes=134217728"][..], flags].concat();
            let args = serve(&flags).unwrap();
            args.open_files(&args.divide_memory().unwrap())
        };
        let beside = 64 + 10 + OTHER_FILES;
        assert_eq!(files(&[]), 768 + beside);
        assert_eq!(files(&["--max-connections=100"]), 100 + beside);
        let pool = "--database-max-connections=30";
        assert_eq!(files(&[pool]), 768 + 20 + beside);
    }

    #[test]
    fn malformed_settings_are_refused_with_the_name_of_the_flag() {
        for (flag, value) in [
            ("--public-url", "localhost:8080"),
            ("--public-url", "https://a@b"),
            ("--public-url", "https://b/?x"),
            ("--request-timeout-seconds", "-1"),
            ("--request-timeout-seconds", "soon"),
            ("--max-connections", "0"),
            ("--memory-limit-bytes", "128Mi"),
            ("--cache-ttl-seconds", "0"),
            ("--cache-mode", "Single!"),
            ("--public-tasks", "a b"),
            ("--auth-protect", "admin"),
            ("--purge-retention-days", "3651"),
            ("--links-root-target", "/welcome"),
            ("--management-key", ""),
            ("--links-unknown-target", "https://a@b"),
            ("--links-forward-query", "perhaps"),
            ("--cors-allow-origins", "https://a.example/,*"),
        ] {
            let message = serve(&[&format!("{flag}={value}")])
                .unwrap_err()
                .to_string();
            assert!(message.contains(flag), "{message}");
        }
    }
}
