//! The state of a job after its request, and the metrics and the trace of its publication.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use shortener_app::job_ids::JobIds;
use shortener_common::queue::origin::Origin;
use shortener_testing::{
    broker::Broker,
    database::TestDatabase,
    metrics,
    proxy::{Path, Proxy},
};
use sqlx::{ConnectOptions, Executor};
use uuid::{NoContext, Uuid};

use super::{JOB, accepted, app_with, enqueue, refused};
use crate::{
    client::{get, post},
    support::App,
};

#[tokio::test]
async fn what_became_of_a_job_is_read_from_the_ledger() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let id = accepted(&post(app.public, "/jobs", JOB).await);
    let path = format!("/jobs/{id}");
    get(app.public, &path).await.problem(404, "not-found");
    for malformed in ["/jobs/1", "/jobs/x%ff", "/jobs/"] {
        get(app.public, malformed).await.problem(404, "not-found");
    }
    let mut ledger = database.connect().await.unwrap();
    let row = sqlx::AssertSqlSafe(format!(
        "INSERT INTO jobs (message_id, task, client_id, state, started_at) VALUES ('{id}', 'email', '1', 'running', '2030-01-01T00:00:00Z')"
    ));
    ledger.execute(row).await.unwrap();
    let expected = |status: &str, end: Value, error: Value| {
        json!({"id": id, "task": "email", "client_id": "1", "status": status, "attempts": 1,
            "started_at": "2030-01-01T00:00:00Z", "finished_at": end, "error": error})
    };
    let running = expected("running", Value::Null, Value::Null);
    assert_eq!(get(app.public, &path).await.json(), running);
    // The worker died at the last delivery.
    let abandoned = "UPDATE jobs SET started_at = now() - interval '61 minutes'";
    ledger.execute(abandoned).await.unwrap();
    let gone = get(app.public, &path).await.json();
    assert_eq!(gone["status"], "failed");
    let error = gone["error"].as_str().unwrap();
    assert!(error.contains("dead letter"), "{error}");
    for (until, status) in [
        ("now() + interval '1 day'", "running"),
        ("now() + interval '1 minute'", "running"),
        ("now() - interval '1 minute'", "failed"),
        ("NULL", "failed"),
    ] {
        let alive = sqlx::AssertSqlSafe(format!("UPDATE jobs SET alive_until = {until}"));
        ledger.execute(alive).await.unwrap();
        let job = get(app.public, &path).await.json();
        assert_eq!(job["status"], status, "{until}");
    }
    let failed = "UPDATE jobs SET state = 'failed', started_at = '2030-01-01T00:00:00Z', error = 'it broke', finished_at = '2030-01-01T00:00:01Z'";
    ledger.execute(failed).await.unwrap();
    let failed = expected("failed", json!("2030-01-01T00:00:01Z"), json!("it broke"));
    assert_eq!(get(app.public, &path).await.json(), failed);
}

