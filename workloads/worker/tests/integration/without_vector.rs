//! Document jobs while the vector profile is off, or is being switched on.

use std::time::Duration;

use shortener_testing::{broker::Broker, database::TestDatabase, vector::Collection};
use shortener_worker::tasks::Registry;

use crate::{
    documents::config_at,
    support::{Running, bind, config, prepare, publish, row, wait_until},
};

const JOBS: [&str; 2] = [r#"{"task":"index","id":1}"#, r#"{"task":"reindex"}"#];

#[tokio::test]
async fn a_worker_that_is_not_replaced_refuses_them() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let worker = bind(config(&database, &broker.url()), Registry::default()).await;
    let worker = Running::run(worker.with(|processor| {
        processor.context.disabled.replaced_within = Duration::ZERO;
    }));
    worker.ready().await;
    for job in JOBS {
        let job = publish(&broker, job).await;
        wait_until(&pool, job, "failed").await;
        let reason = row(&pool, job).await.unwrap().2.unwrap();
        assert_eq!(reason, "the vector profile is not enabled");
    }
    broker.wait_for("jobs.dlq", (2, 0)).await;
}

#[tokio::test]
async fn a_worker_that_is_replaced_by_one_with_the_profile_leaves_them_to_it() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    for job in JOBS {
        let old = Running::start(config(&database, &broker.url()), Registry::default()).await;
        let job = publish(&broker, job).await;
        old.wait_for_metric("jobs_holding 1").await;
        assert!(!old.stop().await.unwrap(), "the job counts as finished");
        broker.wait_for("jobs", (1, 0)).await;

        let collection = Collection::default();
        let url = collection.url();
        let config = config_at(&database, &broker, &collection, url);
        let new = Running::start(config, Registry::default()).await;
        wait_until(&pool, job, "done").await;
        new.stop().await.unwrap();
    }
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}
