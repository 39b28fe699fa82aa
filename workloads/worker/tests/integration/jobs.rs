//! Jobs in normal operation.

use std::time::Duration;

use lapin::BasicProperties;
use serde_json::json;
use shortener_common::{
    queue::{decision::Decision, job, origin::Origin},
    trace::TraceContext,
};
use shortener_testing::{
    broker::{Broker, until},
    client::get,
    database::TestDatabase,
};
use shortener_worker::tasks::Registry;

use crate::{
    application,
    support::{
        Count, Keeper, Running, bind, config, effects, prepare, publish, publish_as, row,
        wait_until,
    },
};

/// The example of the specification.
const JOB: &str = r#"{"task":"email","id":1}"#;

#[tokio::test]
async fn a_job_is_done_once_recorded_as_it_was_sent_and_gone_from_the_queue() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let hostile = r#"{ "task":"a\u0000b", "id":"\u0000\ud83d\ude00",  "deep":[[[{}]]] }"#;
    for body in [JOB, "{}", r#"{"task":7,"id":{"a":1}}"#, hostile] {
        let id = publish(&broker, body).await;
        assert_eq!(wait_until(&pool, id, "done").await, 1);
        let kept: (String, Option<String>) =
            sqlx::query_as("SELECT payload::text, client_id FROM jobs WHERE message_id = $1::uuid")
                .bind(id.to_string())
                .fetch_one(&pool)
                .await
                .unwrap();
        assert_eq!(kept.0, body);
        assert_eq!(kept.1.is_some(), body.contains("id"));
    }
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"done\"} 4")
        .await;
    assert!(worker.stop().await.unwrap());
    broker.wait_for("jobs", (0, 0)).await;
    assert!(broker.get("jobs").await.is_none());
}

#[tokio::test]
async fn a_large_job_is_stored_for_those_with_a_key_only() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let _worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let body = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let client = Origin::Client("shop".into());
    for (sender, bytes, stored) in [
        (&Origin::Anonymous, 1024, Some(1024)),
        (&Origin::Anonymous, 1025, None),
        (&client, 48 * 1024, Some(48 * 1024)),
    ] {
        let id = publish_as(&broker, sender, &body(bytes)).await;
        wait_until(&pool, id, "done").await;
        let length = "SELECT octet_length(payload::text) FROM jobs WHERE message_id = $1::uuid";
        let length = sqlx::query_scalar::<_, Option<i32>>(length).bind(id.to_string());
        let length = length.fetch_one(&pool).await.unwrap();
        assert_eq!(length, stored, "{sender:?}");
    }
}

#[tokio::test]
async fn three_workers_share_the_queue_and_each_holds_one_job() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let (gate, mut keeper) = Keeper::new();
    let mut workers = Vec::new();
    for _ in 0..3 {
        let registry = Registry::default().with("gate", gate());
        workers.push(Running::start(config(&database, &broker.url()), registry).await);
    }
    let mut jobs = Vec::new();
    for _ in 0..9 {
        jobs.push(publish(&broker, r#"{"task":"gate"}"#).await);
    }
    for _ in 0..3 {
        keeper.begun.recv().await.unwrap();
    }
    broker.wait_for("jobs", (6, 3)).await;
    assert!(
        keeper.begun.try_recv().is_err(),
        "no worker begins a second job"
    );
    keeper.let_through(9);
    for job in jobs {
        assert_eq!(wait_until(&pool, job, "done").await, 1);
        assert_eq!(effects(&pool, job).await, 1);
    }
    for worker in workers {
        assert!(
            worker.processed("done").await >= 1,
            "every worker processed a job"
        );
    }
}

#[tokio::test]
async fn a_message_that_comes_again_after_its_job_was_done_is_a_duplicate() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let registry = Registry::default().with("count", Count);
    let worker = Running::start(config(&database, &broker.url()), registry).await;
    let id = publish(&broker, r#"{"task":"count"}"#).await;
    wait_until(&pool, id, "done").await;
    for _ in 0..2 {
        let trace = TraceContext::continuing(None);
        let (origin, decision) = (Origin::Internal, Decision::default());
        let properties = job::properties(id, &origin, &decision, trace, None);
        broker.publish(properties, br#"{"task":"count"}"#).await;
    }
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"duplicate\"} 2")
        .await;
    assert_eq!(effects(&pool, id).await, 1);
    assert_eq!(row(&pool, id).await.unwrap(), ("done".to_owned(), 1, None));
    broker.wait_for("jobs", (0, 1)).await;
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}

#[tokio::test]
async fn a_message_of_another_sender_is_a_job_with_or_without_a_uuid() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let named = || BasicProperties::default().with_message_id("m-1".into());
    let unnamed = BasicProperties::default;
    for properties in [named(), named(), unnamed(), unnamed()] {
        broker.publish(properties, JOB.as_bytes()).await;
    }
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"done\"} 3")
        .await;
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"duplicate\"} 1")
        .await;
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}

#[tokio::test]
async fn a_job_that_the_application_accepted_is_done_and_its_state_can_be_read() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let public = application::start(&database, &broker.url(), &[]).await;
    let worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let accepted = application::accepts(public, "").await;
    let path = format!("/jobs/{}", accepted["id"].as_str().unwrap());
    let state = until("the job to be done", async || {
        let response = get(public, &path).await;
        let done = response.status == 200 && response.json()["status"] == "done";
        done.then(|| response.json()).ok_or(response.text())
    })
    .await;
    assert_eq!(
        (&state["task"], &state["client_id"]),
        (&json!("email"), &json!("1"))
    );
    assert_eq!(state["attempts"], 1);
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"done\"} 1")
        .await;
}

