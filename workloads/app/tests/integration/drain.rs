//! Draining within the process: requests in flight finish, idle connections are closed, and the deadline is
//! enforced.

use std::time::Duration;

use serde_json::json;
use shortener_testing::database::TestDatabase;
use tokio::net::TcpStream;

use crate::{
    client::{Connection, get, post_bytes, shorten},
    support::{App, Blocker},
};

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n";

#[tokio::test]
async fn readiness_goes_off_first_while_requests_are_still_served() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.drain_delay = Duration::from_secs(2)
    })
    .await;
    let (public, internal) = (app.public, app.internal);
    let mut kept = Connection::open(public).await;
    kept.write(HEALTH).await;
    assert_eq!(
        kept.response(true).await.unwrap().header("connection"),
        None
    );
    assert_eq!(get(internal, "/readyz").await.status, 200);

    let served = app.stop();
    while get(internal, "/readyz").await.status == 200 {}
    assert_eq!(
        get(internal, "/livez").await.status,
        200,
        "a draining replica is still alive"
    );
    assert_eq!(
        get(public, "/health").await.status,
        200,
        "new connections are still served"
    );
    kept.write(HEALTH).await;
    let last = kept.response(true).await.unwrap();
    assert_eq!(
        (last.status, last.header("connection")),
        (200, Some("close"))
    );
    assert!(kept.closed().await.is_empty());
    assert!(!served.is_finished());

    assert!(served.await.unwrap());
    assert!(
        TcpStream::connect(public).await.is_err(),
        "the port is closed"
    );
}

#[tokio::test]
async fn a_request_in_flight_is_finished_and_idle_connections_end() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let public = app.public;
    let mut idle = Connection::open(public).await;
    idle.write(HEALTH).await;
    assert_eq!(idle.response(true).await.unwrap().status, 200);
    let mut blocker = Blocker::hold(&database).await;
    let mut in_flight = Connection::open(public).await;
    in_flight
        .write(&post_bytes(
            "/shorten",
            "",
            br#"{"url":"https://example.com/","code":"last"}"#,
        ))
        .await;
    blocker.wait_until_blocked().await;

    let served = app.stop();
    assert!(idle.closed().await.is_empty());
    assert!(!served.is_finished());
    blocker.release().await;
    let response = in_flight.response(true).await.unwrap();
    assert_eq!(
        (response.status, response.header("connection")),
        (201, Some("close"))
    );
    assert!(served.await.unwrap(), "every request was finished");
}

#[tokio::test]
async fn the_drain_deadline_is_hard() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.drain_timeout = Duration::from_millis(300)
    })
    .await;
    let mut slow = Connection::open(app.public).await;
    slow.write(b"POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{").await;
    // Once a later connection was answered, the earlier request has certainly begun.
    shorten(app.public, json!({"url": "https://example.com/"})).await;
    assert!(
        !app.stop().await.unwrap(),
        "the slow request was not finished"
    );
}
