//! The binary: commands, log lines, signals and exit codes.

use std::{io::Write, net::SocketAddr, time::Duration};

use shortener_testing::{database::TestDatabase, process::Process, servers};
use sqlx::postgres::PgConnectOptions;
use tokio::{process::Command, time::timeout};

use crate::{
    cache_modes::file,
    client::{Connection, get, request},
    support::url_of,
};

pub const BINARY: &str = env!("CARGO_BIN_EXE_app");

pub fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Process {
    Process::spawn(
        Command::new(BINARY)
            .args(arguments)
            .envs(environment.iter().copied()),
    )
}

/// Returns the public and the internal address.
pub async fn addresses(process: &mut Process) -> (SocketAddr, SocketAddr) {
    let line = process.event("listening").await;
    let address = |field: &str| line[field].as_str().unwrap().parse().unwrap();
    (address("public.address"), address("internal.address"))
}

pub fn serving(url: &str) -> Vec<(&str, &str)> {
    vec![
        ("DATABASE_URL", url),
        ("APP_LISTEN", "127.0.0.1:0"),
        ("APP_INTERNAL_LISTEN", "127.0.0.1:0"),
        ("HOSTNAME", "replica-9"),
        ("DRAIN_DELAY_SECONDS", "0.5"),
        ("RUST_LOG", "info"),
    ]
}

pub async fn migrated(database: &PgConnectOptions) -> String {
    let url = url_of(database);
    let process = start(&["migrate"], &[("DATABASE_URL", &url)]);
    assert!(process.exit().await.success());
    url
}

#[tokio::test]
async fn sigterm_ends_the_process_cleanly_after_the_requests_in_flight() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut process = start(&[], &serving(&url));
    let (public, internal) = addresses(&mut process).await;
    let mut in_flight = Connection::open(public).await;
    in_flight.write(b"POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 30\r\n\r\n").await;
    assert_eq!(get(internal, "/readyz").await.status, 200);

    process.terminate().await;
    process.event("draining").await;
    assert_eq!(get(internal, "/readyz").await.status, 503);
    in_flight.write(br#"{"url":"https://example.com/"}"#).await;
    let response = in_flight.response(true).await.unwrap();
    assert_eq!(
        (response.status, response.header("connection")),
        (201, Some("close"))
    );
    assert_eq!(process.event("stopped").await["complete"], true);
    assert!(process.exit().await.success());
}

#[tokio::test]
async fn every_request_is_one_log_line_with_its_fields() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut process = start(&["serve"], &serving(&url));
    let (public, internal) = addresses(&mut process).await;
    get(internal, "/readyz").await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!(
        "traceparent: 00-{trace}-b7ad6b7169203331-00\r\nx-forwarded-for: 6.6.6.6, 203.0.113.9\r\n"
    );
    request(public, "GET", "/unknown%0a%22?secret=1", &headers).await;
    let line = process.event("request").await;
    assert_eq!(line["body"], "request");
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["host"], "replica-9");
    assert_eq!(line["trace_id"], trace);
    assert_eq!(line["span_id"].as_str().unwrap().len(), 16);
    assert_eq!(line["http.request.method"], "GET");
    assert_eq!(line["http.route"], "/{code}");
    assert_eq!(line["http.response.status_code"], 404);
    assert_eq!(line["url.path"], "/unknown%0a%22");
    assert_eq!(line["client.address"], "203.0.113.9");
    assert_eq!(line["error.type"], "not-found");
    assert!(line["duration"].as_f64().unwrap() > 0.0);
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
}

/// Starts the app with a limit of open files, in the words of the shell.
fn start_with_files(limit: &str, url: &str) -> Process {
    let script = format!("ulimit {limit} && exec \"$0\"");
    Process::spawn(
        Command::new("sh")
            .args(["-c", script.as_str(), BINARY])
            .envs(serving(url)),
    )
}

