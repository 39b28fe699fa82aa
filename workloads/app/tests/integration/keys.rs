//! Keys of clients: what needs one, whose bucket a request takes from, and how a changed Secret takes effect.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use shortener_app::scope::{Scope, Scopes};
use shortener_common::queue::{decision::Decision, job::Job, origin::Origin};
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics::{self, value},
};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::{
    client::{Response, get, post_bytes, request, send},
    process::{addresses, migrated, serving, start},
    support::App,
};

const OLD: &str = "1f0e4c8b2a6d49f7a3c5e1b09d7f6a52";
const NEW: &str = "c2a7d5e90b184f63b8e6f1a4d3907c5e";
const WRONG: &str = "ffffffffffffffffffffffffffffffff";
const LINK: &str = r#"{"url":"https://example.com/"}"#;

/// Writes a version of a Secret as the kubelet does.
fn mount(folder: &Path, version: &str, entries: &[(&str, &str)]) {
    let target = folder.join(version);
    fs::create_dir(&target).unwrap();
    for (name, value) in entries {
        fs::write(target.join(name), value).unwrap();
    }
    let link = folder.join("..data_tmp");
    symlink(version, &link).unwrap();
    fs::rename(link, folder.join("..data")).unwrap();
}

pub fn secret(entries: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    mount(folder.path(), "..1", entries);
    folder
}

async fn create(app: &App, key: &str) -> Response {
    let headers = format!("authorization: Bearer {key}\r\n");
    send(
        app.public,
        post_bytes("/shorten", &headers, LINK.as_bytes()),
    )
    .await
}

#[tokio::test]
async fn protected_routes_need_a_key_and_redirects_never_do() {
    let database = TestDatabase::new().await;
    let folder = secret(&[("shop", OLD), ("reader", NEW), ("reader.scopes", "metrics")]);
    let app = App::start_with(&database, |config| {
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
    })
    .await;
    let created = create(&app, OLD).await;
    assert_eq!(created.status, 201, "{created:?}");
    let code = created.json()["code"].as_str().unwrap().to_owned();
    assert_eq!(get(app.public, &format!("/{code}")).await.status, 302);
    for path in ["/health", "/openapi.json"] {
        assert_eq!(get(app.public, path).await.status, 200, "{path}");
    }
    get(app.public, "/none").await.problem(404, "not-found");

    for (method, path) in [
        ("POST", "/shorten"),
        ("GET", "/shorten"),
        ("POST", "/jobs"),
        ("GET", "/jobs/0190163d-8694-739b-aea5-966c26f8ad91"),
        ("PUT", "/docs/1"),
        ("DELETE", "/docs/1"),
        ("POST", "/docs/query"),
        ("GET", "/metrics"),
    ] {
        let refused = request(app.public, method, path, "").await;
        refused.problem(401, "unauthorized");
        let realm = "Bearer realm=\"sho.rt\"";
        assert_eq!(refused.header("www-authenticate"), Some(realm), "{path}");
    }
    create(&app, WRONG).await.problem(401, "unauthorized");
    let forbidden = create(&app, NEW).await;
    forbidden.problem(403, "forbidden");
    assert_eq!(
        forbidden.header("www-authenticate"),
        Some("Bearer realm=\"sho.rt\", error=\"insufficient_scope\", scope=\"shorten\"")
    );
    let key = format!("x-api-key: {NEW}\r\n");
    let metrics = request(app.public, "GET", "/metrics", &key).await;
    assert_eq!(metrics.status, 200);
    assert!(!metrics.text().contains("shop") && !metrics.text().contains(OLD));
    assert_eq!(get(app.internal, "/metrics").await.status, 200);
}

#[tokio::test]
async fn a_refused_request_is_answered_without_its_body() {
    let database = TestDatabase::new().await;
    let folder = secret(&[("shop", OLD)]);
    let app = App::start_with(&database, |config| {
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
    })
    .await;
    let head = "POST /shorten HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n";
    let mut connection = crate::client::Connection::open(app.public).await;
    connection.write(head.as_bytes()).await;
    let response = timeout(Duration::from_secs(5), connection.response(true)).await;
    response.unwrap().unwrap().problem(401, "unauthorized");
}