#[tokio::test]
async fn a_job_that_was_accepted_is_known_before_a_worker_has_it() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = async |key: Option<&str>| {
        let (url, key) = (broker.url(), key.map(str::to_owned));
        let app = App::start_with(&database, |config| {
            config.queue.queue_url = Some(url);
            config.job_id_key = key;
        })
        .await;
        metrics::wait_for(app.internal, "queue_up 1").await;
        app
    };
    let key = "hF3kq0mXc8VbT2nLwRz5sJyD7gAePu4K";
    let one = app(Some(key)).await;
    let id = accepted(&post(one.public, "/jobs", JOB).await);
    let repeated = "idempotency-key: k-4\r\n";
    let once = accepted(&enqueue(one.public, repeated, JOB).await);
    let another_replica = app(Some(key)).await;
    let of_another_stack = app(Some("another key of 32 characters xyz")).await;
    let keyless = app(None).await;
    for id in [&id, &once] {
        let path = format!("/jobs/{id}");
        let known = json!({"id": id, "task": "", "client_id": null, "status": "enqueued", "attempts": 0,
            "started_at": null, "finished_at": null, "error": null});
        for replica in [&one, &another_replica] {
            let response = get(replica.public, &path).await;
            assert_eq!((response.status, response.json()), (200, known.clone()));
        }
        for other in [&of_another_stack, &keyless] {
            get(other.public, &path).await.problem(404, "not-found");
        }
    }
    for never_given_out in [
        uuid::Uuid::now_v7().to_string(),
        uuid::Uuid::nil().to_string(),
        id.replace(&id[..1], "f"),
    ] {
        let path = format!("/jobs/{never_given_out}");
        get(one.public, &path).await.problem(404, "not-found");
    }
    // A worker that has it knows more.
    let mut ledger = database.connect().await.unwrap();
    let row = sqlx::AssertSqlSafe(format!(
        "INSERT INTO jobs (message_id, task, state) VALUES ('{id}', 'email', 'running')"
    ));
    ledger.execute(row).await.unwrap();
    let running = get(one.public, &format!("/jobs/{id}")).await.json();
    assert_eq!(
        (&running["status"], &running["task"]),
        (&json!("running"), &json!("email"))
    );
}

#[tokio::test]
async fn a_job_without_a_key_waits_until_a_worker_has_a_later_one() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let (url, key) = (broker.url(), "hF3kq0mXc8VbT2nLwRz5sJyD7gAePu4K");
    let app = App::start_with(&database, |config| {
        config.queue.queue_url = Some(url);
        config.job_id_key = Some(key.to_owned());
    })
    .await;
    // The ledger keeps such a job for a day.
    let at = |days: u64| {
        let age = Duration::from_secs(days * 24 * 60 * 60);
        let time = (SystemTime::now() - age)
            .duration_since(UNIX_EPOCH)
            .unwrap();
        let context = NoContext;
        let time = uuid::Timestamp::from_unix(context, time.as_secs(), time.subsec_nanos());
        JobIds::new(Some(key), 30).tagged(Uuid::new_v7(time), &Origin::Anonymous)
    };
    let (earlier, waiting, later, ancient) = (at(4), at(3), at(2), at(31));
    let mut ledger = database.connect().await.unwrap();
    for (received, waits) in [(earlier, true), (later, false)] {
        let row = "INSERT INTO jobs (message_id, task, state) VALUES ($1, 'email', 'running')";
        let row = sqlx::query(row).bind(received);
        row.execute(&mut ledger).await.unwrap();
        let state = get(app.public, &format!("/jobs/{waiting}")).await;
        match waits {
            true => assert_eq!(state.json()["status"], "enqueued"),
            false => drop(state.problem(404, "not-found")),
        }
        get(app.public, &format!("/jobs/{ancient}"))
            .await
            .problem(404, "not-found");
    }
}

#[tokio::test]
async fn publications_are_counted_with_their_outcome_and_their_trace() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let app = app_with(&database, broker.url_at(proxy.address)).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = format!("traceparent: 00-{trace}-b7ad6b7169203331-00\r\n");
    accepted(&enqueue(app.public, &headers, JOB).await);
    proxy.set(Path::Refused);
    refused(&post(app.public, "/jobs", JOB).await);
    let accept = "accept: application/openmetrics-text\r\n";
    let text = crate::client::request(app.internal, "GET", "/metrics", accept)
        .await
        .text();
    let series = "messaging_client_sent_messages_total{messaging_system=\"rabbitmq\",messaging_operation_name=\"publish\",messaging_destination_name=\"jobs\"";
    assert!(text.contains(&format!("{series}}} 1\n")), "{text}");
    assert!(
        text.contains(&format!("{series},error_type=\"away\"}} 1\n")),
        "{text}"
    );
    let exemplar = format!("# {{trace_id=\"{trace}\"");
    let bucket = |line: &str| {
        line.starts_with("messaging_client_operation_duration_seconds_bucket")
            && line.contains(&exemplar)
    };
    assert!(text.lines().any(bucket), "{text}");
}
