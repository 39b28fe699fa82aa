//! Connections and bodies share bounded memory, and a further connection waits.

use std::time::{Duration, Instant};

use shortener_testing::{database::TestDatabase, metrics::value};
use tokio::time::timeout;

use crate::{
    client::{Connection, get, post},
    support::{App, Blocker},
};

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n";
/// More time than a busy machine needs, and less than any time limit of the app.
const SOON: Duration = Duration::from_secs(4);
/// The smallest memory limit of the app, in bytes.
const SMALLEST: u64 = 64 * 1024 * 1024;

/// Waits until the condition is met.
async fn until(what: &str, met: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !met().await {
        assert!(start.elapsed() < SOON * 5, "waited in vain for {what}");
    }
}

#[tokio::test]
async fn a_connection_that_finds_no_place_waits_for_one() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| config.max_connections = 2).await;
    let mut blocker = Blocker::hold(&database).await;
    let mut busy = Vec::new();
    for path in ["/unknown-1", "/unknown-2"] {
        let mut connection = Connection::open(app.public).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
        connection.write(request.as_bytes()).await;
        busy.push(connection);
    }
    blocker.wait_for_blocked(2).await;
    let mut third = Connection::open(app.public).await;
    third.write(HEALTH).await;
    let early = timeout(Duration::from_millis(200), third.response(true)).await;
    assert!(early.is_err(), "a third connection was served");
    assert_eq!(
        get(app.internal, "/livez").await.status,
        200,
        "probes have connections of their own"
    );
    blocker.release().await;
    for connection in &mut busy {
        assert_eq!(connection.response(true).await.unwrap().status, 404);
    }
    let served = timeout(SOON, third.response(true)).await.unwrap();
    assert_eq!(served.unwrap().status, 200);
}

#[tokio::test]
async fn work_for_a_client_that_has_left_is_given_up() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| config.max_connections = 1).await;
    let mut blocker = Blocker::hold(&database).await;
    let mut leaving = Connection::open(app.public).await;
    leaving
        .write(b"GET /unknown HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    blocker.wait_for_blocked(1).await;
    leaving.close_sending().await;
    // The database does not answer for five seconds.
    let next = timeout(SOON, get(app.public, "/health")).await;
    assert_eq!(next.expect("the place is still taken").status, 200);
    assert!(leaving.response(true).await.is_none());
    let left = "http_requests_total{http_request_method=\"GET\",http_route=\"/{code}\",http_response_status_code=\"499\"}";
    assert_eq!(value(app.internal, left).await, 1);
    blocker.release().await;
}

#[tokio::test]
async fn bodies_share_bounded_memory() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.memory.memory_limit_bytes = Some(SMALLEST);
    })
    .await;
    let head = "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 16000\r\n\r\n";
    let begun = format!(
        "{head}{{\"url\":\"https://example.com/\",\"pad\":\"{}",
        "x".repeat(15_000)
    );
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut connection = Connection::open(app.public).await;
        connection.write(begun.as_bytes()).await;
        slow.push(connection);
    }
    let refused = "buffer_refused_total{buffer=\"bodies\"}";
    until("a refused body", async || {
        value(app.internal, refused).await > 0
    })
    .await;
    // The last clients to come found no memory.
    let last = slow.last_mut().unwrap();
    let answer = last.response(true).await.unwrap();
    answer.problem(503, "busy");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(get(app.public, "/none").await.status, 404);
    drop(slow);
    let link = r#"{"url":"https://example.com/"}"#;
    until("memory for bodies", async || {
        post(app.public, "/shorten", link).await.status == 201
    })
    .await;
}
