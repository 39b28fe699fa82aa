//! The servers of the tests: PostgreSQL, RabbitMQ, the vector store, and programs that tests start themselves.
//!
//! A server starts when a test first needs it, once for all tests of one `cargo test`, and ends with it. Variables
//! with the addresses of a running server take its place. Nothing here builds an image: an error names the command
//! that does.

mod broker;
mod certificates;
mod database;
mod engine;
mod lifetime;
mod pooler;
mod program;
mod vector;

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, bail};
use uuid::Uuid;

pub(crate) use self::broker::AUTHORIZATION as BROKER_AUTHORIZATION;
use self::lifetime::{Folder, Medium};

/// The database; `TEST_DATABASE_URL` has the URL of a role that may create databases.
pub static DATABASE: Server<1> = Server::new(
    "PostgreSQL",
    ["TEST_DATABASE_URL"],
    Medium::Memory,
    database::start,
);
/// PgBouncer in transaction mode before the database, without a password; `TEST_POOLER_URL` has its URL of the same role.
/// It has fewer sessions than an app has connections, so that connections share them.
pub static POOLER: Server<1> =
    Server::new("PgBouncer", ["TEST_POOLER_URL"], Medium::Memory, |folder| {
        pooler::start(folder, "transaction", 5)
    });
/// PgBouncer in session mode; `TEST_POOLER_OF_SESSIONS_URL` has its URL.
pub static POOLER_OF_SESSIONS: Server<1> = Server::new(
    "PgBouncer in session mode",
    ["TEST_POOLER_OF_SESSIONS_URL"],
    Medium::Memory,
    |folder| pooler::start(folder, "session", 50),
);
/// The broker; `TEST_BROKER_URL` has its AMQP URL for the user `guest` without a virtual host, and `TEST_BROKER_API`
/// and `TEST_BROKER_METRICS` have `host:port` of the management API and of the metrics.
pub static BROKER: Server<3> = Server::new(
    "RabbitMQ",
    ["TEST_BROKER_URL", "TEST_BROKER_API", "TEST_BROKER_METRICS"],
    Medium::Memory,
    broker::start,
);
/// The vector store; the variables have its URL for gRPC, its URL for HTTP, and its API key. It is the stand-in for
/// Qdrant of the local cluster.
pub static VECTOR: Server<3> = Server::new(
    "the vector store",
    [
        "TEST_VECTOR_URL",
        "TEST_VECTOR_HTTP_URL",
        "TEST_VECTOR_API_KEY",
    ],
    Medium::Memory,
    vector::start,
);
/// A folder with certificates and keys (PEM); `TEST_CERTIFICATES` has its path. All servers with TLS use them:
///
/// | file | content |
/// | --- | --- |
/// | `server.crt`, `server.key` | a certificate for `localhost` alone |
/// | `expired.crt` | the same, but expired; its key is `server.key` |
/// | `ca.crt` | the authority that signed them, and `client.crt` |
/// | `other-ca.crt` | an authority that signed neither |
/// | `client.crt`, `client.key` | a certificate for a client |
pub static CERTIFICATES: Server<1> = Server::new(
    "certificates",
    ["TEST_CERTIFICATES"],
    Medium::Disk,
    certificates::write,
);
/// The database with TLS, which demands a certificate of its clients; `TEST_DATABASE_TLS_PORT` has its port.
pub static DATABASE_TLS: Server<1> = Server::new(
    "PostgreSQL with TLS",
    ["TEST_DATABASE_TLS_PORT"],
    Medium::Memory,
    |folder| database::start_with_tls(folder, "server.crt"),
);
/// The database with an expired certificate; `TEST_DATABASE_EXPIRED_PORT` has its port.
pub static DATABASE_EXPIRED: Server<1> = Server::new(
    "PostgreSQL with an expired certificate",
    ["TEST_DATABASE_EXPIRED_PORT"],
    Medium::Memory,
    |folder| database::start_with_tls(folder, "expired.crt"),
);
/// The broker with TLS, which demands a certificate of its clients; `TEST_BROKER_TLS_PORT` has its port.
pub static BROKER_TLS: Server<1> = Server::new(
    "RabbitMQ with TLS",
    ["TEST_BROKER_TLS_PORT"],
    Medium::Memory,
    broker::start_with_tls,
);
/// The vector store with TLS; the variables have its gRPC port and its API key.
pub static VECTOR_TLS: Server<2> = Server::new(
    "the vector store with TLS",
    ["TEST_VECTOR_TLS_PORT", "TEST_VECTOR_TLS_API_KEY"],
    Medium::Memory,
    |folder| vector::start_with_tls(folder, "server.crt"),
);
/// The vector store with an expired certificate; the variables have its gRPC port and its API key.
pub static VECTOR_EXPIRED: Server<2> = Server::new(
    "the vector store with an expired certificate",
    ["TEST_VECTOR_EXPIRED_PORT", "TEST_VECTOR_EXPIRED_API_KEY"],
    Medium::Memory,
    |folder| vector::start_with_tls(folder, "expired.crt"),
);
/// The program of the cache; `TEST_VALKEY_SERVER` has its path.
pub static VALKEY: Server<1> = Server::new(
    "valkey-server",
    ["TEST_VALKEY_SERVER"],
    Medium::Disk,
    |folder| program::take(folder, "CACHE_IMAGE", "valkey-server"),
);
/// The program of the gateway; `TEST_NGINX` has its path.
pub static NGINX: Server<1> = Server::new("nginx", ["TEST_NGINX"], Medium::Disk, |folder| {
    program::take(folder, "GATEWAY_IMAGE", "nginx")
});

