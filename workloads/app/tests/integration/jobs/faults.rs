//! Jobs at a broker that is down, silent or full, or that lost its queue.

use std::collections::BTreeSet;

use futures::future::{join, join_all};
use serde_json::json;
use shortener_common::memory::Memory;
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    metrics,
    proxy::{Path, Proxy},
};
use sqlx::postgres::PgConnectOptions;

use super::{JOB, accepted, app_with, drain, recovered, refused};
use crate::{
    client::{get, post, shorten},
    support::App,
};

async fn survives(database: &PgConnectOptions, path_of_bytes: Path) {
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let app = app_with(database, broker.url_at(proxy.address)).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    let mut jobs = BTreeSet::new();
    for _ in 0..2 {
        jobs.insert(accepted(&post(app.public, "/jobs", JOB).await));
        proxy.set(path_of_bytes);
        let answers = join_all((0..4).map(|_| post(app.public, "/jobs", JOB))).await;
        answers.iter().for_each(refused);
        refused(&post(app.public, "/jobs", JOB).await);
        let followed = get(app.public, &format!("/{code}")).await;
        assert_eq!(followed.status, 302, "{followed:?}");
        shorten(app.public, json!({"url": "https://example.com/"})).await;
        assert_eq!(
            get(app.internal, "/readyz").await.status,
            200,
            "the replica stays ready, because links work"
        );
        proxy.set(Path::Open);
        jobs.insert(recovered(&app).await);
    }
    let queued = drain(&broker).await;
    assert!(
        queued.is_superset(&jobs),
        "{jobs:?} are not all in {queued:?}"
    );
}

#[tokio::test]
async fn a_broker_that_is_down_stops_jobs_and_nothing_else() {
    let database = TestDatabase::new().await;
    survives(&database, Path::Refused).await;
}

#[tokio::test]
async fn a_broker_that_fell_silent_stops_jobs_and_nothing_else() {
    let database = TestDatabase::new().await;
    survives(&database, Path::Silent).await;
}

#[tokio::test]
async fn jobs_at_a_silent_broker_are_bounded_by_their_bytes() {
    // Their bodies fit into the memory of bodies, even if all of them are read at the same time.
    const JOBS: usize = 85;
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    let app = app_with(&database, broker.url_at(proxy.address)).await;
    proxy.set(Path::Silent);
    let job = json!({"task": "email", "text": "x".repeat(60_000)}).to_string();
    let wave = || join_all((0..JOBS).map(|_| post(app.public, "/jobs", job.clone())));
    let full = "buffer_refused_total{buffer=\"jobs\"}";
    // The library has a copy of each.
    let fit = Memory::default().jobs.limit() / (2 * job.len());
    let second = async {
        until("the jobs that do not fit to be refused", async || {
            let refused = metrics::value(app.internal, full).await;
            let expected = (JOBS - fit) as u64;
            (refused == expected)
                .then_some(())
                .ok_or(refused.to_string())
        })
        .await;
        wave().await
    };
    let (first, second) = join(wave(), second).await;
    first.iter().chain(&second).for_each(refused);
    let bodies = metrics::value(app.internal, "buffer_refused_total{buffer=\"bodies\"}").await;
    assert_eq!(
        bodies, 0,
        "jobs that wait leave the memory of bodies to others"
    );
}

#[tokio::test]
async fn the_application_starts_without_a_broker_and_finds_it_later() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let proxy = Proxy::before(broker.address()).await;
    proxy.set(Path::Refused);
    let url = broker.url_at(proxy.address);
    let app = App::start_with(&database, |config| config.queue.queue_url = Some(url)).await;
    refused(&post(app.public, "/jobs", JOB).await);
    shorten(app.public, json!({"url": "https://example.com/"})).await;
    proxy.set(Path::Open);
    let id = recovered(&app).await;
    assert_eq!(drain(&broker).await, BTreeSet::from([id]));
}

#[tokio::test]
async fn a_full_queue_refuses_exactly_the_jobs_that_it_does_not_take() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    broker.policy(json!({"max-length": 1})).await;
    let mut taken = BTreeSet::new();
    let mut some_refused = false;
    while !some_refused {
        let answers = join_all((0..32).map(|_| post(app.public, "/jobs", JOB))).await;
        for response in &answers {
            if response.status == 202 {
                taken.insert(accepted(response));
            } else {
                refused(response);
                some_refused = true;
            }
        }
    }
    assert_eq!(drain(&broker).await, taken);
    recovered(&app).await;
}

#[tokio::test]
async fn a_deleted_queue_comes_back_and_no_accepted_job_is_missing() {
    let database = TestDatabase::new().await;
    let broker = Broker::new().await;
    let app = app_with(&database, broker.url()).await;
    for _ in 0..3 {
        for object in ["queues/jobs", "queues/jobs.dlq", "exchanges/jobs.dlx"] {
            broker.delete(object).await;
        }
        let answers = join_all((0..32).map(|_| post(app.public, "/jobs", JOB))).await;
        let mut taken: BTreeSet<String> = answers
            .iter()
            .filter(|response| response.status == 202)
            .map(accepted)
            .collect();
        answers
            .iter()
            .filter(|response| response.status != 202)
            .for_each(refused);
        taken.insert(recovered(&app).await);
        assert_eq!(drain(&broker).await, taken);
        assert!(broker.has("jobs.dlq").await);
    }
}