#[tokio::test]
async fn a_task_that_is_not_public_needs_a_key_for_jobs_where_jobs_need_none() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let folder = secret(&[("shop", OLD), ("mail", NEW), ("mail.scopes", "docs")]);
    let url = broker.url();
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(url);
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
        config.auth.auth_protect = Scopes::from_iter([Scope::Docs]);
    })
    .await;
    metrics::wait_for(app.internal, "queue_up 1").await;
    let enqueue = async |key: Option<&str>, task: &str| {
        let headers = key.map(|key| format!("x-api-key: {key}\r\n"));
        let body = format!(r#"{{"task":"{task}","ms":0}}"#);
        let request = post_bytes("/jobs", &headers.unwrap_or_default(), body.as_bytes());
        send(app.public, request).await
    };
    for key in [None, Some(WRONG)] {
        let refused = enqueue(key, "wait").await;
        refused.problem(401, "unauthorized");
        let realm = "Bearer realm=\"sho.rt\"";
        assert_eq!(refused.header("www-authenticate"), Some(realm));
    }
    let forbidden = enqueue(Some(NEW), "wait").await;
    forbidden.problem(403, "forbidden");
    for (key, task, sender) in [
        (None, "email", Origin::Anonymous),
        (Some(NEW), "email", Origin::Anonymous),
        (Some(OLD), "email", Origin::Client("shop".into())),
        (Some(OLD), "wait", Origin::Client("shop".into())),
    ] {
        let answer = enqueue(key, task).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let message = broker.get("jobs").await.unwrap();
        let job = Job::parse(&message.properties, message.data.clone()).unwrap();
        assert_eq!((job.fields.task.as_str(), job.origin), (task, sender));
        assert_eq!(job.decision, Decision::new(task, None));
        message.ack(Default::default()).await.unwrap();
    }
    assert_eq!(broker.counts("jobs").await.0, 0);
}

#[tokio::test]
async fn wrong_keys_use_up_the_bucket_of_the_address_and_not_that_of_the_client() {
    let database = TestDatabase::new().await;
    let folder = secret(&[("shop", OLD), ("mail", NEW)]);
    let app = App::start_with(&database, |config| {
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
        config.auth.auth_protect = Scopes::from_iter([Scope::Shorten]);
        config.limit_shorten_per_minute = 1;
        config.limit_shorten_burst = 5;
        config.auth.auth_limit_shorten_burst = Some(3);
    })
    .await;
    let mut statuses = Vec::new();
    for _ in 0..1_000 {
        statuses.push(create(&app, WRONG).await.status);
    }
    assert_eq!(statuses[..5], [401; 5]);
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!(refused > 950, "{refused}");
    for _ in 0..3 {
        assert_eq!(create(&app, OLD).await.status, 201);
    }
    create(&app, OLD).await.problem(429, "rate-limited");
    assert_eq!(create(&app, NEW).await.status, 201);
    let missing = "auth_requests_total{result=\"invalid\"}";
    assert_eq!(value(app.internal, missing).await, 1_000);
}

#[tokio::test]
async fn a_changed_secret_takes_effect_within_two_seconds_and_costs_no_request() {
    let database = TestDatabase::new().await;
    let folder = secret(&[("shop", OLD)]);
    let app = App::start_with(&database, |config| {
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
    })
    .await;
    // Two lines are a rotation: both keys work until the old one is removed.
    mount(
        folder.path(),
        "..2",
        &[("shop", format!("{OLD}\n{NEW}\n").as_str())],
    );
    let begun = Instant::now();
    until("the new key to work", async || {
        assert_eq!(create(&app, OLD).await.status, 201);
        let response = create(&app, NEW).await;
        (response.status == 201)
            .then_some(())
            .ok_or(format!("{response:?}"))
    })
    .await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    mount(folder.path(), "..3", &[("shop", NEW)]);
    let begun = Instant::now();
    until("the old key to be refused", async || {
        assert_eq!(create(&app, NEW).await.status, 201);
        let response = create(&app, OLD).await;
        (response.status == 401)
            .then_some(())
            .ok_or(format!("{response:?}"))
    })
    .await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn the_log_names_the_client_and_never_a_key() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let short = &OLD[1..];
    let folder = secret(&[
        ("shop", OLD),
        ("mail", NEW),
        ("mail.scopes", "docs"),
        ("bad", short),
    ]);
    let mut environment = serving(&url);
    let directory = folder.path().to_str().unwrap();
    environment.push(("AUTH_KEYS_DIRECTORY", directory));
    let mut process = start(&["serve"], &environment);
    let mut lines = Vec::new();
    let ignored = process.event("key_ignored").await;
    assert_eq!(ignored["auth.entry"], "bad");
    lines.push(ignored);
    let unbounded = process.event("key_without_scopes").await;
    assert_eq!(unbounded["auth.client"], "shop");
    assert_eq!(unbounded["level"], "WARN");
    lines.push(unbounded);
    let (public, _) = addresses(&mut process).await;
    for (key, status, client) in [
        (OLD, 201, Some("shop")),
        (NEW, 403, Some("mail")),
        (WRONG, 401, None),
    ] {
        let headers = format!("x-api-key: {key}\r\n");
        let response = send(public, post_bytes("/shorten", &headers, LINK.as_bytes())).await;
        assert_eq!(response.status, status);
        assert!(!response.text().contains(key));
        let line = process.event("request").await;
        assert_eq!(line["auth.client"].as_str(), client, "{line}");
        lines.push(line);
    }
    for line in lines {
        for key in [OLD, NEW, WRONG, short] {
            assert!(!line.to_string().contains(key), "{line}");
        }
    }
    process.terminate().await;
    assert!(process.exit().await.success());
}
