//! Requests with an idempotency key: the same key is the same job.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::json;
use shortener_common::queue::public_tasks::PublicTasks;
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics,
};

use super::{JOB, accepted, app_with, drain_all, enqueue, refused};
use crate::{client::post, support::App};

/// Fills the queue. Every channel detects that separately, so one rejection is not enough.
async fn fill(broker: &Broker, app: &App) -> BTreeSet<String> {
    broker.policy(json!({"max-length": 1})).await;
    let (mut taken, mut refusals) = (BTreeSet::new(), 0);
    while refusals < 16 {
        let response = post(app.public, "/jobs", JOB).await;
        if response.status == 202 {
            taken.insert(accepted(&response));
            refusals = 0;
        } else {
            refused(&response);
            refusals += 1;
        }
    }
    taken
}

#[tokio::test]
async fn only_an_idempotency_key_makes_two_requests_one_job() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let first = accepted(&post(app.public, "/jobs", JOB).await);
    let second = accepted(&post(app.public, "/jobs", JOB).await);
    assert_ne!(
        first, second,
        "the client's own id does not identify the job"
    );

    let key = "idempotency-key: \"k-1\"\r\n";
    let answers = join_all((0..8).map(|_| enqueue(app.public, key, JOB))).await;
    let ids: BTreeSet<String> = answers.iter().map(accepted).collect();
    assert_eq!(ids.len(), 1, "eight requests create one job");
    // Concurrent requests may each have published it; later ones do not.
    let queued = drain_all(&broker).await;
    assert_eq!(
        accepted(&enqueue(app.public, key, JOB).await),
        *ids.first().unwrap()
    );
    assert_eq!(broker.counts("jobs").await.0, 0);
    assert_eq!(queued.len(), 3);

    let other = enqueue(app.public, key, r#"{"task":"email","id":2}"#).await;
    other.problem(422, "idempotency-key-reused");
    let broken = enqueue(app.public, "idempotency-key: a b\r\n", JOB).await;
    assert_eq!(
        broken.problem(400, "invalid-fields")["errors"][0]["field"],
        "Idempotency-Key"
    );
}

#[tokio::test]
async fn a_job_that_was_accepted_stays_accepted_when_its_task_is_public_no_more() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = async |tasks: &str| {
        let app = App::start_with(&database, |config| {
            config.queue.queue_url = Some(broker.url());
            config.public_tasks = PublicTasks::parse(tasks).unwrap();
        })
        .await;
        metrics::wait_for(app.internal, "queue_up 1").await;
        app
    };
    let (before, after) = (app("email").await, app("").await);
    let key = "idempotency-key: k-5\r\n";
    let id = accepted(&enqueue(before.public, key, JOB).await);
    assert_eq!(accepted(&enqueue(after.public, key, JOB).await), id);
    let other = enqueue(after.public, key, r#"{"task":"email","id":2}"#).await;
    other.problem(422, "idempotency-key-reused");
    for headers in ["", "idempotency-key: k-6\r\n"] {
        let refused = enqueue(after.public, headers, JOB).await;
        refused.problem(403, "task-not-public");
    }
    assert_eq!(broker.counts("jobs").await.0, 1);
}

#[tokio::test]
async fn a_key_whose_job_was_refused_stands_for_the_same_job_later() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    let key = "idempotency-key: k-2\r\n";
    fill(&broker, &app).await;
    refused(&enqueue(app.public, key, JOB).await);
    broker.policy(json!({})).await;
    let id = until("the queue to have room", async || {
        let response = enqueue(app.public, key, JOB).await;
        (response.status == 202)
            .then(|| accepted(&response))
            .ok_or(response.text())
    })
    .await;
    assert_eq!(accepted(&enqueue(app.public, key, JOB).await), id);
    assert!(drain_all(&broker).await.contains(&id));
}
