//! Outages of the broker and the database, and workers that die: every job is done, and its effect happens once.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use lapin::{BasicProperties, options::BasicConsumeOptions, types::FieldTable};
use serde_json::json;
use shortener_common::{
    database::StoreError,
    queue::{self, connect, job::Job, topology},
    tls::ClientTls,
};
use shortener_testing::{
    broker::{Broker, until},
    client::get,
    database::TestDatabase,
    process::Process,
    proxy::{Path, Proxy},
};
use shortener_worker::tasks::{Context, Outcome, Registry, Task};
use sqlx::{ConnectOptions, PgPool, postgres::PgConnectOptions};

use crate::support::{
    Count, Keeper, Running, config, effect_of, effects, prepare, publish, row, wait_until,
};

/// A task that cuts the connection to the broker just before the effect is committed.
struct CutsTheBrokerOff(Arc<Proxy>);

impl Task for CutsTheBrokerOff {
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        let proxy = Arc::clone(&self.0);
        let effect = effect_of(job);
        Box::pin(async move {
            Ok(Outcome::Done(Box::new(move |connection| {
                Box::pin(async move {
                    proxy.set(Path::Refused);
                    effect(connection).await
                })
            })))
        })
    }
}

#[tokio::test]
async fn a_connection_lost_after_the_effect_and_before_the_acknowledgement_makes_no_second_effect()
{
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let proxy = Arc::new(Proxy::before(broker.address()).await);
    let registry = Registry::default().with("cut", CutsTheBrokerOff(Arc::clone(&proxy)));
    let worker = Running::start(config(&database, &broker.url_at(proxy.address)), registry).await;
    let id = publish(&broker, r#"{"task":"cut"}"#).await;
    wait_until(&pool, id, "done").await;
    proxy.set(Path::Open);
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"duplicate\"} 1")
        .await;
    assert_eq!(effects(&pool, id).await, 1);
    assert_eq!(row(&pool, id).await.unwrap().1, 1);
    broker.wait_for("jobs", (0, 1)).await;
}

#[tokio::test]
async fn a_worker_that_is_killed_in_the_middle_of_a_job_leaves_it_to_another() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_worker"));
    command
        .env("DATABASE_URL", database.to_url_lossy().as_str())
        .env("QUEUE_URL", broker.url())
        .env("WORKER_INTERNAL_LISTEN", "127.0.0.1:0");
    let mut doomed = Process::spawn(&mut command);
    doomed.event("queue_up").await;
    let id = publish(&broker, r#"{"task":"wait","ms":60000}"#).await;
    doomed.event("job_start").await;
    wait_until(&pool, id, "running").await;
    drop(doomed);
    let registry = Registry::default().with("wait", Count);
    let _worker = Running::start(config(&database, &broker.url()), registry).await;
    assert_eq!(wait_until(&pool, id, "done").await, 2);
    assert_eq!(effects(&pool, id).await, 1);
}

#[tokio::test]
async fn an_outage_of_the_database_holds_the_job_and_spends_no_delivery() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let proxy = Proxy::before(format!("{}:{}", database.get_host(), database.get_port())).await;
    let behind = database
        .clone()
        .host(&proxy.address.ip().to_string())
        .port(proxy.address.port());
    let (gate, mut keeper) = Keeper::new();
    let registry = Registry::default().with("gate", gate());
    let worker = Running::start(config(&behind, &broker.url()), registry).await;
    for path in [Path::Refused, Path::Silent] {
        let first = publish(&broker, r#"{"task":"gate"}"#).await;
        assert_eq!(keeper.begun.recv().await.unwrap(), first);
        let second = publish(&broker, r#"{"task":"gate"}"#).await;
        proxy.set(path);
        // More than one, because a held job starts again with every attempt.
        keeper.let_through(1000);
        worker.wait_for_metric("jobs_holding 1").await;
        worker.wait_for_metric("database_up 0").await;
        broker.wait_for("jobs", (1, 1)).await;
        assert_eq!(get(worker.internal, "/livez").await.status, 200);
        proxy.set(Path::Open);
        for job in [first, second] {
            wait_until(&pool, job, "done").await;
            assert_eq!(effects(&pool, job).await, 1);
        }
        while keeper.begun.try_recv().is_ok() {}
        keeper.close().await;
    }
    worker
        .wait_for_metric("jobs_processed_total{outcome=\"done\"} 4")
        .await;
    for outcome in ["failed", "duplicate", "given_back", "rejected"] {
        assert_eq!(worker.processed(outcome).await, 0, "{outcome}");
    }
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}

#[tokio::test]
async fn without_a_database_no_job_is_taken() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let proxy = Proxy::before(format!("{}:{}", database.get_host(), database.get_port())).await;
    proxy.set(Path::Refused);
    let behind = database
        .clone()
        .host(&proxy.address.ip().to_string())
        .port(proxy.address.port());
    let worker = Running::launch(config(&behind, &broker.url()), Registry::default()).await;
    let answer = get(worker.internal, "/readyz").await;
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (503, "not connected to the queue\n")
    );
    until("the reason", async || {
        let found = get(worker.internal, "/backends").await.json();
        let expected = json!({
            "database": {"up": false, "fault": "unreachable"},
            // The worker takes no jobs before it has a database.
            "queue": {"up": false},
        });
        (found == expected).then_some(()).ok_or(found.to_string())
    })
    .await;
    proxy.set(Path::Open);
    worker.ready().await;
    let both = json!({"database": {"up": true}, "queue": {"up": true}});
    assert_eq!(get(worker.internal, "/backends").await.json(), both);
    let id = publish(&broker, "{}").await;
    wait_until(&pool, id, "done").await;
}

