//! Outages of the database: clear errors at once, automatic recovery, and no loss of acknowledged links.

use std::time::{Duration, Instant};

use serde_json::json;
use shortener_testing::{
    database::TestDatabase,
    metrics::wait_for,
    proxy::{Path, Proxy},
};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, postgres::PgConnectOptions};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::{
    client::{Response, get, post, shorten},
    support::{App, Blocker, proxy_before},
};

const LINK: &str = r#"{"url":"https://example.com/"}"#;
/// The time after which a request that begins must meet a known outage.
const FAST: Duration = Duration::from_millis(250);
/// The time after which a request must have an error, if it was the first one to meet a database that vanished.
const SILENT: Duration = Duration::from_millis(1500);
/// Far above every promised time: a wait this long is a bug and not a busy machine.
const GENEROUS: Duration = Duration::from_secs(10);

async fn timed(ask: impl Future<Output = Response>) -> (Response, Duration) {
    let start = Instant::now();
    (ask.await, start.elapsed())
}

fn assert_unavailable(response: &Response) {
    response.problem(503, "database-unavailable");
    let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
}

/// The responses to the writers so far.
#[derive(Default)]
struct Answers {
    created: usize,
    refused: usize,
    enough: bool,
}

/// Returns the longest wait for a response during two seconds without the database.
async fn longest_wait(app: &App, path: &str) -> Duration {
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    while start.elapsed() < Duration::from_secs(2) {
        let late = start.elapsed() > FAST;
        let read = timed(get(app.public, path));
        let write = timed(post(app.public, "/shorten", LINK));
        let (read, write) = tokio::join!(read, write);
        for (response, elapsed) in [read, write] {
            // A request on a connection that is just being cut may still have succeeded.
            if late || response.status >= 500 {
                assert_unavailable(&response);
                longest = longest.max(elapsed);
            }
        }
    }
    longest
}

