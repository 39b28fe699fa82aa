//! The time that a takedown takes, and what must not bring a link back.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use shortener_app::{
    code::{Code, CodeSpace},
    config::ServeArgs,
    store::{Link, Resolved, Stored, Takedown, cache::Cache, cached::CachedLinks, postgres::Links},
};
use shortener_testing::{
    database::TestDatabase,
    proxy::{Path, Proxy},
};
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};
use tokio::{
    sync::watch,
    time::{Instant, interval},
};

use crate::{
    cache::{assert_redirects, cache_is_up},
    cache_server::{PATIENT, Redis, connected, until},
    client::{Connection, Response, get, shorten},
    management::{Keys, manage},
    support::{App, access},
};

const URL: &str = "https://example.com/taken";
/// The time after the response to a takedown from which no request redirects.
const LIMIT: Duration = Duration::from_millis(100);
/// The clients of each of two replicas, and the interval of their requests: 1,000 per second together.
const CLIENTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// The places in which a link can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    Nowhere,
    Cache,
}

/// Starts a replica with management.
async fn replica(
    database: &PgConnectOptions,
    keys: &Keys,
    change: impl FnOnce(&mut ServeArgs),
) -> App {
    App::start_with(database, |config| {
        keys.configure(config);
        change(config);
    })
    .await
}

async fn disable(app: &App, code: &str) -> Response {
    let body = Some(json!({"reason": "phishing"}));
    let disabled = manage(app, "POST", &format!("/{code}/disable"), body).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
    disabled
}

/// Takes a link down; returns the time of the response that says that it is gone from the cache as well.
async fn take_down(app: &App, code: &str) -> Instant {
    // On a busy machine the cache may confirm too late. The same request then removes the link once more.
    loop {
        let disabled = disable(app, code).await;
        let now = Instant::now();
        if disabled.json()["purged"] == true {
            return now;
        }
    }
}

/// Follows a link on one connection until it is told to stop; returns the begin and the status of each request.
async fn follow(app: &App, code: &str, stop: watch::Receiver<bool>) -> Vec<(Instant, u16)> {
    let mut connection = Connection::open(app.public).await;
    let request = format!("GET /{code} HTTP/1.1\r\nhost: test\r\n\r\n");
    let mut ticks = interval(PAUSE);
    let mut answers = Vec::new();
    while !*stop.borrow() {
        ticks.tick().await;
        let begun = Instant::now();
        connection.write(request.as_bytes()).await;
        let response = connection.response(true).await.unwrap();
        answers.push((begun, response.status));
    }
    answers
}

/// Takes a link down while two replicas are asked for it 1,000 times per second.
async fn under_load(copies: Copies) {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let keys = Keys::new();
    let start = || {
        replica(&database, &keys, |config| {
            if copies != Copies::Nowhere {
                config.cache.cache_url = Some(cache.url());
            }
        })
    };
    let (first, second) = (start().await, start().await);
    if copies != Copies::Nowhere {
        cache_is_up(&first).await;
        cache_is_up(&second).await;
    }
    let code = shorten(first.public, json!({"url": URL})).await;
    let (stop, stopped) = watch::channel(false);
    let taken_down = async {
        // Until every client has been redirected many times, and for longer than the limit afterwards.
        let mut ticks = interval(LIMIT * 10);
        ticks.tick().await;
        ticks.tick().await;
        let taken_down = take_down(&first, &code).await;
        ticks.reset();
        ticks.tick().await;
        stop.send_replace(true);
        taken_down
    };
    let clients = [&first, &second].into_iter().cycle().take(2 * CLIENTS);
    let clients = clients.map(|app| follow(app, &code, stopped.clone()));
    let (taken_down, answers) = tokio::join!(taken_down, futures::future::join_all(clients));

    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let redirects = answers.iter().filter(|(_, status)| *status == 302);
    assert!(redirects.clone().count() > CLIENTS, "{answers:?}");
    let latest = redirects.map(|(begun, _)| *begun).max().unwrap();
    let late = latest.saturating_duration_since(taken_down);
    println!("the latest redirect began {late:?} after the response");
    assert!(late < LIMIT, "{late:?}");
    let others = answers.iter().filter(|(_, status)| *status != 302);
    assert!(others.clone().count() > CLIENTS);
    for (_, status) in others {
        assert_eq!(*status, 410);
    }
}

