//! TLS to real servers: a private authority, an expired certificate, another name, an unknown authority, and
//! certificates of the client.
//!
//! The tests start the servers, see `shortener_testing::servers`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use clap::Parser;
use prometheus_client::registry::Registry;
use shortener_common::{
    backends::Fault,
    config::{DatabaseArgs, QueueArgs},
    database::unusable,
    queue::{self, connect},
    tls::{explained, fault},
    vector::{VectorArgs, VectorError, VectorMetrics, VectorStore},
};
use shortener_testing::servers;
use sqlx::{ConnectOptions, Connection, Row};

#[derive(Debug, Parser)]
struct Settings {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    vector: VectorArgs,
}

/// The name in the certificate of the servers.
const NAME: &str = "localhost";

/// A host, an authority that a client may trust, true if the server's certificate has expired, and the fault that the
/// client finds.
type Case = (&'static str, &'static str, bool, Option<Fault>);

const CASES: [Case; 4] = [
    (NAME, "ca.crt", false, None),
    (NAME, "ca.crt", true, Some(Fault::TlsExpired)),
    (NAME, "other-ca.crt", false, Some(Fault::TlsUntrusted)),
    ("127.0.0.1", "ca.crt", false, Some(Fault::TlsName)),
];

fn file(name: &str) -> String {
    let [folder] = servers::CERTIFICATES
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    format!("{folder}/{name}")
}

/// Returns the arguments for the certificates of a store.
fn certificates(store: &str, authority: &str, with_identity: bool) -> Vec<String> {
    let mut arguments = vec![format!("--{store}-tls-ca-file={}", file(authority))];
    if with_identity {
        arguments.push(format!("--{store}-tls-cert-file={}", file("client.crt")));
        arguments.push(format!("--{store}-tls-key-file={}", file("client.key")));
    }
    arguments
}

/// Connects to the database, and returns the subject of the client's certificate as the server knows it.
async fn database(
    host: &str,
    expired: bool,
    arguments: Vec<String>,
) -> Result<String, sqlx::Error> {
    let server = if expired {
        &servers::DATABASE_EXPIRED
    } else {
        &servers::DATABASE_TLS
    };
    let [port] = server.addresses().unwrap_or_else(|error| panic!("{error}"));
    // Overrides a URL that the environment of the tests may contain, which turns TLS off besides.
    let url = format!("--database-url=postgres://postgres@{host}:{port}/postgres?sslmode=disable");
    let arguments = ["test".to_owned(), url].into_iter().chain(arguments);
    let settings = Settings::parse_from(arguments);
    let options = settings.database.connect_options().unwrap();
    let mut connection = options.connect().await?;
    let subject = "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let row = sqlx::query(subject).fetch_one(&mut connection).await?;
    connection.close().await?;
    row.try_get(0)
}

/// Connects to the broker. A client refuses an expired certificate before the server speaks its protocol, so another
/// server has it.
async fn broker(host: &str, expired: bool, arguments: Vec<String>) -> lapin::Result<()> {
    let port = if expired {
        let vector = servers::VECTOR_EXPIRED.addresses();
        vector.map(|[port, _]| port)
    } else {
        let broker = servers::BROKER_TLS.addresses();
        broker.map(|[port]| port)
    };
    let port = port.unwrap_or_else(|error| panic!("{error}"));
    let url = format!("--queue-url=amqp://guest:guest@{host}:{port}");
    let database = "--database-url=postgres://unused/x".to_owned();
    // The library may take the crypto provider of the process, which a program chooses at its start.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let program = ["test".to_owned(), database, url];
    let settings = Settings::parse_from(program.into_iter().chain(arguments));
    let broker = settings.queue.broker().unwrap().unwrap();
    let connection = connect(&broker, "test").await?;
    connection.close(200, "done".into()).await
}

