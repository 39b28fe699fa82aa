//! Outages of the cache of every kind: redirects stay correct, and no request waits for the cache beyond its
//! deadline.

use std::time::{Duration, Instant};

use serde_json::json;
use shortener_testing::{
    database::TestDatabase,
    metrics,
    proxy::{Path, Proxy},
};
use sqlx::postgres::PgConnectOptions;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    cache::{assert_redirects, cache_is_up, counts, metric},
    cache_server::{Fault, PATIENT, Redis, broken, late, until},
    client::{get, shorten},
    support::App,
};

const URL: &str = "https://example.com/a?b=c";
/// The time limit of the cache operations of a request.
const DEADLINE: Duration = Duration::from_millis(100);
/// Tolerance for a busy machine. It is generous, because the tests are about correctness and not about speed.
const GRACE: Duration = Duration::from_millis(1400);

/// Follows a link until requests bypass the cache; returns the longest wait.
async fn longest_wait(app: &App, code: &str) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        let start = Instant::now();
        assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
        longest = longest.max(start.elapsed());
    }
    longest
}

/// Checks the mean time of requests. Single times vary on a busy machine, but a wait for the cache would raise them
/// all.
async fn stays_quick(app: &App, code: &str) {
    let start = Instant::now();
    longest_wait(app, code).await;
    let each = start.elapsed() / 50;
    assert!(
        each < DEADLINE / 2,
        "requests wait for the cache: {each:?} each"
    );
}

async fn app_with(database: &PgConnectOptions, url: String) -> App {
    App::start_with(database, |config| config.cache.cache_url = Some(url)).await
}

async fn patient_app(database: &PgConnectOptions, url: String) -> App {
    App::start_with(database, |config| {
        config.cache.cache_url = Some(url);
        config.cache.cache_timeout = PATIENT;
    })
    .await
}

#[tokio::test]
async fn a_cache_that_was_stopped_is_done_without_and_found_again() {
    let database = TestDatabase::new().await;
    let mut cache = Redis::start().await;
    let app = app_with(&database, cache.url()).await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    for _ in 0..2 {
        cache.stop().await;
        assert!(longest_wait(&app, &code).await < DEADLINE + GRACE);
        assert_eq!(metric(&app, "cache_up").await, 0);
        stays_quick(&app, &code).await;
        let new = shorten(app.public, json!({"url": URL})).await;
        assert_redirects(&get(app.public, &format!("/{new}")).await, URL);
        assert_eq!(get(app.internal, "/readyz").await.status, 200);

        cache.restart().await;
        until(Some(URL.to_owned()), || async {
            get(app.public, &format!("/{code}")).await;
            cache.link(&code).await
        })
        .await;
    }
    assert!(
        counts(&app).await.1 >= 200,
        "without the cache every lookup is a miss"
    );
}

#[tokio::test]
async fn a_frozen_cache_costs_one_deadline_and_nothing_denies_what_was_created_meanwhile() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = app_with(&database, cache.url()).await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    get(app.public, "/mine").await.problem(404, "not-found");
    until(true, || async {
        cache.ask(&["EXISTS", "{link:mine}:none"]).await
    })
    .await;

    cache.freeze();
    assert!(longest_wait(&app, &code).await < DEADLINE + GRACE);
    stays_quick(&app, &code).await;
    shorten(app.public, json!({"url": URL, "code": "mine"})).await;
    assert_redirects(&get(app.public, "/mine").await, URL);

    cache.thaw();
    cache_is_up(&app).await;
    assert_redirects(&get(app.public, "/mine").await, URL);
    assert!(!cache.ask::<bool>(&["EXISTS", "{link:mine}:none"]).await);
    assert_eq!(cache.link("mine").await.as_deref(), Some(URL));
}

#[tokio::test]
async fn one_late_answer_costs_other_requests_nothing() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let proxy = Proxy::before(format!("127.0.0.1:{}", cache.port)).await;
    let app = App::start_with(&database, |config| {
        config.cache.cache_url = Some(format!("redis://{}", proxy.address));
        config.cache.cache_timeout = Duration::from_secs(2);
    })
    .await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    let path = format!("/{code}");
    proxy.set(Path::Held);
    // This request waits for its deadline and goes on without the cache; the probe has as long again.
    assert_redirects(&get(app.public, &path).await, URL);
    proxy.set(Path::Open);
    metrics::wait_for(app.internal, "cache_probes_total{result=\"answered\"} 1").await;
    for _ in 0..50 {
        assert_redirects(&get(app.public, &path).await, URL);
    }
    assert_eq!(metric(&app, "cache_up").await, 1);
    assert_eq!(
        metric(&app, "cache_probes_total{result=\"failed\"}").await,
        0
    );
    assert_eq!(counts(&app).await, (50, 1));
}