async fn finds_the_broker_again(database: &PgConnectOptions, path: Path) {
    let (broker, pool) = (Broker::new().await, prepare(database).await);
    let proxy = Proxy::before(broker.address()).await;
    let url = broker.url_at(proxy.address);
    let worker = Running::start(config(database, &url), Registry::default()).await;
    for _ in 0..2 {
        proxy.set(path);
        worker.wait_for_metric("queue_up 0").await;
        assert_eq!(get(worker.internal, "/readyz").await.status, 503);
        assert_eq!(get(worker.internal, "/livez").await.status, 200);
        let id = publish(&broker, "{}").await;
        proxy.set(Path::Open);
        wait_until(&pool, id, "done").await;
        worker.ready().await;
    }
}

#[tokio::test]
async fn a_broker_that_refuses_connections_is_found_again() {
    let database = TestDatabase::new().await;
    finds_the_broker_again(&database, Path::Refused).await;
}

#[tokio::test]
async fn a_broker_that_fell_silent_is_noticed_and_found_again() {
    let database = TestDatabase::new().await;
    finds_the_broker_again(&database, Path::Silent).await;
}

#[tokio::test]
async fn a_deleted_queue_comes_back_with_its_consumer() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let worker = Running::start(config(&database, &broker.url()), Registry::default()).await;
    for object in ["exchanges/jobs.dlx", "queues/jobs.dlq", "queues/jobs"] {
        broker.delete(object).await;
    }
    worker.ready().await;
    // The worker may still report the readiness from before the deletion.
    shortener_testing::broker::until("the queue", async || {
        broker.has("jobs").await.then_some(()).ok_or(String::new())
    })
    .await;
    broker.wait_for("jobs", (0, 1)).await;
    assert!(broker.has("jobs.dlq").await);
    let id = publish(&broker, "{}").await;
    wait_until(&pool, id, "done").await;
}

async fn done(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM jobs WHERE state = 'done'")
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn connections_that_break_again_and_again_lose_no_job_and_double_no_effect() {
    let database = TestDatabase::new().await;
    const JOBS: i64 = 200;
    const CUTS: i64 = 8;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let proxy = Proxy::before(broker.address()).await;
    let url = broker.url_at(proxy.address);
    // Every cut may return the same job, which is not a failure of the job.
    broker
        .policy(serde_json::json!({"delivery-limit": 50}))
        .await;
    let mut workers = Vec::new();
    for _ in 0..2 {
        let registry = Registry::default().with("count", Count);
        workers.push(Running::start(config(&database, &url), registry).await);
    }
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(publish(&broker, r#"{"task":"count"}"#).await);
    }
    for cut in 1..=CUTS {
        while done(&pool).await < cut * JOBS / (CUTS + 1) {}
        proxy.set(Path::Refused);
        for worker in &workers {
            worker.wait_for_metric("queue_up 0").await;
        }
        proxy.set(Path::Open);
    }
    for job in jobs {
        wait_until(&pool, job, "done").await;
        assert_eq!(effects(&pool, job).await, 1);
    }
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}

/// As when a member of the broker's cluster is gone and the answer takes longer than the limit of an operation. The library
/// itself keeps such a connection.
#[tokio::test]
async fn a_subscription_that_is_given_up_before_its_answer_holds_no_job() {
    let broker = Broker::new().await;
    let address = queue::Broker {
        uri: broker.url().parse().unwrap(),
        tls: ClientTls::default(),
    };
    let connection = connect(&address, "test").await.unwrap();
    topology::declare(&connection).await.unwrap();
    broker.publish(BasicProperties::default(), b"{}").await;
    let channel = connection.create_channel().await.unwrap();
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let subscription = channel.basic_consume(topology::JOBS.into(), "".into(), options, none);
    assert!(subscription.now_or_never().is_none());
    broker.wait_for(topology::JOBS, (0, 1)).await;
    drop((channel, connection));
    broker.wait_for(topology::JOBS, (1, 0)).await;
}
