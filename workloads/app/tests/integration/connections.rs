//! Connections share bounded memory. Slow clients keep no others out, and requests in progress keep their place.

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
async fn a_new_connection_takes_the_place_of_the_one_that_has_waited_longest() {
    let database = TestDatabase::new().await;
    let app = App::start_on_this_thread(&database, |config| config.max_connections = 2).await;
    let first = Connection::open(app.public).await;
    let mut second = Connection::open(app.public).await;
    let mut third = Connection::open(app.public).await;
    third.write(HEALTH).await;
    assert_eq!(third.response(true).await.unwrap().status, 200);
    let sent = timeout(SOON, first.closed()).await.unwrap();
    assert!(sent.is_empty());
    second.write(HEALTH).await;
    assert_eq!(second.response(true).await.unwrap().status, 200);
    // The third has been idle for longer than the second.
    let mut fourth = Connection::open(app.public).await;
    fourth.write(HEALTH).await;
    assert_eq!(fourth.response(true).await.unwrap().status, 200);
    let sent = timeout(SOON, third.closed()).await.unwrap();
    assert!(sent.is_empty());
    second.write(HEALTH).await;
    assert_eq!(second.response(true).await.unwrap().status, 200);
    let refused = "buffer_refused_total{buffer=\"connections\"}";
    assert_eq!(value(app.internal, refused).await, 2);
}

#[tokio::test]
async fn requests_in_progress_keep_their_place_and_a_further_one_waits() {
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
async fn slow_bodies_keep_no_others_out() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| config.max_connections = 20).await;
    let mut slow = Vec::new();
    for _ in 0..60 {
        let mut connection = Connection::open(app.public).await;
        connection
            .write(b"POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"url\":")
            .await;
        slow.push(connection);
    }
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(get(app.public, "/health").await.status, 200);
    }
    // The time limit of a body is nine seconds.
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
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
    blocker.release().await;
}

#[tokio::test]
async fn large_heads_share_bounded_memory() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.memory.memory_limit_bytes = Some(SMALLEST);
    })
    .await;
    let (used, limit) = (
        "buffer_bytes{buffer=\"heads\"}",
        "buffer_limit_bytes{buffer=\"heads\"}",
    );
    let begun = format!(
        "GET /health HTTP/1.1\r\nhost: test\r\nx: {}",
        "x".repeat(9000)
    );
    let large = format!("{begun}\r\nconnection: close\r\n\r\n");
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut connection = Connection::open(app.public).await;
        connection.write(begun.as_bytes()).await;
        slow.push(connection);
    }
    let refused = "buffer_refused_total{buffer=\"heads\"}";
    until("a refused head", async || {
        value(app.internal, refused).await > 0
    })
    .await;
    assert!(value(app.internal, used).await <= value(app.internal, limit).await);
    assert_eq!(
        get(app.public, "/health").await.status,
        200,
        "usual heads need no memory of their own"
    );
    drop(slow);
    until("memory for a large head", async || {
        let mut connection = Connection::open(app.public).await;
        connection.write(large.as_bytes()).await;
        let response = connection.response(true).await;
        response.is_some_and(|response| response.status == 200)
    })
    .await;
}

#[tokio::test]
async fn bodies_share_bounded_memory() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.memory.memory_limit_bytes = Some(SMALLEST);
    })
    .await;
    let (used, limit) = (
        "buffer_bytes{buffer=\"bodies\"}",
        "buffer_limit_bytes{buffer=\"bodies\"}",
    );
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
    assert!(value(app.internal, used).await <= value(app.internal, limit).await);
    // The last clients to come found no memory.
    let last = slow.last_mut().unwrap();
    let answer = last.response(true).await.unwrap();
    answer.problem(503, "busy");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(get(app.public, "/none").await.status, 404);
    drop(slow);
    until("memory for bodies", async || {
        value(app.internal, used).await == 0
    })
    .await;
    let link = r#"{"url":"https://example.com/"}"#;
    assert_eq!(post(app.public, "/shorten", link).await.status, 201);
}