#[tokio::test]
async fn a_create_whose_write_is_the_first_to_meet_the_frozen_cache_is_made_up_for() {
    let database = TestDatabase::new().await;
    let mut cache = Redis::start().await;
    let app = app_with(&database, cache.url()).await;
    cache_is_up(&app).await;
    cache.freeze();
    let start = Instant::now();
    shorten(app.public, json!({"url": URL, "code": "mine"})).await;
    assert!(start.elapsed() < DEADLINE + GRACE, "{:?}", start.elapsed());
    // Commands that were sent to the frozen server are lost with it.
    cache.stop().await;
    cache.restart().await;
    cache_is_up(&app).await;
    assert_eq!(cache.link("mine").await.as_deref(), Some(URL));
}

#[tokio::test]
async fn a_cache_that_answers_nonsense_or_nothing_is_never_used() {
    let database = TestDatabase::new().await;
    let plain = App::start(&database).await;
    let code = shorten(plain.public, json!({"url": URL})).await;
    for fault in [Fault::Silence, Fault::Noise, Fault::Numbers, Fault::HangUp] {
        let app = app_with(&database, broken(fault).await).await;
        let longest = longest_wait(&app, &code).await;
        assert!(longest < DEADLINE + GRACE, "{fault:?}: {longest:?}");
        stays_quick(&app, &code).await;
        assert_eq!(metric(&app, "cache_up").await, 0, "{fault:?}");
        assert_eq!(
            counts(&app).await,
            (0, 100),
            "{fault:?}: without the cache every lookup is a miss"
        );
    }
}

#[tokio::test]
async fn an_address_where_nobody_accepts_costs_no_request_anything() {
    let database = TestDatabase::new().await;
    // Once the backlog of a listener is full, the kernel drops further connections, as a firewall would.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(Ok(stream)) = timeout(DEADLINE, TcpStream::connect(address)).await {
        held.push(stream);
    }
    let app = app_with(&database, format!("redis://{address}")).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert!(longest_wait(&app, &code).await < DEADLINE + GRACE);
    stays_quick(&app, &code).await;
}

#[tokio::test]
async fn a_cache_that_is_too_slow_is_not_waited_for() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = app_with(&database, late(&cache, DEADLINE * 3).await).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert!(longest_wait(&app, &code).await < DEADLINE + GRACE);
    stays_quick(&app, &code).await;
}

#[tokio::test]
async fn a_cache_that_is_merely_not_quick_is_used() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = patient_app(&database, late(&cache, DEADLINE / 10).await).await;
    cache_is_up(&app).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    assert_eq!(counts(&app).await, (1, 0));
}

#[tokio::test]
async fn a_full_cache_that_refuses_writes_is_still_read() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let app = patient_app(&database, cache.url()).await;
    cache_is_up(&app).await;
    let old = shorten(app.public, json!({"url": URL})).await;
    cache.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let new = shorten(app.public, json!({"url": URL})).await;
    assert_redirects(&get(app.public, &format!("/{new}")).await, URL);
    assert_redirects(&get(app.public, &format!("/{old}")).await, URL);
    assert_eq!(counts(&app).await, (1, 1));
    assert_eq!(metric(&app, "cache_up").await, 1);
}

#[tokio::test]
async fn the_application_starts_without_a_cache_and_finds_it_later() {
    let database = TestDatabase::new().await;
    let mut cache = Redis::start().await;
    cache.stop().await;
    let app = patient_app(&database, cache.url()).await;
    let code = shorten(app.public, json!({"url": URL})).await;
    assert_redirects(&get(app.public, &format!("/{code}")).await, URL);
    cache.restart().await;
    cache_is_up(&app).await;
    until(true, || async {
        get(app.public, &format!("/{code}")).await;
        counts(&app).await.0 > 0
    })
    .await;
}