#[tokio::test]
async fn a_link_is_gone_everywhere_within_a_tenth_of_a_second_without_a_cache() {
    under_load(Copies::Nowhere).await;
}

#[tokio::test]
async fn a_link_is_gone_everywhere_within_a_tenth_of_a_second_with_a_cache() {
    under_load(Copies::Cache).await;
}

/// A cache with its server, as a replica uses it.
async fn cache_at(server: &Redis) -> Arc<Cache> {
    let cache = connected(server, PATIENT).await;
    Arc::new(cache)
}

/// Caches what the database said about the code `taken`.
async fn remember(cache: &Arc<Cache>, stored: Option<Stored>, asked: Instant) {
    let code = Code::parse("taken").unwrap();
    if let Some(task) = cache.remember(code.to_owned(), stored, asked) {
        task.await.unwrap();
    }
}

fn live() -> Stored {
    Stored::Live {
        url: URL.to_owned(),
        expires_at: None,
    }
}

#[tokio::test]
async fn what_a_slow_reader_found_before_a_takedown_is_not_written_after_it() {
    let server = Redis::start().await;
    let cache = cache_at(&server).await;
    let code = Code::parse("taken").unwrap();
    let asked = Instant::now();
    remember(&cache, Some(live()), asked).await;
    assert_eq!(server.link("taken").await.as_deref(), Some(URL));
    let down = Takedown::Legal {
        notice: Some("a notice".to_owned()),
    };
    assert!(cache.purge(code, Some(&down)).await);
    assert_eq!(server.link("taken").await, None);
    assert_eq!(cache.look_up(code).await, Some(Resolved::Down(down)));
    remember(&cache, Some(live()), asked).await;
    remember(&cache, None, asked).await;
    assert_eq!(server.link("taken").await, None);

    // Without the mark, which a full cache may evict.
    assert_eq!(server.ask::<u64>(&["DEL", "{link:taken}:none"]).await, 1);
    remember(&cache, Some(live()), asked).await;
    remember(&cache, None, asked).await;
    assert_eq!(cache.look_up(code).await, None);

    // Without the hold, once its time is over.
    let left = server.ask::<i64>(&["TTL", "{link:taken}:hold"]).await;
    assert!((31..=40).contains(&left), "{left}");
    server.ask::<u64>(&["DEL", "{link:taken}:hold"]).await;
    let long_ago = Instant::now() - Duration::from_secs(2);
    remember(&cache, Some(live()), long_ago).await;
    assert_eq!(cache.look_up(code).await, None);
    remember(&cache, Some(live()), Instant::now()).await;
    assert_eq!(cache.look_up(code).await, Some(Resolved::To(URL.into())));
}

#[tokio::test]
async fn the_mark_of_a_link_outlives_every_copy_of_it_and_goes_when_it_is_enabled() {
    let server = Redis::start().await;
    let cache = cache_at(&server).await;
    let code = Code::parse("taken").unwrap();
    assert!(cache.purge(code, Some(&Takedown::Disabled)).await);
    let left = server.ask::<i64>(&["TTL", "{link:taken}:none"]).await;
    assert!(left > 3960, "{left}");
    // A write that is repeated after the cache was down.
    let link = Link {
        code: "taken".to_owned(),
        url: URL.to_owned(),
        template: false,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        expires_at: None,
    };
    cache.created(&link, true).await;
    assert_eq!(
        cache.look_up(code).await,
        Some(Resolved::Down(Takedown::Disabled))
    );
    assert!(cache.purge(code, None).await);
    assert_eq!(cache.look_up(code).await, None);

    // A mark is written for a link that the database knows to be down.
    server.ask::<u64>(&["DEL", "{link:taken}:hold"]).await;
    let down = Stored::Down(Takedown::Disabled);
    remember(&cache, Some(down), Instant::now()).await;
    assert_eq!(
        cache.look_up(code).await,
        Some(Resolved::Down(Takedown::Disabled))
    );
}

#[tokio::test]
async fn a_full_cache_still_removes_a_link() {
    let server = Redis::start().await;
    let cache = cache_at(&server).await;
    let code = Code::parse("taken").unwrap();
    remember(&cache, Some(live()), Instant::now()).await;
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert!(cache.purge(code, Some(&Takedown::Disabled)).await);
    assert_eq!(
        cache.look_up(code).await,
        Some(Resolved::Down(Takedown::Disabled))
    );
}

