//! Draining: the job in progress is finished, no further job is received, and the deadline is enforced.

use std::time::Duration;

use shortener_testing::{
    broker::{Broker, until},
    client::get,
    database::TestDatabase,
};
use shortener_worker::tasks::Registry;

use crate::support::{Flaky, Keeper, Running, config, effects, prepare, publish, row, wait_until};

#[tokio::test]
async fn the_job_in_progress_is_finished_and_the_next_one_is_left_alone() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let (gate, mut keeper) = Keeper::new();
    let registry = Registry::default().with("gate", gate());
    let worker = Running::start(config(&database, &broker.url()), registry).await;
    let internal = worker.internal;
    let first = publish(&broker, r#"{"task":"gate"}"#).await;
    keeper.begun.recv().await.unwrap();
    let second = publish(&broker, r#"{"task":"gate"}"#).await;

    let work = worker.stop();
    let answer = until("the worker to leave", async || {
        let answer = get(internal, "/readyz").await;
        (answer.status == 503)
            .then(|| answer.text())
            .ok_or(answer.text())
    });
    assert_eq!(answer.await, "draining\n");
    assert_eq!(get(internal, "/livez").await.status, 200);
    assert!(!work.is_finished());
    keeper.let_through(1);
    assert!(work.await.unwrap(), "the job in progress was finished");

    wait_until(&pool, first, "done").await;
    assert_eq!(effects(&pool, first).await, 1);
    assert_eq!(row(&pool, second).await, None);
    let left = broker.get("jobs").await.unwrap();
    assert!(!left.redelivered, "the second job was not delivered");
    assert!(broker.get("jobs").await.is_none());
}

#[tokio::test]
async fn a_job_that_outlasts_the_deadline_goes_back_to_the_queue() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let (gate, mut keeper) = Keeper::new();
    let mut settings = config(&database, &broker.url());
    settings.drain_timeout = Duration::from_millis(200);
    let registry = Registry::default().with("gate", gate());
    let worker = Running::start(settings, registry).await;
    let id = publish(&broker, r#"{"task":"gate"}"#).await;
    keeper.begun.recv().await.unwrap();
    assert!(!worker.stop().await.unwrap(), "the job was not finished");
    broker.wait_for("jobs", (1, 0)).await;
    assert_eq!(row(&pool, id).await.unwrap().0, "running");

    keeper.let_through(1);
    let registry = Registry::default().with("gate", gate());
    let _worker = Running::start(config(&database, &broker.url()), registry).await;
    assert_eq!(wait_until(&pool, id, "done").await, 2);
    assert_eq!(effects(&pool, id).await, 1);
}

#[tokio::test]
async fn an_idle_worker_leaves_at_once() {
    let database = TestDatabase::new().await;
    let (broker, _pool) = (Broker::new().await, prepare(&database).await);
    let registry = Registry::default().with("flaky", Flaky::new(0));
    let worker = Running::start(config(&database, &broker.url()), registry).await;
    assert!(worker.stop().await.unwrap());
    broker.wait_for("jobs", (0, 0)).await;
}
