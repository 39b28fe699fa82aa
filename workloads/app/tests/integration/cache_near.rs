//! Copies of links in the process itself, which the cache invalidates (A3).

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use shortener_testing::{database::TestDatabase, metrics};
use sqlx::postgres::PgConnectOptions;

use crate::{
    cache::{assert_redirects, cache_is_up, counts, metric},
    cache_server::{PATIENT, Redis, until},
    client::{get, shorten},
    support::App,
};

pub const URL: &str = "https://example.com/near?a=b";
/// The number of consecutive deletes. A few invalidations may arrive after the next request, because the server
/// answers the deleting client first.
const DELETES: u64 = 100;
const MAY_BE_LATE: u64 = 2;

/// Starts an app with copies in its process, and creates a link.
async fn start(database: &PgConnectOptions, cache: &Redis, deadline: Duration) -> (App, String) {
    let app = App::start_with(database, |config| {
        cache.configure(config);
        config.cache.cache_timeout = deadline;
        config.cache.cache_near_bytes = 1024 * 1024;
    })
    .await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    (app, code)
}

async fn follow(app: &App, code: &str) {
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
}

async fn misses(app: &App) -> u64 {
    counts(app).await.1
}

/// Returns the number of links that the server has looked up and found.
async fn found_by(cache: &Redis) -> u64 {
    let info = cache.ask::<String>(&["INFO", "stats"]).await;
    let found = info
        .lines()
        .find_map(|line| line.strip_prefix("keyspace_hits:"));
    found.unwrap().parse().unwrap()
}

/// Waits until the app follows the link without a query to the cache.
pub async fn is_near(public: SocketAddr, cache: &Redis, code: &str) {
    until(true, || async {
        let before = found_by(cache).await;
        assert_redirects(&get(public, &format!("/{code}")).await, URL);
        found_by(cache).await == before
    })
    .await;
}

#[tokio::test]
async fn what_was_followed_twice_is_followed_without_asking_the_cache() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code) = start(&database, &cache, PATIENT).await;
    for _ in 0..2 {
        let before = found_by(&cache).await;
        follow(&app, &code).await;
        assert!(found_by(&cache).await > before, "the cache is asked");
    }
    // On a busy machine the lease may end in between.
    until(true, || async {
        let before = found_by(&cache).await;
        for _ in 0..10 {
            follow(&app, &code).await;
        }
        found_by(&cache).await == before
    })
    .await;
    let (hits, misses) = counts(&app).await;
    assert!(hits >= 12 && misses == 0, "{hits} hits, {misses} misses");
    assert_eq!(metric(&app, "cache_near_up").await, 1);
}

#[tokio::test]
async fn a_link_that_is_followed_once_in_a_while_is_deleted_exactly() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, _) = start(&database, &cache, PATIENT).await;
    for round in 1..=DELETES {
        let code = shorten(app.public, json!({"url": URL})).await;
        follow(&app, &code).await;
        let key = format!("link:{code}");
        assert_eq!(cache.ask::<u64>(&["DEL", &key]).await, 1);
        follow(&app, &code).await;
        assert_eq!(counts(&app).await, (round, round));
    }
}

#[tokio::test]
async fn a_redirect_right_after_a_delete_is_a_miss_that_repopulates() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code) = start(&database, &cache, PATIENT).await;
    let (key, mut late) = (format!("link:{code}"), 0);
    for _ in 0..DELETES {
        is_near(app.public, &cache, &code).await;
        let before = misses(&app).await;
        assert_eq!(cache.ask::<u64>(&["DEL", &key]).await, 1);
        follow(&app, &code).await;
        late += u64::from(misses(&app).await == before);
        // This also holds after an invalidation that came too late.
        until(Some(URL.to_owned()), || async {
            follow(&app, &code).await;
            cache.link(&code).await
        })
        .await;
    }
    println!("{late} of {DELETES} redirects right after a delete were hits");
    assert!(late <= MAY_BE_LATE, "{late} of {DELETES}");
}

#[tokio::test]
async fn nothing_outlives_a_flush_or_its_key() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code) = start(&database, &cache, PATIENT).await;
    let key = format!("link:{code}");
    for (number, end) in [&["FLUSHALL"][..], &["PEXPIRE", &key, "300"]]
        .into_iter()
        .enumerate()
    {
        is_near(app.public, &cache, &code).await;
        cache.ask::<redis::Value>(end).await;
        until(number as u64 + 1, || async {
            follow(&app, &code).await;
            misses(&app).await
        })
        .await;
    }
}

#[tokio::test]
async fn the_copies_go_with_the_connection_and_no_redirect_after_a_delete_is_stale() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code) = start(&database, &cache, PATIENT).await;
    for round in 1..=5 {
        is_near(app.public, &cache, &code).await;
        let killed = cache
            .ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal"])
            .await;
        assert!(killed >= 1);
        cache.ask::<u64>(&["DEL", &format!("link:{code}")]).await;
        // There is no invalidation of this delete, so the copies must have been dropped with the connection.
        until(true, || async {
            follow(&app, &code).await;
            misses(&app).await >= round
        })
        .await;
        cache_is_up(&app).await;
    }
}

#[tokio::test]
async fn a_cache_that_falls_silent_is_noticed_though_nobody_asks_it() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (app, code) = start(&database, &cache, Duration::from_millis(100)).await;
    is_near(app.public, &cache, &code).await;
    cache.freeze();
    metrics::wait_for(app.internal, "cache_up 0").await;
    let before = misses(&app).await;
    follow(&app, &code).await;
    assert_eq!(
        misses(&app).await,
        before + 1,
        "a copy without invalidations is not used"
    );
    cache.thaw();
    cache_is_up(&app).await;
    is_near(app.public, &cache, &code).await;
}

/// Checks that this server is asked for every redirect.
async fn works_without_copies(cache: &Redis) {
    let database = TestDatabase::new().await;
    let (app, code) = start(&database, cache, PATIENT).await;
    let before = found_by(cache).await;
    for _ in 0..5 {
        follow(&app, &code).await;
    }
    assert_eq!(counts(&app).await, (5, 0));
    assert_eq!(found_by(cache).await, before + 5);
    assert_eq!(metric(&app, "cache_near_up").await, 0);
}

#[tokio::test]
async fn a_server_that_refuses_tracking_is_used_without_copies() {
    let cache = Redis::start().await;
    cache
        .ask::<()>(&["ACL", "SETUSER", "default", "-client|tracking"])
        .await;
    works_without_copies(&cache).await;
}

#[tokio::test]
async fn a_server_that_does_not_know_the_protocol_is_used_without_copies() {
    let cache = Redis::start_with(&["--rename-command", "HELLO", "\"\""]).await;
    works_without_copies(&cache).await;
}