/// Returns a command that runs a program in the image of the database as its user. The options are those of `docker run`.
///
/// # Errors
/// Fails if the image is missing; the message says how to get it.
pub fn in_image_of_database(options: &[&str], program: &[&str]) -> Result<Command> {
    let image = engine::image("POSTGRES_IMAGE")?;
    let mut run = Command::new("docker");
    run.args(["run", "--rm", "--user", "999:999"]);
    let (program, arguments) = program.split_first().context("no program is named")?;
    run.args(options).args(["--entrypoint", program, &image]);
    run.args(arguments);
    Ok(run)
}

/// A server with `N` addresses, each named by an environment variable.
pub struct Server<const N: usize> {
    name: &'static str,
    variables: [&'static str; N],
    medium: Medium,
    start: fn(&Folder) -> Result<[String; N]>,
    found: OnceLock<Result<[String; N]>>,
}

impl<const N: usize> Server<N> {
    const fn new(
        name: &'static str,
        variables: [&'static str; N],
        medium: Medium,
        start: fn(&Folder) -> Result<[String; N]>,
    ) -> Self {
        Self {
            name,
            variables,
            medium,
            start,
            found: OnceLock::new(),
        }
    }

    /// Returns the addresses of the server, and starts it if necessary.
    ///
    /// # Errors
    /// Fails if the server cannot be started; the message says what is missing and how to get it.
    pub fn addresses(&self) -> Result<&[String; N]> {
        let found = self.found.get_or_init(|| self.find_or_start());
        found.as_ref().map_err(|error| anyhow!("{error:#}"))
    }

    fn find_or_start(&self) -> Result<[String; N]> {
        if let Some(given) = given(self.variables, |name| env::var(name).ok())? {
            return Ok(given);
        }
        let folder = Folder::of(self.name, self.medium)?;
        // Another process of the same run waits here while this one starts the server.
        let _lock = folder.lock()?;
        let file = folder.path("addresses");
        if let Ok(addresses) = fs::read_to_string(&file) {
            return parse(&addresses);
        }
        let addresses = (self.start)(&folder)
            .with_context(|| format!("{} does not start for the tests", self.name));
        match &addresses {
            Ok(addresses) => fs::write(&file, addresses.join("\n"))?,
            Err(_) => folder.remove(),
        }
        addresses
    }
}

/// Returns the addresses in the environment, or `None` if there are none.
fn given<const N: usize>(
    names: [&str; N],
    value: impl Fn(&str) -> Option<String>,
) -> Result<Option<[String; N]>> {
    let values = names.map(&value);
    let absent = (0..N).find(|&place| values[place].is_none());
    let present = (0..N).find(|&place| values[place].is_some());
    match (absent, present) {
        (None, _) => Ok(Some(values.map(Option::unwrap))),
        (Some(_), None) => Ok(None),
        (Some(absent), Some(present)) => bail!(
            "{} is set, and {} is not: set both, or neither",
            names[present],
            names[absent]
        ),
    }
}

fn parse<const N: usize>(addresses: &str) -> Result<[String; N]> {
    let addresses: Vec<String> = addresses.lines().map(str::to_owned).collect();
    addresses
        .try_into()
        .map_err(|found| anyhow!("expected {N} addresses, found {found:?}"))
}

/// Returns ports without a listener. They are below the range that the kernel takes for outgoing connections, so none
/// of those takes a port before the server does.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut candidates = (Uuid::now_v7().as_u128() as u16..=u16::MAX).chain(0..=u16::MAX);
    let mut held = Vec::new();
    std::array::from_fn(|_| {
        let (port, listener) = candidates
            .by_ref()
            .map(|number| 20_000 + number % 10_000)
            .find_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
            .expect("no port from 20000 to 29999 is free");
        held.push(listener);
        port
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io, thread,
        time::{Duration, Instant},
    };

    use super::*;

    const NAMES: [&str; 2] = ["A", "B"];
    /// The time limit for a port to be free again.
    const FREE: Duration = Duration::from_secs(10);

    #[test]
    fn a_server_that_runs_already_is_used_if_all_its_variables_are_set() {
        let both = given(NAMES, |name| Some(name.to_lowercase())).unwrap();
        assert_eq!(both.unwrap(), ["a", "b"]);
        assert!(given(NAMES, |_| None).unwrap().is_none());
        let one = given(NAMES, |name| (name == "B").then(String::new)).unwrap_err();
        assert_eq!(
            one.to_string(),
            "B is set, and A is not: set both, or neither"
        );
    }

    #[test]
    fn other_processes_of_a_run_read_the_addresses_as_they_were_written() {
        let addresses = ["amqp://a".to_owned(), "b:1".to_owned()];
        assert_eq!(parse::<2>(&addresses.join("\n")).unwrap(), addresses);
        assert!(parse::<2>("one").is_err());
    }

    /// Listens on a port that was found to be free. A process that another test is just starting has a copy of the listener
    /// that found it, until it runs its own program.
    fn bind(port: u16) -> io::Result<TcpListener> {
        let begin = Instant::now();
        loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < FREE =>
                {
                    thread::yield_now();
                }
                bound => return bound,
            }
        }
    }

    #[test]
    fn free_ports_differ_and_accept_a_listener() {
        let ports: [u16; 4] = free_ports();
        let listeners = ports.map(|port| bind(port).unwrap());
        let bound = listeners.map(|listener| listener.local_addr().unwrap().port());
        assert_eq!(bound, ports);
    }
}