#[tokio::test]
async fn the_process_opens_as_many_files_as_the_system_allows() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut process = start_with_files("-S -n 64", &url);
    let (public, _) = addresses(&mut process).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(Connection::open(public).await);
    }
    // The app closes the held connections later than this.
    let answer = timeout(Duration::from_secs(5), get(public, "/health")).await;
    assert_eq!(answer.unwrap().status, 200);
    drop(held);
    process.terminate().await;
    assert!(process.exit().await.success());
}

#[tokio::test]
async fn out_of_file_descriptors_the_process_waits_and_then_goes_on() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut process = start_with_files("-n 64", &url);
    let warning = process.event("open_files_limited").await;
    assert_eq!(warning["open_files.limit"], 64);
    assert!(warning["open_files.needed"].as_u64().unwrap() > 64);
    let (public, _) = addresses(&mut process).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(Connection::open(public).await);
    }
    process.event("accept_failed").await;
    drop(held);
    assert_eq!(get(public, "/health").await.status, 200);
    process.terminate().await;
    assert!(process.exit().await.success());
}

#[tokio::test]
async fn migrate_says_what_is_wrong_when_the_database_never_comes() {
    let environment = [
        ("DATABASE_URL", "postgres://app:secret@127.0.0.1:1/app"),
        ("MIGRATE_TIMEOUT_SECONDS", "0.1"),
    ];
    let output = Command::new(BINARY)
        .arg("migrate")
        .envs(environment)
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("the database was not ready") && message.contains("refused"),
        "{message}"
    );
    assert!(
        !message.contains("secret") && !String::from_utf8_lossy(&output.stdout).contains("secret")
    );
    assert_eq!(message.lines().last(), Some("unreachable"));
}

#[tokio::test]
async fn migrate_fails_at_once_when_the_database_does_not_exist() {
    let database = TestDatabase::new().await;
    let url = url_of(&database.clone().database("no_such_database"));
    let output = Command::new(BINARY)
        .arg("migrate")
        .env("DATABASE_URL", url)
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no_such_database"), "{message}");
    assert_eq!(message.lines().last(), Some("not_found"));
}

#[tokio::test]
async fn migrate_fails_at_once_when_the_certificate_of_the_database_is_refused() {
    let [port] = servers::DATABASE_TLS
        .addresses()
        .unwrap_or_else(|error| panic!("{error}"));
    for (host, authority, word) in [
        ("localhost", "other-ca.crt", "tls_untrusted"),
        ("127.0.0.1", "ca.crt", "tls_name"),
    ] {
        let url = format!("postgres://postgres@{host}:{port}/postgres");
        let output = Command::new(BINARY)
            .arg("migrate")
            .env("DATABASE_URL", url)
            .env("DATABASE_TLS_CA_FILE", file(authority))
            .output()
            .await
            .unwrap();
        assert!(!output.status.success());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("cannot migrate the database"), "{message}");
        assert_eq!(message.lines().last(), Some(word), "{message}");
    }
}

#[tokio::test]
async fn malformed_settings_stop_the_process_with_a_message() {
    for (name, value) in [
        ("PUBLIC_URL", "localhost"),
        ("REQUEST_TIMEOUT_SECONDS", "ten"),
        ("RUST_LOG", "a=b=c"),
        ("DATABASE_URL", "nonsense"),
    ] {
        // Whatever this machine runs at the usual ports is no reason to stop.
        let mut environment = vec![
            ("DATABASE_URL", "postgres://localhost/x"),
            ("APP_LISTEN", "127.0.0.1:0"),
            ("APP_INTERNAL_LISTEN", "127.0.0.1:0"),
        ];
        environment.push((name, value));
        let output = Command::new(BINARY)
            .envs(environment)
            .output()
            .await
            .unwrap();
        assert!(!output.status.success(), "{name}={value}");
        let mut message = output.stderr;
        message.flush().unwrap();
        let message = String::from_utf8(message)
            .unwrap()
            .to_uppercase()
            .replace('-', "_");
        assert!(message.contains(name), "{name} is not named in {message}");
    }
}
