//! The requests to the management port: who may send them, what they may contain, and what they cost.

use std::time::Duration;

use serde_json::{Value, json};
use shortener_testing::{database::TestDatabase, proxy::Path};
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};

use super::{KEY, URL, apply, apply_one, ask, later, start, wish, with, world};
use crate::{
    client::{get, json_bytes, request, send},
    management::Keys,
    support::{App, proxy_before},
};

#[tokio::test]
async fn the_port_needs_its_key_and_is_closed_without_one() {
    let (database, app, _keys) = world().await;
    let management = app.management.unwrap();
    let body = json!({"links": [wish("sale", "1", "spring")]}).to_string();
    let other = "authorization: Bearer 9b1f3c7a5d2e48f6b0a8c4e6d1f29375\r\n";
    let elsewhere = format!("x-api-key: {KEY}\r\n");
    for headers in ["", other, &elsewhere] {
        for path in ["/links/apply", "/links/release", "/other"] {
            let refused = send(
                management,
                json_bytes("POST", path, headers, body.as_bytes()),
            );
            let refused = refused.await;
            refused.problem(401, "unauthorized");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        }
    }
    ask(&app, "/other", &json!({}))
        .await
        .problem(404, "not-found");
    let key = format!("authorization: Bearer {KEY}\r\n");
    let read = request(management, "GET", "/links/apply", &key).await;
    read.problem(405, "method-not-allowed");
    // The other ports have none of its routes, nor has it theirs.
    for address in [app.public, app.internal] {
        let request = json_bytes("POST", "/links/apply", &key, body.as_bytes());
        assert!(matches!(send(address, request).await.status, 404 | 405));
    }
    let metrics = request(management, "GET", "/metrics", &key).await;
    metrics.problem(404, "not-found");
    assert_eq!(get(app.public, "/sale").await.status, 404);
    assert!(App::start(&database).await.management.is_none());
}

#[tokio::test]
async fn a_link_with_an_invalid_field_is_refused_alone() {
    let (_database, app, _keys) = world().await;
    let with = |fields| with(wish("bad", "1", "bad"), fields);
    let mut wishes = vec![
        with(json!({"code": "a b"})),
        with(json!({"code": "Admin"})),
        with(json!({"url": "ftp://example.com/"})),
        with(json!({"url": "http://sho.rt:8080/sale"})),
        with(json!({"url": null})),
        with(json!({"title": "a\nb"})),
        with(json!({"tags": ["a,b"]})),
        with(json!({"enabled": "yes"})),
        with(json!({"expires_at": "tomorrow"})),
        with(json!({"expires_at": "2999-01-01T00:00:00Z"})),
        with(json!({"adopt": "Always"})),
        with(json!({"owner": {"uid": "1", "namespace": "team"}})),
        json!(7),
        with(json!({"title": 7, "tags": 7})),
    ];
    wishes.push(wish("good", "2", "good"));
    let results = apply(&app, &wishes).await;
    let beginnings = [
        "code must be 1 to 64",
        "code is reserved",
        "url must ",
        "url must ",
        "url is required",
        "title must be",
        "tags must have",
        "enabled must be",
        "expires_at must be a time",
        "expires_at must be within 5 years",
        "adopt must be Never or IfSame",
        "owner must have",
        "code is required; url is required; owner must have",
        "title must be",
    ];
    for (result, beginning) in results.iter().zip(beginnings) {
        assert_eq!(result["result"], "invalid", "{result}");
        let message = result["message"].as_str().unwrap();
        assert!(message.starts_with(beginning), "{message}: {beginning}");
    }
    assert_eq!(results.last().unwrap()["result"], "created");
    assert_eq!(
        (&results[0]["code"], &results[12]["code"]),
        (&json!("a b"), &json!(""))
    );
}

#[tokio::test]
async fn a_request_has_one_to_a_hundred_links_and_is_not_too_long() {
    let (_database, app, _keys) = world().await;
    let with_links = |count| json!({"links": vec![wish("sale", "1", "spring"); count]});
    for bad in [
        with_links(0),
        with_links(101),
        json!({}),
        json!({"links": 7}),
    ] {
        for path in ["/links/apply", "/links/release"] {
            ask(&app, path, &bad).await.problem(400, "invalid-fields");
        }
    }
    let policy = json!({"links": [{"code": "a", "uid": "1", "policy": "Forget"}]});
    let refused = ask(&app, "/links/release", &policy).await;
    refused.problem(400, "invalid-fields");
    let long = "x".repeat(128 * 1024);
    let long = with(wish("sale", "1", "spring"), json!({"url": long}));
    let refused = ask(&app, "/links/apply", &json!({"links": [long]})).await;
    refused.problem(413, "body-too-large");
}

/// Returns the links of a hundred objects with everything that a link can have.
fn hundred() -> Vec<Value> {
    let tags: Vec<String> = (0..10).map(|tag| format!("tag {tag}")).collect();
    let later = later();
    let full = |number: u32| {
        let name = format!("link-{number}");
        let fields = json!({"title": name, "tags": tags, "expires_at": later});
        with(wish(&name, &name, &name), fields)
    };
    (0..100).map(full).collect()
}

