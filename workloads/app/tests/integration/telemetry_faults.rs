//! Fault A9: in every failure of the collector, requests are answered as usual, and lost items are counted.

use std::time::{Duration, Instant};

use serde_json::json;
use shortener_testing::{
    database::TestDatabase,
    metrics,
    otlp::{Mode, Sink, closed_endpoint},
};
use sqlx::postgres::PgConnectOptions;

use crate::{
    client::{Connection, get, shorten},
    process::{addresses, migrated, serving, start},
};

/// The number of bursts, and of requests per burst: together more than two full batches of spans.
const FLOOD: (usize, usize) = (90, 50);
/// The number of redirects that are timed.
const REDIRECTS: usize = 100;
/// Far above the time of a request, and below every timeout of the exporter.
const PROMPT: Duration = Duration::from_secs(1);
/// Two seconds for the last batches, and tolerance for a busy machine; less than the exporter's timeout.
const EXIT: Duration = Duration::from_secs(4);

/// Checks that requests are answered, drops are counted, and the process ends in time.
async fn survives(database: &PgConnectOptions, endpoint: &str) {
    let url = migrated(database).await;
    let mut environment = serving(&url);
    environment.extend([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("LIMIT_REQUESTS_PER_SECOND", "0"),
    ]);
    let mut process = start(&[], &environment);
    let (public, internal) = addresses(&mut process).await;
    let code = shorten(public, json!({"url": "https://example.com/"})).await;
    let redirect = format!("GET /{code} HTTP/1.1\r\nhost: test\r\n\r\n");
    let mut connection = Connection::open(public).await;
    let burst = "GET /health HTTP/1.1\r\nhost: test\r\n\r\n".repeat(FLOOD.1);
    for _ in 0..FLOOD.0 {
        connection.write(burst.as_bytes()).await;
        for _ in 0..FLOOD.1 {
            assert_eq!(connection.response(true).await.unwrap().status, 200);
        }
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..REDIRECTS {
        let begin = Instant::now();
        connection.write(redirect.as_bytes()).await;
        let response = connection.response(true).await.unwrap();
        assert_eq!(response.status, 302);
        slowest = slowest.max(begin.elapsed());
    }
    assert!(slowest < PROMPT, "a request took {slowest:?}");
    metrics::wait_for_drops(internal).await;
    process.terminate().await;
    assert_eq!(process.event("stopped").await["complete"], true);
    // From here on the process only waits for its last batches.
    let begin = Instant::now();
    assert!(process.exit().await.success());
    assert!(begin.elapsed() < EXIT, "the end took {:?}", begin.elapsed());
}

#[tokio::test]
async fn a_collector_that_is_away_changes_nothing() {
    let database = TestDatabase::new().await;
    survives(&database, &closed_endpoint().await).await;
}

#[tokio::test]
async fn a_collector_that_refuses_changes_nothing() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Refusing);
    survives(&database, &endpoint).await;
}

#[tokio::test]
async fn a_collector_that_is_frozen_changes_nothing() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Frozen);
    survives(&database, &endpoint).await;
}

#[tokio::test]
async fn a_collector_that_comes_back_gets_what_happens_from_then_on() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    sink.set(Mode::Refusing);
    let url = migrated(&database).await;
    let mut environment = serving(&url);
    environment.push(("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()));
    let mut process = start(&[], &environment);
    let (public, _) = addresses(&mut process).await;
    get(public, "/health").await;
    process.event("telemetry_unavailable").await;
    sink.set(Mode::Taking);
    get(public, "/health").await;
    let request = process.event("request").await;
    sink.span(request["trace_id"].as_str().unwrap(), "GET /health")
        .await;
}