#[tokio::test]
async fn a_copy_that_something_else_wrote_later_is_removed() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let keys = Keys::new();
    let app = replica(&database, &keys, |config| cache.configure(config)).await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    take_down(&app, &code).await;
    let key = format!("link:{code}");
    cache.ask::<()>(&["SET", &key, URL, "EX", "3600"]).await;
    let path = format!("/{code}");
    until(None, || cache.link(&code)).await;
    get(app.public, &path).await.problem(410, "link-disabled");

    let enabled = manage(&app, "POST", &format!("/{code}/enable"), None).await;
    assert_eq!(enabled.json()["purged"], true, "{enabled:?}");
    assert_redirects(&get(app.public, &path).await, URL);
}

#[tokio::test]
async fn a_cache_that_was_away_during_a_takedown_is_made_up_for() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let proxy = Proxy::before(format!("127.0.0.1:{}", cache.port)).await;
    let keys = Keys::new();
    let app = replica(&database, &keys, |config| {
        cache.configure(config);
        config.cache.cache_url = Some(format!("redis://{}", proxy.address));
    })
    .await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    proxy.set(Path::Refused);
    let disabled = disable(&app, &code).await;
    assert_eq!(disabled.json()["purged"], false, "{disabled:?}");
    let path = format!("/{code}");
    get(app.public, &path).await.problem(410, "link-disabled");
    assert_eq!(cache.link(&code).await.as_deref(), Some(URL));
    proxy.set(Path::Open);
    until(None, || cache.link(&code)).await;
    get(app.public, &path).await.problem(410, "link-disabled");
}

#[tokio::test]
async fn a_new_expiry_reaches_the_copies_at_once() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let keys = Keys::new();
    let app = replica(&database, &keys, |config| cache.configure(config)).await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let body = Some(json!({"ttl_seconds": 60}));
    let changed = manage(&app, "PATCH", &format!("/{code}"), body).await;
    assert_eq!(changed.json()["purged"], true, "{changed:?}");
    assert_eq!(cache.link(&code).await, None);
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    // The hold ends before the next copy is written, which ends with the link.
    cache
        .ask::<u64>(&["DEL", &format!("{{link:{code}}}:hold")])
        .await;
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    until(Some(URL.to_owned()), || cache.link(&code)).await;
    let left = cache.ask::<i64>(&["TTL", &format!("link:{code}")]).await;
    assert!((1..=60).contains(&left), "{left}");
}

/// Makes every read of the only row take a second: what it returns is then a second old.
async fn slow_down(database: &PgConnectOptions) -> PgConnection {
    let mut connection = database.connect().await.unwrap();
    let swap = "ALTER TABLE links RENAME TO rows; \
        CREATE VIEW links AS SELECT * FROM rows WHERE pg_sleep(1)::text IS NOT NULL";
    connection.execute(swap).await.unwrap();
    connection
}

#[tokio::test]
async fn a_read_that_began_before_a_takedown_is_not_shared_with_later_requests() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let mut connection = slow_down(&database).await;
    let handle = access(&database).await;
    let links = CachedLinks::new(Links::new(handle, CodeSpace::default()), None, None);
    let code = Code::parse(&code).unwrap();
    let begun = Instant::now();
    let later = async {
        let sleeps = "SELECT count(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND wait_event = 'PgSleep'";
        let mut sleeping = 0;
        while sleeping == 0 {
            let count = sqlx::query_scalar::<_, i64>(sleeps);
            sleeping = count.fetch_one(&mut connection).await.unwrap();
        }
        let disable = "UPDATE rows SET disabled_url = url, url = NULL, disabled_at = now(), disabled_as = 'gone'";
        connection.execute(disable).await.unwrap();
        until(true, || async { begun.elapsed() > LIMIT * 2 }).await;
        links.find(code).await
    };
    let (earlier, later) = tokio::join!(links.find(code), later);
    assert_eq!(earlier.unwrap(), Resolved::To(URL.into()));
    assert_eq!(later.unwrap(), Resolved::Down(Takedown::Disabled));
}