/// Repeats requests until they succeed; returns the time that took.
async fn recovered(app: &App, path: &str) -> Duration {
    let start = Instant::now();
    while get(app.public, path).await.status != 302
        || post(app.public, "/shorten", LINK).await.status != 201
    {
        assert!(start.elapsed() < Duration::from_secs(30), "never recovered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

/// Starts an app whose database is behind a proxy, and returns the path of a link.
async fn app_behind_proxy(database: &PgConnectOptions) -> (Proxy, App, String) {
    let (proxy, options) = proxy_before(database).await;
    let app = App::start(&options).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    (proxy, app, format!("/{code}"))
}

/// Returns the longest wait for an error response in each outage.
async fn survives(database: &PgConnectOptions, path_of_bytes: Path) -> Vec<Duration> {
    let (proxy, app, path) = app_behind_proxy(database).await;
    let (mut waits, mut recoveries) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        proxy.set(path_of_bytes);
        waits.push(longest_wait(&app, &path).await);
        assert_eq!(
            get(app.public, "/health").await.status,
            200,
            "a route without a query works"
        );
        get(app.public, "/no.such.code")
            .await
            .problem(404, "not-found");
        assert_eq!(
            get(app.internal, "/readyz").await.status,
            200,
            "the replica stays ready, so that clients get a clear error"
        );
        proxy.set(Path::Open);
        recoveries.push(recovered(&app, &path).await);
    }
    println!("the longest waits were {waits:?}, recovering took {recoveries:?}");
    assert!(waits.iter().chain(&recoveries).all(|took| took < &GENEROUS));
    waits
}

#[tokio::test]
async fn a_database_that_refuses_connections_is_reported_at_once_and_found_again() {
    let database = TestDatabase::new().await;
    let waits = survives(&database, Path::Refused).await;
    assert!(waits.iter().all(|wait| *wait < GENEROUS), "{waits:?}");
}

#[tokio::test]
async fn a_database_to_which_a_login_takes_four_seconds_is_found_again() {
    let database = TestDatabase::new().await;
    let (proxy, app, path) = app_behind_proxy(&database).await;
    proxy.set(Path::Refused);
    longest_wait(&app, &path).await;
    proxy.set(Path::Late(Duration::from_secs(4)));
    recovered(&app, &path).await;
}

#[tokio::test]
async fn a_database_that_vanished_is_reported_soon_and_found_again() {
    let database = TestDatabase::new().await;
    let waits = survives(&database, Path::Gone).await;
    // A database that accepts connections is given three seconds. Twice the promised time, because the machine may be busy.
    assert!(waits.iter().all(|wait| *wait < SILENT * 2), "{waits:?}");
}

#[tokio::test]
async fn a_frozen_database_is_reported_after_three_seconds_and_found_again() {
    let database = TestDatabase::new().await;
    let waits = survives(&database, Path::Silent).await;
    assert!(waits.iter().all(|wait| *wait < GENEROUS), "{waits:?}");
}

#[tokio::test]
async fn a_database_that_needs_two_seconds_for_an_answer_is_not_taken_for_a_lost_one() {
    let database = TestDatabase::new().await;
    let (proxy, app, path) = app_behind_proxy(&database).await;
    proxy.set(Path::Held);
    let public = app.public;
    let look_up = tokio::spawn(async move { get(public, &path).await });
    sleep(Duration::from_secs(2)).await;
    proxy.set(Path::Open);
    assert_eq!(look_up.await.unwrap().status, 302);
}

#[tokio::test]
async fn a_flood_of_look_ups_leaves_connections_for_creates_and_all_are_answered() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let mut blocker = Blocker::hold(&database).await;
    let mut flood = JoinSet::new();
    let mut send = |number: i64| {
        let path = format!("/unknown-{number}");
        flood.spawn(async move { get(app.public, &path).await });
    };
    // Five of ten connections are for look-ups, and their statements wait for the lock.
    for number in 0..5 {
        send(number);
        blocker.wait_for_blocked(number + 1).await;
    }
    (5..105).for_each(send);
    wait_for(app.internal, "database_waiting 100").await;
    let create = tokio::spawn(post(app.public, "/shorten", LINK));
    blocker.wait_for_blocked(6).await;
    blocker.release().await;
    assert_eq!(create.await.unwrap().status, 201);
    for last in flood.join_all().await {
        last.problem(404, "not-found");
    }
}

#[tokio::test]
async fn creates_that_pile_up_leave_connections_for_redirects_and_only_one_too_many_is_refused() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    let mut blocker = Blocker::hold_writes(&database).await;
    // Five of ten connections are for changes, and 256 of them may wait.
    let creates: Vec<_> = (0..5 + 256)
        .map(|_| tokio::spawn(post(app.public, "/shorten", LINK)))
        .collect();
    blocker.wait_for_blocked(5).await;
    wait_for(app.internal, "database_waiting 256").await;
    let refused = post(app.public, "/shorten", LINK).await;
    refused.problem(503, "database-busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(get(app.public, &format!("/{code}")).await.status, 302);
    blocker.release().await;
    for create in creates {
        assert_eq!(create.await.unwrap().status, 201);
    }
}

#[tokio::test]
async fn the_application_starts_without_a_database_and_finds_it_later() {
    let database = TestDatabase::new().await;
    let running = App::start(&database).await;
    let code = shorten(running.public, json!({"url": "https://example.com/"})).await;
    let (proxy, options) = proxy_before(&database).await;
    proxy.set(Path::Refused);
    let app = App::serve(
        crate::support::config(&crate::support::url_of(&options)),
        shortener_app::code::CodeSpace::default(),
    )
    .await;
    assert_unavailable(&post(app.public, "/shorten", LINK).await);
    proxy.set(Path::Open);
    assert!(recovered(&app, &format!("/{code}")).await < GENEROUS);
}

#[tokio::test]
async fn links_acknowledged_while_the_database_is_cut_off_again_and_again_are_all_there() {
    let database = TestDatabase::new().await;
    let (proxy, options) = proxy_before(&database).await;
    let app = App::start(&options).await;
    let (count, mut counted) = watch::channel(Answers::default());
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let count = count.clone();
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            while !count.borrow().enough {
                let url = format!("https://example.com/{writer}/{}", acknowledged.len());
                let response = post(app.public, "/shorten", json!({"url": url}).to_string()).await;
                if response.status == 201 {
                    acknowledged.push((response.json()["code"].as_str().unwrap().to_owned(), url));
                    count.send_modify(|answers| answers.created += 1);
                } else {
                    assert_unavailable(&response);
                    count.send_modify(|answers| answers.refused += 1);
                }
            }
            acknowledged
        });
    }
    for cut in 1..=6 {
        // In the middle of a stream of inserts, at another position every time.
        counted
            .wait_for(|answers| answers.created >= cut * 25)
            .await
            .unwrap();
        proxy.set(Path::Refused);
        let refused = counted.borrow().refused;
        counted
            .wait_for(|answers| answers.refused > refused)
            .await
            .unwrap();
        proxy.set(Path::Open);
    }
    count.send_modify(|answers| answers.enough = true);
    let acknowledged: Vec<(String, String)> =
        writers.join_all().await.into_iter().flatten().collect();
    wait_for_the_database(&app).await;
    for (code, url) in &acknowledged {
        assert_eq!(
            get(app.public, &format!("/{code}"))
                .await
                .header("location"),
            Some(url.as_str())
        );
    }
}

async fn wait_for_the_database(app: &App) {
    let start = Instant::now();
    while post(app.public, "/shorten", LINK).await.status != 201 {
        assert!(start.elapsed() < Duration::from_secs(30), "never recovered");
    }
}

#[tokio::test]
async fn a_failover_to_a_read_only_server_stops_writes_and_keeps_redirects() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    let path = format!("/{code}");
    let mut administrator = database
        .clone()
        .options([("default_transaction_read_only", "off")])
        .connect()
        .await
        .unwrap();
    let name = database.get_database().unwrap().to_owned();
    let read_only = |on: &str| {
        AssertSqlSafe(format!(
            "ALTER DATABASE \"{name}\" SET default_transaction_read_only = {on}"
        ))
    };
    let disconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";

    administrator.execute(read_only("on")).await.unwrap();
    administrator.execute(disconnect).await.unwrap();
    let start = Instant::now();
    while get(app.public, &path).await.status != 302 {
        assert!(start.elapsed() < GENEROUS, "redirects did not work again");
    }
    assert_unavailable(&post(app.public, "/shorten", LINK).await);
    assert_eq!(get(app.public, &path).await.status, 302);

    administrator.execute(read_only("off")).await.unwrap();
    let took = recovered(&app, &path).await;
    assert!(took < GENEROUS, "recovery took {took:?}");
}

#[tokio::test]
async fn a_slow_database_is_waited_for() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let mut blocker = Blocker::hold(&database).await;
    let create = tokio::spawn(post(app.public, "/shorten", LINK));
    // Longer than the time limit for a dead database.
    let held = Instant::now();
    while held.elapsed() < FAST * 6 {
        blocker.wait_until_blocked().await;
    }
    blocker.release().await;
    assert_eq!(create.await.unwrap().status, 201);
}
