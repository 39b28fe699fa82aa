//! Jobs that fail: retried a limited number of times and then dead-lettered, while other jobs continue.

use std::time::Duration;

use lapin::{BasicProperties, types::AMQPValue};
use shortener_common::{database::begin, queue::origin::Origin};
use shortener_testing::{broker::Broker, database::TestDatabase};
use shortener_worker::tasks::{Outcome, Registry};
use uuid::Uuid;

use crate::support::{
    Count, Flaky, Running, act, config, effects, prepare, publish, publish_as, row, wait_until,
};

/// Returns the broker's reason for dead-lettering a message.
fn reason(properties: &BasicProperties) -> String {
    let headers = properties.headers().as_ref().unwrap().inner();
    let Some(AMQPValue::FieldArray(deaths)) = headers.get("x-death") else {
        panic!("{headers:?}")
    };
    let AMQPValue::FieldTable(death) = &deaths.as_slice()[0] else {
        panic!("{deaths:?}")
    };
    match &death.inner()["reason"] {
        AMQPValue::LongString(reason) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns a task for each way to fail, and one that succeeds.
fn failing() -> Registry {
    Registry::default()
        .with("count", Count)
        .with("panics", act(|_, _| panic!("this task panics")))
        .with("hangs", act(|_, _| Box::pin(std::future::pending())))
        .with(
            "asks_nonsense",
            act(|_, context| {
                Box::pin(async move {
                    let nonsense = context.database.run("SELECT nonsense", |pool| async move {
                        sqlx::query("SELECT nonsense").execute(&pool).await
                    });
                    nonsense.await.map(|_| Outcome::done())
                })
            }),
        )
        .with(
            "never",
            act(|_, _| Box::pin(async move { Ok(Outcome::Reject("never valid".to_owned())) })),
        )
}

#[tokio::test]
async fn poison_ends_as_dead_letters_after_a_bounded_number_of_deliveries_and_the_queue_moves_on() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let mut config = config(&database, &broker.url());
    config.job_timeout = Duration::from_millis(50);
    let worker = Running::start(config, failing()).await;

    let panics = publish(&broker, r#"{"task":"panics"}"#).await;
    let hangs = publish(&broker, r#"{"task":"hangs"}"#).await;
    let nonsense = publish(&broker, r#"{"task":"asks_nonsense"}"#).await;
    let never = publish(&broker, r#"{"task":"never"}"#).await;
    let not_json = publish(&broker, "not json").await;
    let good = publish(&broker, r#"{"task":"count"}"#).await;

    wait_until(&pool, good, "done").await;
    broker.wait_for("jobs.dlq", (5, 0)).await;
    broker.wait_for("jobs", (0, 1)).await;
    for (id, message) in [
        (panics, "panicked"),
        (hangs, "took longer than 0.05 s"),
        (
            nonsense,
            "an internal error; the worker's log has it under trace ",
        ),
    ] {
        let (state, attempts, error) = row(&pool, id).await.unwrap();
        assert_eq!(
            (state.as_str(), attempts),
            ("failed", 5),
            "five deliveries and no more"
        );
        assert!(error.as_ref().unwrap().contains(message), "{error:?}");
    }
    let shown = row(&pool, nonsense).await.unwrap().2.unwrap();
    assert!(
        !shown.contains("nonsense"),
        "every client can read the ledger, and this is the text of the database: {shown}"
    );
    let rejected = ("failed".to_owned(), 1, Some("never valid".to_owned()));
    assert_eq!(row(&pool, never).await.unwrap(), rejected);
    assert_eq!(row(&pool, not_json).await, None);
    assert_eq!(worker.processed("invalid").await, 1);

    let mut reasons = Vec::new();
    while let Some(message) = broker.get("jobs.dlq").await {
        reasons.push(reason(&message.properties));
        let id = message
            .properties
            .message_id()
            .as_ref()
            .map(ToString::to_string);
        if id == Some(not_json.to_string()) {
            assert_eq!(message.data, b"not json", "a dead letter is what was sent");
        }
        message.ack(Default::default()).await.unwrap();
    }
    reasons.sort();
    let limit = "delivery_limit";
    assert_eq!(reasons, [limit, limit, limit, "rejected", "rejected"]);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_fails_its_job_and_holds_up_no_other() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let slow = act(|_, context| {
        Box::pin(async move {
            let slow = context.database.run("SELECT pg_sleep", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let limit = sqlx::query("SET LOCAL statement_timeout = '10ms'");
                limit.execute(&mut *transaction).await?;
                let sleep = sqlx::query("SELECT pg_sleep(60)");
                sleep.execute(&mut *transaction).await
            });
            slow.await.map(|_| Outcome::done())
        })
    });
    let tasks = Registry::default().with("count", Count).with("slow", slow);
    let _worker = Running::start(config(&database, &broker.url()), tasks).await;

    let slow = publish(&broker, r#"{"task":"slow"}"#).await;
    let good = publish(&broker, r#"{"task":"count"}"#).await;
    wait_until(&pool, good, "done").await;
    broker.wait_for("jobs.dlq", (1, 0)).await;
    let (state, attempts, _) = row(&pool, slow).await.unwrap();
    assert_eq!((state.as_str(), attempts), ("failed", 5));
}

#[tokio::test]
async fn a_job_that_anyone_could_send_and_that_never_succeeds_is_no_dead_letter() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let worker = Running::start(config(&database, &broker.url()), failing()).await;
    let never = publish_as(&broker, &Origin::Anonymous, r#"{"task":"never"}"#).await;
    let rejected = ("failed".to_owned(), 1, Some("never valid".to_owned()));
    wait_until(&pool, never, "failed").await;
    assert_eq!(row(&pool, never).await.unwrap(), rejected);
    let client = Origin::Client("shop".into());
    let kept = publish_as(&broker, &client, r#"{"task":"never"}"#).await;
    wait_until(&pool, kept, "failed").await;
    broker.wait_for("jobs.dlq", (1, 0)).await;
    broker.wait_for("jobs", (0, 1)).await;
    assert_eq!(worker.processed("rejected").await, 2);
}

#[tokio::test]
async fn a_job_that_fails_and_then_succeeds_is_done() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let registry = Registry::default().with("flaky", Flaky::new(3));
    let worker = Running::start(config(&database, &broker.url()), registry).await;
    let id = publish(&broker, r#"{"task":"flaky"}"#).await;
    assert_eq!(wait_until(&pool, id, "done").await, 4);
    assert_eq!(
        row(&pool, id).await.unwrap().2,
        None,
        "the error of the earlier attempt is removed"
    );
    assert_eq!(effects(&pool, id).await, 1);
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"done\"} 1")
        .await;
    assert_eq!(worker.processed("failed").await, 3);
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}

#[tokio::test]
async fn a_dead_letter_that_is_published_again_is_the_same_job() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let registry = Registry::default().with("flaky", Flaky::new(5));
    let _worker = Running::start(config(&database, &broker.url()), registry).await;
    let id: Uuid = publish(&broker, r#"{"task":"flaky"}"#).await;
    broker.wait_for("jobs.dlq", (1, 0)).await;
    let dead = broker.get("jobs.dlq").await.unwrap();
    broker.publish(dead.properties.clone(), &dead.data).await;
    dead.ack(Default::default()).await.unwrap();
    assert_eq!(wait_until(&pool, id, "done").await, 6);
    assert_eq!(effects(&pool, id).await, 1);
}
