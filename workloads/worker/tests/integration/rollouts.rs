//! Jobs that a worker cannot process as the app accepted them, because one of the two has another release or other settings.

use std::time::Duration;

use shortener_common::{
    database::Database,
    documents::{DocumentId, Documents},
    queue::{decision::Decision, origin::Origin},
    vector::{VectorMetrics, VectorStore},
};
use shortener_testing::{broker::Broker, database::TestDatabase, vector::Collection};
use shortener_worker::{config::WorkerArgs, tasks::Registry};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::{
    documents::config_at,
    support::{
        Count, Running, bind, config, effects, prepare, publish, publish_as, publish_decided, row,
        wait_until,
    },
};

const JOBS: [&str; 2] = [r#"{"task":"index","id":1}"#, r#"{"task":"reindex"}"#];

/// Returns the vector store of this worker.
fn store_of(config: &WorkerArgs) -> VectorStore {
    let metrics = || VectorMetrics::register(&mut Default::default());
    VectorStore::new(&config.vector, metrics).unwrap().unwrap()
}

/// Returns the decision of an app with the same vector store as this worker.
fn decided_at(config: &WorkerArgs) -> Decision {
    Decision::new("index", Some(store_of(config).target()))
}

/// Returns the documents of this database.
async fn documents_of(database: &PgConnectOptions) -> Documents {
    let options = database.clone();
    let access = Database::connect("test", options, 2, Default::default(), &Default::default());
    access.up().await;
    Documents::new(access)
}

#[tokio::test]
async fn a_worker_that_is_not_replaced_refuses_them() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let worker = bind(config(&database, &broker.url()), Registry::default()).await;
    let worker = worker.with(|processor| processor.rollout.replaced_within = Duration::ZERO);
    let worker = Running::run(worker);
    worker.ready().await;
    let client = Origin::Client("shop".into());
    for sender in [Origin::Internal, Origin::Anonymous, client] {
        for job in JOBS {
            let job = publish_as(&broker, &sender, job).await;
            wait_until(&pool, job, "failed").await;
            let reason = row(&pool, job).await.unwrap().2.unwrap();
            assert_eq!(reason, "the vector profile is not enabled");
        }
    }
    broker.wait_for("jobs", (0, 1)).await;
    // Those of the client alone: the service sends its own again.
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

#[tokio::test]
async fn a_job_of_a_task_that_a_worker_lacks_waits_for_a_worker_that_has_it() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let old = Running::start(config(&database, &broker.url()), Registry::default()).await;
    let later = Decision {
        handler: Some("later".into()),
        ..Decision::default()
    };
    let job = publish_decided(&broker, &later, r#"{"task":"later"}"#).await;
    old.wait_for_metric("jobs_holding 1").await;
    assert!(!old.stop().await.unwrap(), "the job counts as finished");
    let tasks = Registry::default().with("later", Count);
    let _new = Running::start(config(&database, &broker.url()), tasks).await;
    wait_until(&pool, job, "done").await;
    assert_eq!(effects(&pool, job).await, 1);
}

#[tokio::test]
async fn a_document_is_indexed_only_in_the_store_of_the_app_that_accepted_it() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let (before, after) = (Collection::default(), Collection::default());
    let config = |store: &Collection| config_at(&database, &broker, store, store.url());
    let documents = documents_of(&database).await;
    let id = DocumentId::new(1).unwrap();

    // In both directions of a rollout.
    for (own, others) in [(&before, &after), (&after, &before)] {
        let points = others.count().await;
        let put = documents.put(id, &[1.0, 0.0, 0.0, 0.0], "{}".into(), &Origin::Anonymous);
        put.await.unwrap();
        let other = Running::start(config(others), Registry::default()).await;
        let job = publish_decided(&broker, &decided_at(&config(own)), JOBS[0]).await;
        other.wait_for_metric("jobs_holding 1").await;
        let document = documents.find(id).await.unwrap().unwrap();
        assert_eq!(document.indexed_at, None);
        let worker = Running::start(config(own), Registry::default()).await;
        other.stop().await.unwrap();
        wait_until(&pool, job, "done").await;
        assert_eq!(own.count().await, Some(1));
        assert_eq!(others.count().await, points, "the other store is unchanged");
        worker.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_later_store_gets_what_a_worker_indexes_in_the_earlier_one_while_it_is_filled() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let (before, after) = (Collection::default(), Collection::default());
    let config = |store: &Collection| config_at(&database, &broker, store, store.url());
    let documents = documents_of(&database).await;
    let (id, place) = (DocumentId::new(1).unwrap(), [1.0, 0.0, 0.0, 0.0]);
    let put = documents.put(id, &place, "{}".into(), &Origin::Anonymous);
    put.await.unwrap();
    let _worker = Running::start(config(&before), Registry::default()).await;
    let earlier = decided_at(&config(&before));
    let job = publish_decided(&broker, &earlier, JOBS[0]).await;
    wait_until(&pool, job, "done").await;

    let (store, filling) = (store_of(&config(&after)), Uuid::now_v7());
    assert!(documents.prepare(&store, 600.0).await.unwrap());
    let begun = "INSERT INTO jobs (message_id, task, state) VALUES ($1, 'reindex', 'running')";
    let begun = sqlx::query(begun).bind(filling).execute(&pool);
    begun.await.unwrap();
    let job = publish_decided(&broker, &earlier, JOBS[0]).await;
    wait_until(&pool, job, "done").await;
    assert_eq!(before.count().await, Some(1));
    let limit = Duration::from_secs(60);
    documents.reindex(filling, &store, limit).await.unwrap();
    assert_eq!(after.count().await, Some(1));
}
