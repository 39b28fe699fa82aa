//! Copies of links in the process itself while the cache is frozen, cut off or slow (A2, A3), or the process hardly runs:
//! no redirect that begins later than a lease after a deletion is stale.

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use serde_json::json;
use shortener_app::store::cache::LEASE;
use shortener_testing::{
    database::TestDatabase,
    metrics,
    process::Process,
    proxy::{Path, Proxy},
};
use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};
use tokio::{
    sync::{Barrier, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    cache::cache_is_up,
    cache_near::{URL, is_near},
    cache_server::{Redis, late},
    client::{Connection, shorten},
    process::{addresses, migrated, serving, start},
    support::App,
};

/// The deadline of the cache. It is longer than a lease, which does not depend on it.
const DEADLINE: Duration = Duration::from_secs(1);
/// The number of clients, and the pause of each between two requests.
const CLIENTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(5);
/// The longest time that a test waits for its clients.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of links that are deleted while the app hardly runs.
const ROUNDS: usize = 5;
/// The turns of an app that hardly runs: as with a small quota of the processor, it stands still for long and then runs for
/// a moment.
const STOPPED: Duration = LEASE.saturating_mul(2);
const RUNNING: Duration = Duration::from_millis(20);

/// Starts an app with the cache at this URL, and a link that it follows from its memory.
async fn app_with(database: &PgConnectOptions, cache: &Redis, url: String) -> (App, String) {
    let app = App::start_with(database, |config| {
        config.cache.cache_url = Some(url);
        config.cache.cache_timeout = DEADLINE;
        config.cache.cache_near_bytes = 1024 * 1024;
    })
    .await;
    cache_is_up(&app).await;
    let code = near_link(database, cache, app.public).await;
    (app, code)
}

/// Starts an app whose connection to the cache passes a proxy, and a link that it follows from its memory.
async fn app_behind_proxy(database: &PgConnectOptions, cache: &Redis) -> (App, String, Proxy) {
    let proxy = Proxy::before(format!("127.0.0.1:{}", cache.port)).await;
    let url = format!("redis://{}", proxy.address);
    let (app, code) = app_with(database, cache, url).await;
    (app, code, proxy)
}

/// Creates a link that the app follows from its memory. In the database it has expired: nothing but a copy redirects.
async fn near_link(database: &PgConnectOptions, cache: &Redis, public: SocketAddr) -> String {
    let code = shorten(public, json!({"url": URL})).await;
    is_near(public, cache, &code).await;
    let mut connection = database.connect().await.unwrap();
    connection
        .execute("UPDATE links SET expires_at = now()")
        .await
        .unwrap();
    code
}

/// Deletes the copy in the cache; returns the time of the confirmation.
async fn delete(cache: &Redis, code: &str) -> Instant {
    let deleted = cache.ask::<u64>(&["DEL", &format!("link:{code}")]).await;
    assert_eq!(deleted, 1);
    Instant::now()
}

fn request(code: &str) -> Vec<u8> {
    format!("GET /{code} HTTP/1.1\r\nhost: test\r\n\r\n").into_bytes()
}

/// Follows a link until some time after its deletion; returns the begin and the status of each request.
async fn follow(
    public: SocketAddr,
    code: &str,
    followed: &Barrier,
    deleted: watch::Receiver<Option<Instant>>,
) -> Vec<(Instant, u16)> {
    let mut connection = Connection::open(public).await;
    let mut answers = Vec::new();
    loop {
        let begun = Instant::now();
        connection.write(&request(code)).await;
        let response = connection.response(true).await.unwrap();
        answers.push((begun, response.status));
        if answers.len() == 1 {
            followed.wait().await;
        }
        if deleted.borrow().is_some_and(|at| begun > at + LEASE * 3) {
            return answers;
        }
        sleep(PAUSE).await;
    }
}

/// Runs a deletion while clients follow the link. It returns its time, from which on a copy may count for a lease.
async fn no_redirect_is_stale(
    public: SocketAddr,
    code: &str,
    deletion: impl Future<Output = Instant>,
) {
    let followed = Barrier::new(CLIENTS + 1);
    let (told, deleted) = watch::channel(None);
    let clients = (0..CLIENTS).map(|_| follow(public, code, &followed, deleted.clone()));
    let deletion = async {
        followed.wait().await;
        let at = deletion.await;
        told.send_replace(Some(at));
        at
    };
    let all = async { tokio::join!(deletion, join_all(clients)) };
    let (at, answers) = timeout(PATIENCE, all).await.unwrap();
    let answers = answers.into_iter().flatten();
    let redirects = answers.filter(|(_, status)| *status == 302);
    let latest = redirects.map(|(begun, _)| begun).max();
    let latest = latest.map(|begun| begun.saturating_duration_since(at));
    println!("the latest redirect began {latest:?} after the deletion");
    assert!(latest <= Some(LEASE), "{latest:?}");
}

#[tokio::test]
async fn the_copies_of_a_frozen_cache_count_for_a_lease() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code) = app_with(&database, &cache, cache.url()).await;
    // A frozen cache deletes nothing, but it tells of nothing either.
    let frozen = async {
        cache.freeze();
        Instant::now()
    };
    no_redirect_is_stale(app.public, &code, frozen).await;
    let thawed = async {
        cache.thaw();
        delete(&cache, &code).await
    };
    no_redirect_is_stale(app.public, &code, thawed).await;
}

