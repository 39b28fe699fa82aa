//! The state of the stores as the internal port tells it, for the operator.

use serde_json::{Value, json};
use shortener_app::code::CodeSpace;
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    proxy::Path,
    vector::Collection,
};

use crate::{
    cache_modes::{file, over_tls},
    cache_server::{PATIENT, Redis, free_port},
    client::get,
    support::{App, config, proxy_before, url_of},
};

fn up() -> Value {
    json!({"up": true})
}

fn down(fault: &str) -> Value {
    json!({"up": false, "fault": fault})
}

/// Waits until the app says this about a store.
async fn says(app: &App, store: &str, expected: Value) {
    until(&format!("{expected} of the {store}"), async || {
        let answer = get(app.internal, "/backends").await;
        assert_eq!(answer.status, 200);
        let found = answer.json()[store].clone();
        (found == expected).then_some(()).ok_or(found.to_string())
    })
    .await;
}

#[tokio::test]
async fn only_the_stores_in_use_are_named_and_only_inside() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    says(&app, "database", up()).await;
    let answer = get(app.internal, "/backends").await;
    assert_eq!(answer.json(), json!({"database": up()}));
    get(app.public, "/backends").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_database_that_is_away_or_missing_is_told_apart() {
    let database = TestDatabase::new().await;
    let (proxy, options) = proxy_before(&database).await;
    let app = App::start(&options).await;
    says(&app, "database", up()).await;
    proxy.set(Path::Refused);
    says(&app, "database", down("unreachable")).await;
    proxy.set(Path::Open);
    says(&app, "database", up()).await;

    let missing = url_of(&database.clone().database("no_such_database"));
    let app = App::serve(config(&missing), CodeSpace::default()).await;
    says(&app, "database", down("not_found")).await;
}

#[tokio::test]
async fn a_cache_says_why_it_is_not_used() {
    // The library takes the crypto provider of the process, which a program chooses at its start.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let database = TestDatabase::new().await;
    let start = |url: String, password: Option<&str>, authority: Option<&str>| {
        let password = password.map(str::to_owned);
        let authority = authority.map(file);
        let database = &database;
        async move {
            App::start_with(database, |config| {
                config.cache.cache_url = Some(url);
                config.cache.cache_timeout = PATIENT;
                config.cache.cache_password = password;
                if authority.is_some() {
                    config.cache.tls.cert_file = Some(file("client.crt"));
                    config.cache.tls.key_file = Some(file("client.key"));
                }
                config.cache.tls.ca_file = authority;
            })
            .await
        }
    };
    let mut locked = Redis::start_with(&["--requirepass", "right"]).await;
    let app = start(locked.url(), Some("right"), None).await;
    says(&app, "cache", up()).await;
    locked.stop().await;
    says(&app, "cache", down("unreachable")).await;
    locked.restart().await;
    says(&app, "cache", up()).await;
    for password in [Some("wrong"), None] {
        let app = start(locked.url(), password, None).await;
        says(&app, "cache", down("denied")).await;
    }
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    let app = start(nowhere, None, None).await;
    says(&app, "cache", down("unreachable")).await;

    let (_valid, valid) = over_tls("server.crt").await;
    let (_expired, expired) = over_tls("expired.crt").await;
    for (host, port, authority, expected) in [
        ("localhost", &valid, "ca.crt", up()),
        ("localhost", &expired, "ca.crt", down("tls_expired")),
        ("localhost", &valid, "other-ca.crt", down("tls_untrusted")),
        ("127.0.0.1", &valid, "ca.crt", down("tls_name")),
    ] {
        let app = start(format!("redis://{host}:{port}"), None, Some(authority)).await;
        says(&app, "cache", expected).await;
    }
}

#[tokio::test]
async fn a_broker_says_why_it_is_not_used() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let start = |url: String| {
        let database = &database;
        async move { App::start_with(database, |config| config.queue.queue_url = Some(url)).await }
    };
    says(&start(broker.url()).await, "queue", up()).await;
    let wrong_password = broker.url().replace("guest:guest@", "guest:wrong@");
    says(&start(wrong_password).await, "queue", down("denied")).await;
    let no_such_vhost = format!("{}-none", broker.url());
    says(&start(no_such_vhost).await, "queue", down("not_found")).await;
    let nowhere = format!("amqp://guest:guest@127.0.0.1:{}", free_port());
    says(&start(nowhere).await, "queue", down("unreachable")).await;
}

#[tokio::test]
async fn a_vector_store_says_why_it_is_not_used() {
    let database = TestDatabase::new().await;
    let start = |url: String, key: &str, collection: &str| {
        let (key, collection) = (key.to_owned(), collection.to_owned());
        let database = &database;
        async move {
            App::start_with(database, |config| {
                config.vector.vector_url = Some(url);
                config.vector.vector_api_key = Some(key);
                config.vector.vector_collection = collection;
            })
            .await
        }
    };
    let (ours, other) = (Collection::default(), Collection::default());
    let app = start(ours.url(), &ours.key, &ours.name).await;
    says(&app, "vector", up()).await;
    let app = start(ours.url(), "wrong", &ours.name).await;
    says(&app, "vector", down("denied")).await;
    other.make(8, "Dot").await;
    let app = start(other.url(), &other.key, &other.name).await;
    says(&app, "vector", down("other_collection")).await;
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let app = start(nowhere, &ours.key, &ours.name).await;
    says(&app, "vector", down("unreachable")).await;
}
