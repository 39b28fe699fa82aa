//! Links in the cache: section 3.1 of the specification, row by row.

use futures::future::join_all;
use serde_json::json;
use shortener_app::{
    code::{Code, CodeSpace},
    store::{Resolved, cached::CachedLinks, postgres::Links},
};
use shortener_testing::{database::TestDatabase, metrics, proxy::Path};
use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};
use tokio::task::JoinSet;

use crate::{
    cache_server::{Redis, until},
    client::{Response, get, post, post_bytes, request, send, shorten},
    support::{App, Blocker, access, proxy_before},
};

const URL: &str = "https://example.com/a?b=c";

/// Returns the hits and misses of `cache_requests_total`.
pub async fn counts(app: &App) -> (u64, u64) {
    (
        metric(app, "cache_requests_total{result=\"hit\"}").await,
        metric(app, "cache_requests_total{result=\"miss\"}").await,
    )
}

pub async fn metric(app: &App, series: &str) -> u64 {
    metrics::value(app.internal, series).await
}

/// Waits until requests use the cache.
pub async fn cache_is_up(app: &App) {
    metrics::wait_for(app.internal, "cache_up 1").await;
}

pub fn assert_redirects(response: &Response, url: &str) {
    assert_eq!(
        (response.status, response.header("location")),
        (302, Some(url)),
        "{response:?}"
    );
}

/// Waits until the cache holds a link: after a miss it is written while the request goes on.
async fn holds_link(cache: &Redis, code: &str) {
    let link = || async {
        // Something else may stand under the key.
        let key = format!("link:{code}");
        let link = cache.try_ask::<Option<String>>(&["GET", &key]).await;
        link.ok().flatten()
    };
    until(Some(URL.to_owned()), link).await;
}

/// Waits until the cache has an entry that a code has no destination.
async fn denies(cache: &Redis, code: &str) {
    let key = format!("{{link:{code}}}:none");
    until(true, || async { cache.ask(&["EXISTS", &key]).await }).await;
}

async fn start(database: &PgConnectOptions, cache: &Redis) -> App {
    let app = App::start_with(database, |config| cache.configure(config)).await;
    cache_is_up(&app).await;
    app
}

#[tokio::test]
async fn the_first_redirect_after_a_create_is_a_hit() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert_eq!(cache.link(&code).await.as_deref(), Some(URL));
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    let head = request(app.public, "HEAD", &format!("/{code}"), "").await;
    assert_redirects(&head, URL);
    assert_eq!(counts(&app).await, (2, 0));
}

#[tokio::test]
async fn every_entry_has_a_time_to_live_of_an_hour_give_or_take_a_tenth() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let mut lives = Vec::new();
    for _ in 0..20 {
        let code = shorten(app.public, json!({"url": URL})).await;
        let written = cache.ask::<i64>(&["TTL", &format!("link:{code}")]).await;
        cache.ask::<()>(&["FLUSHALL"]).await;
        get(app.public, &format!("/{code}")).await;
        holds_link(&cache, &code).await;
        let read = cache.ask::<i64>(&["TTL", &format!("link:{code}")]).await;
        lives.extend([written, read]);
    }
    assert!(
        lives.iter().all(|life| (3230..=3960).contains(life)),
        "{lives:?}"
    );
    assert!(
        lives.iter().any(|life| *life != lives[0]),
        "no jitter: {lives:?}"
    );
    get(app.public, "/nobody").await.problem(404, "not-found");
    denies(&cache, "nobody").await;
    let denied = cache.ask::<i64>(&["TTL", "{link:nobody}:none"]).await;
    assert!((1..=15).contains(&denied), "{denied}");
}

#[tokio::test]
async fn an_entry_never_outlives_its_link() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let code = shorten(app.public, json!({"url": URL, "ttl_seconds": 60})).await;
    let path = format!("/{code}");
    let key = format!("link:{code}");
    for _ in 0..2 {
        let left = cache.ask::<i64>(&["PTTL", &key]).await;
        assert!((1..=60_000).contains(&left), "{left}");
        cache.ask::<()>(&["DEL", &key]).await;
        assert_redirects(&get(app.public, &path).await, URL);
        holds_link(&cache, &code).await;
    }
}

/// The times are those of an app: what is left of a link, and when it ends.
#[tokio::test]
async fn an_entry_ends_in_time_whichever_clock_is_ahead_and_however_late_its_command_is() {
    const SCRIPT: &str = include_str!("../../src/store/cache/write.lua");
    let cache = Redis::start().await;
    let now = jiff::Timestamp::now().as_millisecond();
    let key = "link:soon";
    for (left, end, expected) in [
        ("30000", 60_000, 29_000..=30_000),
        ("60000", 30_000, 29_000..=30_000),
        ("60000", -1, -2..=-2),
    ] {
        let end = (now + end).to_string();
        let keys = [key, "{link:soon}:none", "{link:soon}:hold"];
        let command = [
            &["EVAL", SCRIPT, "3"][..],
            &keys,
            &["0", "1", URL, left, &end],
        ]
        .concat();
        cache.ask::<redis::Value>(&command).await;
        let lives = cache.ask::<i64>(&["PTTL", key]).await;
        assert!(expected.contains(&lives), "{lives} of {left}");
        cache.ask::<()>(&["DEL", key]).await;
    }
}