/// Asks the vector store for the collection.
async fn vector(host: &str, expired: bool, arguments: Vec<String>) -> Result<bool, VectorError> {
    let server = if expired {
        &servers::VECTOR_EXPIRED
    } else {
        &servers::VECTOR_TLS
    };
    let [port, key] = server.addresses().unwrap_or_else(|error| panic!("{error}"));
    let program = [
        "test".to_owned(),
        "--database-url=postgres://unused/x".to_owned(),
        format!("--vector-url=http://{host}:{port}"),
        format!("--vector-api-key={key}"),
    ];
    let settings = Settings::parse_from(program.into_iter().chain(arguments));
    let metrics = || VectorMetrics::register(&mut Registry::default());
    let store = VectorStore::new(&settings.vector, metrics).unwrap();
    store.unwrap().open().await
}

#[tokio::test]
async fn a_database_is_verified_and_knows_its_client() {
    for (host, authority, expired, expected) in CASES {
        let arguments = certificates("database", authority, true);
        let found = database(host, expired, arguments).await;
        match (found, expected) {
            (Ok(subject), None) => assert!(subject.contains("client.test"), "{subject}"),
            (Err(error), Some(expected)) => {
                assert_eq!(fault(&error), Some(expected), "{error}");
                assert_eq!(unusable(&error).fault, Some(expected));
                let text = explained(&error);
                assert!(text.contains(&expected.to_string()), "{text}");
            }
            (found, expected) => panic!("{host} {authority}: {found:?} instead of {expected:?}"),
        }
    }
    let stranger = database(NAME, false, certificates("database", "ca.crt", false)).await;
    assert!(stranger.is_err(), "{stranger:?}");
}

#[tokio::test]
async fn the_mode_decides_how_much_of_a_database_s_certificate_is_verified() {
    let with_mode = |mode: &str, authority: &str| {
        let mut arguments = certificates("database", authority, true);
        arguments.push(format!("--database-tls-mode={mode}"));
        arguments
    };
    let other_name = "127.0.0.1";
    for (mode, authority, expired, expected) in [
        ("require", "other-ca.crt", true, None),
        ("verify-ca", "ca.crt", false, None),
        (
            "verify-ca",
            "other-ca.crt",
            false,
            Some(Fault::TlsUntrusted),
        ),
        ("verify-ca", "ca.crt", true, Some(Fault::TlsExpired)),
        ("verify-full", "ca.crt", false, Some(Fault::TlsName)),
    ] {
        let found = database(other_name, expired, with_mode(mode, authority)).await;
        let found = found.map(drop).map_err(|error| fault(&error));
        assert_eq!(found.err(), expected.map(Some), "{mode} with {authority}");
    }
}

#[tokio::test]
async fn a_broker_is_verified_and_knows_its_client() {
    for (host, authority, expired, expected) in CASES {
        let found = broker(host, expired, certificates("queue", authority, true)).await;
        match (found, expected) {
            (Ok(()), None) => {}
            (Err(error), Some(expected)) => {
                assert_eq!(fault(&error), Some(expected), "{error}");
                assert_eq!(queue::fault(&error), Some(expected));
                let text = explained(&error);
                assert!(text.contains(&expected.to_string()), "{text}");
            }
            (found, expected) => panic!("{host} {authority}: {found:?} instead of {expected:?}"),
        }
    }
    let stranger = broker(NAME, false, certificates("queue", "ca.crt", false)).await;
    assert!(stranger.is_err(), "{stranger:?}");
}

/// Qdrant asks no client for a certificate at its gRPC port; one that is presented does no harm.
#[tokio::test]
async fn a_vector_store_is_verified() {
    for (host, authority, expired, expected) in CASES {
        let found = vector(host, expired, certificates("vector", authority, true)).await;
        match (found, expected) {
            (Ok(_), None) => {}
            (Err(VectorError::Unavailable { reason, fault }), Some(expected)) => {
                assert!(reason.contains(&expected.to_string()), "{reason}");
                assert_eq!(fault, Some(expected));
            }
            (found, expected) => panic!("{host} {authority}: {found:?} instead of {expected:?}"),
        }
    }
}