/// Returns the statements that read links as a whole, and the rows that were written in all tables. What sessions did
/// counts once they have ended.
async fn counts(database: &PgConnectOptions) -> (i64, i64) {
    let mut connection: PgConnection = database.connect().await.unwrap();
    let counts = "SELECT (sum(seq_scan) FILTER (WHERE relname = 'links'))::bigint, \
        sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables";
    sqlx::query_as(counts)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

/// Waits until the sessions of an app have ended.
async fn sessions_have_ended(database: &PgConnectOptions) {
    let mut connection: PgConnection = database.connect().await.unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while sqlx::query_scalar::<_, i64>(open)
        .fetch_one(&mut connection)
        .await
        .unwrap()
        > 0
    {}
}

#[tokio::test]
async fn one_statement_reads_a_hundred_links_and_nothing_is_written_if_they_are_as_asked() {
    let database = TestDatabase::new().await;
    let (app, _keys) = start(&database).await;
    let wishes = hundred();
    for result in apply(&app, &wishes).await {
        assert_eq!(result["result"], "created", "{result}");
    }
    assert!(app.stop().await.unwrap());
    // Every statement that reads links scans the table then.
    let mut connection: PgConnection = database.connect().await.unwrap();
    let no_index = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET enable_indexscan = off', current_database()); \
        EXECUTE format('ALTER DATABASE %I SET enable_bitmapscan = off', current_database()); \
        EXECUTE format('ALTER DATABASE %I SET enable_indexonlyscan = off', current_database()); END $$";
    connection.execute(no_index).await.unwrap();
    drop(connection);
    sessions_have_ended(&database).await;
    let mut differences = Vec::new();
    for requests in [0, 1] {
        let before = counts(&database).await;
        let (app, _keys) = start(&database).await;
        for _ in 0..requests {
            for result in apply(&app, &wishes).await {
                assert_eq!(result["result"], "unchanged", "{result}");
            }
        }
        assert!(app.stop().await.unwrap());
        sessions_have_ended(&database).await;
        let after = counts(&database).await;
        differences.push((after.0 - before.0, after.1 - before.1));
    }
    let [idle, asked] = differences[..] else {
        panic!("{differences:?}")
    };
    assert_eq!(asked, (idle.0 + 1, idle.1));
}

#[tokio::test]
async fn without_a_database_the_request_fails_and_a_repeat_goes_on() {
    let database = TestDatabase::new().await;
    let (proxy, through) = proxy_before(&database).await;
    let (app, _keys) = start(&through).await;
    assert_eq!(apply_one(&app, wish("one", "1", "one")).await, "created");
    proxy.set(Path::Silent);
    let links = json!({"links": [wish("one", "1", "one"), wish("two", "2", "two")]});
    let failed = ask(&app, "/links/apply", &links).await;
    failed.problem(503, "database-unavailable");
    let release = json!({"links": [{"code": "one", "uid": "1", "policy": "Retain"}]});
    let failed = ask(&app, "/links/release", &release).await;
    failed.problem(503, "database-unavailable");
    proxy.set(Path::Open);
    let applied = loop {
        let applied = ask(&app, "/links/apply", &links).await;
        if applied.status != 503 {
            break applied.json();
        }
    };
    assert_eq!(applied["results"][0]["result"], "unchanged", "{applied}");
    assert_eq!(applied["results"][1]["result"], "created", "{applied}");
}

#[tokio::test]
async fn the_rules_for_destinations_are_for_new_links_only() {
    let database = TestDatabase::new().await;
    let (app, _keys) = start(&database).await;
    assert_eq!(apply_one(&app, wish("old", "1", "old")).await, "created");
    let keys = Keys::new();
    let strict = App::start_with(&database, |config| {
        keys.configure(config);
        config.management.management_key = Some(KEY.to_owned());
        config.destinations.links_deny_hosts = vec!["example.com".parse().unwrap()];
    })
    .await;
    let off = with(wish("old", "1", "old"), json!({"enabled": false}));
    assert_eq!(apply_one(&strict, off).await, "changed");
    assert_eq!(get(strict.public, "/old").await.status, 410);
    let results = apply(&strict, &[wish("new", "2", "new")]).await;
    assert_eq!(results[0]["result"], "invalid");
    let message = results[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("url must not lead to this host"),
        "{message}"
    );
}

#[tokio::test]
async fn a_replica_that_drains_still_serves_the_operator() {
    let database = TestDatabase::new().await;
    let keys = Keys::new();
    let app = App::start_with(&database, |config| {
        keys.configure(config);
        config.management.management_key = Some(KEY.to_owned());
        config.drain_delay = Duration::from_secs(2);
    })
    .await;
    let (internal, management) = (app.internal, app.management.unwrap());
    let served = app.stop();
    while get(internal, "/readyz").await.status == 200 {}
    let headers = format!("authorization: Bearer {KEY}\r\n");
    let body = json!({"links": [{"code": "sale", "url": URL, "owner": {"uid": "1", "namespace": "team", "name": "a"}}]});
    let body = body.to_string();
    let request = json_bytes("POST", "/links/apply", &headers, body.as_bytes());
    let applied = send(management, request).await;
    assert_eq!(applied.json()["results"][0]["result"], "created");
    assert!(served.await.unwrap());
}