#[tokio::test]
async fn an_expired_link_is_gone_without_the_database_too() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (proxy, options) = proxy_before(&database).await;
    let app = start(&options, &cache).await;
    let code = shorten(app.public, json!({"url": URL, "ttl_seconds": 60})).await;
    let path = format!("/{code}");
    let mut connection = database.connect().await.unwrap();
    connection
        .execute("UPDATE links SET expires_at = now()")
        .await
        .unwrap();
    cache.ask::<()>(&["DEL", &format!("link:{code}")]).await;
    get(app.public, &path).await.problem(410, "link-expired");
    denies(&cache, &code).await;
    let key = format!("{{link:{code}}}:none");
    let left = cache.ask::<i64>(&["TTL", &key]).await;
    assert!((1..=60).contains(&left), "{left}");
    proxy.set(Path::Refused);
    get(app.public, &path).await.problem(410, "link-expired");
    assert_eq!(counts(&app).await, (1, 1));
}

#[tokio::test]
async fn deleting_the_cache_key_makes_the_next_redirect_a_miss_that_repopulates() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let path = format!("/{code}");
    assert_eq!(cache.ask::<u64>(&["DEL", &format!("link:{code}")]).await, 1);
    assert_redirects(&get(app.public, &path).await, URL);
    assert_eq!(counts(&app).await, (0, 1));
    holds_link(&cache, &code).await;
    assert_redirects(&get(app.public, &path).await, URL);
    assert_eq!(counts(&app).await, (1, 1));
    cache.ask::<()>(&["FLUSHALL"]).await;
    assert_redirects(&get(app.public, &path).await, URL);
    assert_eq!(counts(&app).await, (1, 2));
}

#[tokio::test]
async fn an_unknown_code_is_asked_for_once_and_a_create_makes_it_known_at_once() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    for _ in 0..3 {
        get(app.public, "/mine").await.problem(404, "not-found");
        denies(&cache, "mine").await;
    }
    assert_eq!(counts(&app).await, (2, 1));
    shorten(app.public, json!({"url": URL, "code": "mine"})).await;
    assert!(!cache.ask::<bool>(&["EXISTS", "{link:mine}:none"]).await);
    assert_redirects(&get(app.public, "/mine").await, URL);
    assert_eq!(counts(&app).await, (3, 1));
}

/// The first request may have ended between the database and the cache, and its replica with it.
#[tokio::test]
async fn a_repeated_create_makes_its_link_known_although_the_first_did_not() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let without_cache = App::start(&database).await;
    let keyed = json!({"url": URL, "code": "promo"}).to_string();
    let reused = json!({"url": URL, "code": "again", "reuse": true}).to_string();
    for (body, key, code, statuses) in [
        (keyed, "idempotency-key: k-1\r\n", "promo", [201, 201]),
        (reused, "", "again", [201, 200]),
    ] {
        let path = format!("/{code}");
        get(app.public, &path).await.problem(404, "not-found");
        denies(&cache, code).await;
        for (app, status) in [&without_cache, &app].into_iter().zip(statuses) {
            let bytes = post_bytes("/shorten", key, body.as_bytes());
            assert_eq!(send(app.public, bytes).await.status, status);
        }
        assert_eq!(
            cache.link(code).await,
            None,
            "it may have been changed since"
        );
        assert_redirects(&get(app.public, &path).await, URL);
    }
}

#[tokio::test]
async fn a_denial_that_a_slow_reader_writes_after_the_create_is_ignored() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    shorten(app.public, json!({"url": URL, "code": "mine"})).await;
    cache
        .ask::<()>(&["SET", "{link:mine}:none", "1", "EX", "15"])
        .await;
    assert_redirects(&get(app.public, "/mine").await, URL);
}

#[tokio::test]
async fn a_malformed_code_is_no_lookup() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    for path in ["/a.b", "/%C3%A4", "/favicon.ico", "/health"] {
        get(app.public, path).await;
    }
    assert_eq!(counts(&app).await, (0, 0));
}