#[tokio::test]
async fn a_purge_leaves_tombstones_and_takes_old_keys_and_jobs() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let mut config = config(&database, &broker.url());
    config.purge.purge_retention_days = 30;
    let _worker = Running::start(config, Registry::default()).await;
    for rows in [
        // More than two batches.
        "INSERT INTO links (code, url, expires_at) SELECT 'old' || n, 'https://example.com', now() - interval '1 s' FROM generate_series(1, 2001) n",
        "INSERT INTO links (code, url, expires_at) VALUES ('later', 'https://example.com', now() + interval '1 h'), ('never', 'https://example.com', NULL)",
        "INSERT INTO job_keys (key, body_sha256, message_id, created_at) VALUES ('old', '', gen_random_uuid(), now() - interval '3 days'), ('new', '', gen_random_uuid(), now())",
        "INSERT INTO jobs (message_id, task, state, finished_at) VALUES (gen_random_uuid(), 'old', 'done', now() - interval '31 days'), (gen_random_uuid(), 'new', 'done', now() - interval '1 day')",
        "INSERT INTO jobs (message_id, task, state, started_at) VALUES (gen_random_uuid(), 'old', 'running', now() - interval '31 days'), (gen_random_uuid(), 'new', 'running', now() - interval '1 day')",
        "INSERT INTO link_keys (key, body_sha256, created_at) VALUES ('old', '', now() - interval '3 days'), ('new', '', now())",
        "INSERT INTO links (code, url, disabled_url, disabled_at, disabled_as, expires_at) VALUES ('down', NULL, 'https://example.com', now(), 'gone', now() - interval '1 s'), ('lasting', NULL, 'https://example.com', now(), 'gone', NULL)",
    ] {
        sqlx::query(rows).execute(&pool).await.unwrap();
    }
    let id = publish(&broker, r#"{"task":"purge_expired"}"#).await;
    wait_until(&pool, id, "done").await;
    for (question, answer) in [
        ("SELECT count(*) FROM links", 2005),
        ("SELECT count(*) FROM links WHERE url IS NULL", 2003),
        (
            "SELECT count(*) FROM links WHERE code = 'down' AND disabled_url IS NULL",
            1,
        ),
        (
            "SELECT count(*) FROM links WHERE disabled_url IS NOT NULL",
            1,
        ),
        ("SELECT count(*) FROM link_keys WHERE key = 'new'", 1),
        ("SELECT count(*) FROM link_keys", 1),
        ("SELECT count(*) FROM job_keys WHERE key = 'new'", 1),
        ("SELECT count(*) FROM job_keys", 1),
        ("SELECT count(*) FROM jobs WHERE task = 'old'", 0),
        ("SELECT count(*) FROM jobs WHERE task = 'new'", 2),
    ] {
        let counted: i64 = sqlx::query_scalar(question).fetch_one(&pool).await.unwrap();
        assert_eq!(counted, answer, "{question}");
    }
}

#[tokio::test]
async fn an_accepted_job_is_done_whoever_sent_it() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let _worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let client = Origin::Client("shop".into());
    for sender in [Origin::Anonymous, client, Origin::Internal] {
        for body in [r#"{"task":"purge_expired"}"#, r#"{"task":"wait","ms":0}"#] {
            let id = publish_as(&broker, &sender, body).await;
            assert_eq!(wait_until(&pool, id, "done").await, 1, "{sender:?} {body}");
        }
    }
}

#[tokio::test]
async fn the_wait_task_takes_its_time_and_refuses_what_is_no_time() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let _worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let id = publish(&broker, r#"{"task":"wait","ms":300}"#).await;
    wait_until(&pool, id, "done").await;
    let took: i64 = sqlx::query_scalar(
        "SELECT (extract(epoch FROM finished_at - started_at) * 1000)::bigint FROM jobs WHERE message_id = $1::uuid",
    )
    .bind(id.to_string())
    .fetch_one(&pool)
    .await
    .unwrap();
    assert!(
        Duration::from_millis(took.unsigned_abs()) >= Duration::from_millis(300),
        "{took} ms"
    );
    let id = publish(&broker, r#"{"task":"wait","ms":60001}"#).await;
    assert_eq!(wait_until(&pool, id, "failed").await, 1);
    broker.wait_for("jobs.dlq", (1, 0)).await;
}

#[tokio::test]
async fn a_worker_records_that_its_job_still_runs() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let (gate, keeper) = Keeper::new();
    let registry = Registry::default().with("gated", gate());
    let worker = bind(config(&database, &broker.url()), registry).await;
    let every = Duration::from_millis(10);
    let worker = Running::run(worker.with(|processor| processor.runs_every = every));
    worker.ready().await;
    let job = publish(&broker, r#"{"task":"gated"}"#).await;
    until("the record", async || {
        let runs = "SELECT alive_until > now() + interval '59 minutes' FROM jobs";
        let runs = sqlx::query_scalar::<_, Option<bool>>(runs).fetch_optional(&pool);
        let runs = runs.await.unwrap().flatten();
        (runs == Some(true))
            .then_some(())
            .ok_or(format!("{runs:?}"))
    })
    .await;
    keeper.let_through(1);
    wait_until(&pool, job, "done").await;
}