#[tokio::test]
async fn a_deletion_whose_message_is_lost_takes_effect_within_a_lease() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code, proxy) = app_behind_proxy(&database, &cache).await;
    no_redirect_is_stale(app.public, &code, async {
        proxy.set(Path::Silent);
        delete(&cache, &code).await
    })
    .await;
}

#[tokio::test]
async fn a_deletion_whose_message_is_held_up_takes_effect_within_a_lease() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code, proxy) = app_behind_proxy(&database, &cache).await;
    no_redirect_is_stale(app.public, &code, async {
        proxy.set(Path::Held);
        let deleted = delete(&cache, &code).await;
        sleep_until(deleted + LEASE * 2).await;
        // The message arrives together with the answers to questions of this time.
        proxy.set(Path::Open);
        deleted
    })
    .await;
}

#[tokio::test]
async fn a_deletion_in_a_slow_cache_takes_effect_within_a_lease() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let url = late(&cache, LEASE / 2).await;
    let (app, code) = app_with(&database, &cache, url).await;
    no_redirect_is_stale(app.public, &code, delete(&cache, &code)).await;
}

/// Starts the program with a patient cache; returns it with its public address.
async fn program(database: &PgConnectOptions, cache: &Redis) -> (Process, SocketAddr) {
    let (url, cache) = (migrated(database).await, cache.url());
    let mut environment = serving(&url);
    environment.extend([
        ("CACHE_URL", cache.as_str()),
        ("CACHE_TIMEOUT_SECONDS", "10"),
        ("CACHE_NEAR_BYTES", "1048576"),
        ("LIMIT_SHORTEN_PER_MINUTE", "0"),
        ("LIMIT_REQUESTS_PER_SECOND", "0"),
    ]);
    let mut process = start(&[], &environment);
    let (public, internal) = addresses(&mut process).await;
    metrics::wait_for(internal, "cache_near_up 1").await;
    (process, public)
}

#[tokio::test]
async fn an_app_that_stood_still_uses_no_copy_from_before() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (process, public) = program(&database, &cache).await;
    let code = near_link(&database, &cache, public).await;
    process.signal("-STOP");
    let deleted = delete(&cache, &code).await;
    sleep_until(deleted + LEASE).await;
    // These requests are there before the app can hear of the deletion.
    let mut waiting = Vec::new();
    for _ in 0..CLIENTS {
        let mut connection = Connection::open(public).await;
        connection.write(&request(&code)).await;
        waiting.push(connection);
    }
    process.signal("-CONT");
    for mut connection in waiting {
        let response = connection.response(true).await.unwrap();
        assert_ne!(response.status, 302, "{response:?}");
    }
}

/// Throttles a process for as long as this runs.
async fn throttle(process: &Process) {
    loop {
        process.signal("-STOP");
        sleep(STOPPED).await;
        process.signal("-CONT");
        sleep(RUNNING).await;
    }
}

#[tokio::test]
async fn a_deletion_takes_effect_within_a_lease_in_an_app_that_hardly_runs() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (process, public) = program(&database, &cache).await;
    for _ in 0..ROUNDS {
        let code = near_link(&database, &cache, public).await;
        tokio::select! {
            () = no_redirect_is_stale(public, &code, delete(&cache, &code)) => {}
            () = throttle(&process) => {}
        }
        process.signal("-CONT");
    }
}