#[tokio::test]
async fn whatever_else_stands_under_the_key_is_a_miss_and_never_a_header() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let key = format!("link:{code}");
    for (number, garbage) in [
        "",
        "garbage",
        "javascript:alert(1)",
        "https://evil.example/\r\nSet-Cookie: a=b",
        "https://user:password@evil.example/",
        "//evil.example",
    ]
    .into_iter()
    .enumerate()
    {
        cache.ask::<()>(&["SET", &key, garbage]).await;
        let response = get(app.public, &format!("/{code}")).await;
        assert_redirects(&response, URL);
        assert_eq!(response.header("set-cookie"), None);
        assert_eq!(counts(&app).await, (0, number as u64 + 1), "{garbage:?}");
        holds_link(&cache, &code).await;
    }
    cache.ask::<()>(&["DEL", &key]).await;
    cache.ask::<()>(&["RPUSH", &key, "a", "list"]).await;
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    holds_link(&cache, &code).await;
    assert_eq!(metric(&app, "cache_up").await, 1);
}

#[tokio::test]
async fn a_hundred_redirects_of_one_code_at_once_are_one_database_read_at_a_time() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = start(&database, &cache).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    cache.ask::<()>(&["FLUSHALL"]).await;
    let mut reads = Reads::count(&database).await;
    let blocker = Blocker::hold(&database).await;
    let mut redirects = JoinSet::new();
    for _ in 0..100 {
        let path = format!("/{code}");
        redirects.spawn(async move { get(app.public, &path).await });
    }
    until((0, 100), || counts(&app)).await;
    blocker.release().await;
    for response in redirects.join_all().await {
        assert_redirects(&response, URL);
    }
    // Those that come after the first read has begun share a second one, because the link may have been taken down
    // meanwhile.
    let reads = reads.so_far().await;
    assert!((1..=2).contains(&reads), "{reads}");
}

#[tokio::test]
async fn without_a_cache_too_redirects_at_once_are_one_database_read() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let mut reads = Reads::count(&database).await;
    let database = access(&database).await;
    let links = CachedLinks::new(Links::new(database, CodeSpace::default()), None, None);
    let code = Code::parse(&code).unwrap();
    for found in join_all((0..100).map(|_| links.find(code))).await {
        assert_eq!(found.unwrap(), Resolved::To(URL.into()));
    }
    assert_eq!(reads.so_far().await, 1);
}

/// Counts reads of the only row of the table: every read advances a sequence. The function costs so much that it is
/// evaluated after all other conditions, so only rows that are found count.
pub struct Reads(sqlx::PgConnection);

impl Reads {
    pub async fn count(database: &PgConnectOptions) -> Self {
        let mut connection = database.connect().await.unwrap();
        let swap = "CREATE SEQUENCE reads MINVALUE 0; ALTER TABLE links RENAME TO rows; \
            CREATE FUNCTION is_read() RETURNS boolean LANGUAGE plpgsql COST 1000000 \
            AS 'BEGIN RETURN nextval(''reads'') >= 0; END'; \
            CREATE VIEW links AS SELECT * FROM rows WHERE is_read()";
        connection.execute(swap).await.unwrap();
        Self(connection)
    }

    pub async fn so_far(&mut self) -> i64 {
        let drawn = "SELECT CASE WHEN is_called THEN last_value + 1 ELSE 0 END FROM reads";
        sqlx::query_scalar(drawn)
            .fetch_one(&mut self.0)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn without_the_database_cached_codes_redirect_and_everything_else_is_503() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (proxy, options) = proxy_before(&database).await;
    let app = start(&options, &cache).await;
    let cached = shorten(app.public, json!({"url": URL})).await;
    let forgotten = shorten(app.public, json!({"url": URL})).await;
    cache
        .ask::<()>(&["DEL", &format!("link:{forgotten}")])
        .await;
    for fault in [Path::Refused, Path::Silent] {
        proxy.set(fault);
        let missed = get(app.public, &format!("/{forgotten}")).await;
        missed.problem(503, "database-unavailable");
        assert!(missed.header("retry-after").is_some());
        assert_redirects(&get(app.public, &format!("/{cached}")).await, URL);
        let create = post(app.public, "/shorten", json!({"url": URL}).to_string()).await;
        create.problem(503, "database-unavailable");
        assert_eq!(get(app.internal, "/readyz").await.status, 200);
        assert_eq!(
            cache.link(&forgotten).await,
            None,
            "an outage is not cached"
        );
        proxy.set(Path::Open);
        until(404, || async {
            get(app.public, "/nobody-yet").await.status
        })
        .await;
        denies(&cache, "nobody-yet").await;
        cache.ask::<()>(&["DEL", "{link:nobody-yet}:none"]).await;
    }
    assert_redirects(&get(app.public, &format!("/{forgotten}")).await, URL);
}

#[tokio::test]
async fn without_a_cache_nothing_is_counted() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    let text = get(app.internal, "/metrics").await.text();
    assert!(!text.contains("\ncache_"), "{text}");
}
