//! Documents on their way from the database to the vector store.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use shortener_common::{
    database::Database,
    documents::{DocumentId, Documents},
    queue::origin::Origin,
};
use shortener_testing::{
    broker::{Broker, until},
    client::{get, json_bytes, post, request, send},
    database::TestDatabase,
    proxy::{Path, Proxy},
    vector::{Collection, url_at},
};
use shortener_worker::{config::WorkerArgs, tasks::Registry};
use sqlx::{PgPool, postgres::PgConnectOptions};

use crate::{
    application,
    support::{Running, bind, config, prepare, publish, row, wait_until},
};

const PLACE: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

fn id(number: u64) -> DocumentId {
    DocumentId::new(number).unwrap()
}

/// Returns the defaults with this store.
pub fn config_at(
    database: &PgConnectOptions,
    broker: &Broker,
    collection: &Collection,
    url: String,
) -> WorkerArgs {
    let mut config = config(database, &broker.url());
    config.vector.vector_url = Some(url);
    config.vector.vector_api_key = Some(collection.key.clone());
    config.vector.vector_collection.clone_from(&collection.name);
    config
}

/// A worker with a store, and the documents that it reads.
struct Scene {
    broker: Broker,
    pool: PgPool,
    collection: Collection,
    documents: Documents,
    worker: Running,
}

impl Scene {
    async fn new(database: &PgConnectOptions) -> Self {
        let collection = Collection::default();
        let url = collection.url();
        Self::at(database, collection, url).await
    }

    async fn at(database: &PgConnectOptions, collection: Collection, url: String) -> Self {
        let (broker, pool) = (Broker::new().await, prepare(database).await);
        let config = config_at(database, &broker, &collection, url);
        let worker = Running::start(config, Registry::default()).await;
        let access = Database::connect(
            "test",
            database.clone(),
            4,
            Default::default(),
            &Default::default(),
        );
        access.up().await;
        Self {
            broker,
            pool,
            collection,
            documents: Documents::new(access),
            worker,
        }
    }

    async fn put(&self, number: u64, vector: &[f32], payload: Value) {
        let documents = &self.documents;
        let put = documents.put(id(number), vector, payload.to_string(), &Origin::Internal);
        put.await.unwrap();
    }

    /// Publishes a job and waits until it is done.
    async fn done(&self, job: Value) {
        let job = publish(&self.broker, &job.to_string()).await;
        wait_until(&self.pool, job, "done").await;
    }

    async fn index(&self, number: u64) {
        self.done(json!({"task": "index", "id": number})).await;
    }

    async fn is_indexed(&self, number: u64) -> bool {
        let document = self.documents.find(id(number)).await.unwrap().unwrap();
        document.indexed_at.is_some()
    }

    /// Returns true if no document is due or lacks its point.
    async fn all_indexed(&self) -> bool {
        let left = "SELECT count(*) FROM documents WHERE indexed_at IS NULL OR due_at IS NOT NULL";
        let left: i64 = sqlx::query_scalar(left)
            .fetch_one(&self.pool)
            .await
            .unwrap();
        left == 0
    }

    /// Publishes a job and waits until it fails; returns the error.
    async fn refused(&self, job: Value) -> String {
        let job = publish(&self.broker, &job.to_string()).await;
        wait_until(&self.pool, job, "failed").await;
        row(&self.pool, job).await.unwrap().2.unwrap()
    }
}

#[tokio::test]
async fn a_job_brings_a_document_to_the_store_and_takes_a_deleted_one_out() {
    let database = TestDatabase::new().await;
    let scene = Scene::new(&database).await;
    scene.put(7, &PLACE, json!({"category": "a"})).await;
    assert!(!scene.is_indexed(7).await);
    for _ in 0..2 {
        scene.index(7).await;
        assert!(scene.is_indexed(7).await);
        let found = scene.collection.nearest(&PLACE).await;
        assert_eq!(found, [(json!(7), json!({"category": "a"}))]);
    }
    scene.documents.delete(id(7)).await.unwrap().unwrap();
    scene.index(7).await;
    assert_eq!(scene.collection.count().await, Some(0));
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM documents")
        .fetch_one(&scene.pool)
        .await
        .unwrap();
    assert_eq!(rows, 0, "the row is deleted");
    scene.index(7).await;
    assert_eq!(scene.documents.delete(id(7)).await.unwrap(), None);
    let metrics = get(scene.worker.internal, "/metrics").await.text();
    assert!(metrics.contains("\nvector_up 1\n"), "{metrics}");
}

#[tokio::test]
async fn dropping_the_collection_and_reindexing_gives_equal_counts_and_equal_answers() {
    let database = TestDatabase::new().await;
    const DOCUMENTS: u64 = 250;
    let scene = Scene::new(&database).await;
    for number in 0..DOCUMENTS {
        let angle = number as f32 / DOCUMENTS as f32;
        let vector = [angle.cos(), angle.sin(), 0.0, 0.1];
        scene.put(number, &vector, json!({"n": number})).await;
    }
    scene.done(json!({"task": "reindex"})).await;
    let before = scene.collection.nearest(&PLACE).await;
    assert_eq!(before.len() as u64, DOCUMENTS);
    assert!(scene.all_indexed().await);

    scene.collection.drop().await;
    scene.done(json!({"task": "reindex"})).await;
    assert_eq!(scene.collection.count().await, Some(DOCUMENTS));
    assert_eq!(scene.collection.nearest(&PLACE).await, before);
    assert!(scene.all_indexed().await);
    let info = scene.collection.info().await.unwrap();
    assert_eq!(info["payload_schema"]["category"]["data_type"], "keyword");

    // A job for one document that finds no collection indexes all documents.
    scene.collection.drop().await;
    scene.index(7).await;
    assert_eq!(scene.collection.nearest(&PLACE).await, before);
}

#[tokio::test]
async fn reindexing_removes_points_without_a_document_and_repairs_the_others() {
    let database = TestDatabase::new().await;
    let scene = Scene::new(&database).await;
    for number in [1, 2] {
        scene.put(number, &PLACE, json!({"n": number})).await;
        scene.index(number).await;
    }
    scene.documents.delete(id(2)).await.unwrap().unwrap();
    scene.collection.put(json!(1), &[0.0, 1.0, 0.0, 0.0]).await;
    for stray in 1000..1250 {
        scene.collection.put(json!(stray), &PLACE).await;
    }
    for stray in [
        json!("00000000-0000-4000-8000-000000000000"),
        json!(u64::MAX),
    ] {
        scene.collection.put(stray, &PLACE).await;
    }
    scene.done(json!({"task": "reindex"})).await;
    let found = scene.collection.nearest(&PLACE).await;
    assert_eq!(found, [(json!(1), json!({"n": 1}))]);
    assert_eq!(scene.collection.count().await, Some(1));
    assert!(scene.all_indexed().await);
}

async fn waits_for_the_store(database: &PgConnectOptions, path: Path) {
    let collection = Collection::default();
    let proxy = Proxy::before(collection.address()).await;
    let url = url_at(proxy.address);
    let scene = Scene::at(database, collection, url).await;
    scene.put(1, &PLACE, json!({})).await;
    scene.index(1).await;
    for (number, task) in [(2, "index"), (3, "reindex")] {
        scene.put(number, &PLACE, json!({})).await;
        proxy.set(path);
        let job = json!({"task": task, "id": number}).to_string();
        let job = publish(&scene.broker, &job).await;
        scene.worker.wait_for_metric("jobs_holding 1").await;
        scene.worker.wait_for_metric("vector_up 0").await;
        scene.broker.wait_for("jobs", (0, 1)).await;
        assert_eq!(get(scene.worker.internal, "/readyz").await.status, 200);
        proxy.set(Path::Open);
        wait_until(&scene.pool, job, "done").await;
        assert!(scene.is_indexed(number).await);
    }
    for outcome in ["failed", "rejected", "duplicate", "given_back"] {
        assert_eq!(scene.worker.processed(outcome).await, 0, "{outcome}");
    }
    assert_eq!(scene.worker.processed("done").await, 3);
    assert_eq!(scene.broker.counts("jobs.dlq").await.0, 0);
}

#[tokio::test]
async fn a_store_that_refuses_connections_holds_the_job_and_spends_no_delivery() {
    let database = TestDatabase::new().await;
    waits_for_the_store(&database, Path::Refused).await;
}

#[tokio::test]
async fn a_store_that_fell_silent_holds_the_job_and_spends_no_delivery() {
    let database = TestDatabase::new().await;
    waits_for_the_store(&database, Path::Silent).await;
}

#[tokio::test]
async fn a_job_that_was_given_back_for_the_want_of_the_store_is_taken_when_the_store_is_there() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    let collection = Collection::default();
    let proxy = Proxy::before(collection.address()).await;
    proxy.set(Path::Refused);
    let config = config_at(&database, &broker, &collection, url_at(proxy.address));
    let worker = bind(config, Registry::default()).await;
    let worker = Running::run(worker.with(|processor| processor.hold_at_most = Duration::ZERO));
    worker.ready().await;
    let job = publish(&broker, r#"{"task":"index","id":1}"#).await;
    let given_back = "jobs_processed_total{outcome=\"given_back\"} 1";
    worker.wait_for_metric(given_back).await;
    worker.wait_for_metric("queue_up 0").await;
    broker.wait_for("jobs", (1, 0)).await;
    let waits = "SELECT alive_until > now() + interval '23 hours' FROM jobs";
    let waits = sqlx::query_scalar::<_, bool>(waits).fetch_one(&pool);
    assert!(waits.await.unwrap(), "the job counts as abandoned");
    proxy.set(Path::Open);
    wait_until(&pool, job, "done").await;
    worker.wait_for_metric(given_back).await;
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}

#[tokio::test]
async fn what_can_never_be_indexed_becomes_a_dead_letter_with_the_reason() {
    let database = TestDatabase::new().await;
    let scene = Scene::new(&database).await;
    scene.put(1, &[1.0, 0.0], json!({})).await;
    scene.put(2, &PLACE, json!({})).await;
    for (job, part) in [
        (json!({"task": "index"}), "`id` must be"),
        (json!({"task": "index", "id": "1"}), "`id` must be"),
        (
            json!({"task": "index", "id": 1}),
            "document 1 must have 4 numbers, not 2",
        ),
    ] {
        let reason = scene.refused(job).await;
        assert!(reason.contains(part), "{reason}");
    }
    // Other documents are not delayed by it.
    scene.done(json!({"task": "reindex"})).await;
    assert_eq!(scene.collection.count().await, Some(1));

    scene.collection.drop().await;
    scene.collection.make(8, "Dot").await;
    for job in [
        json!({"task": "index", "id": 2}),
        json!({"task": "reindex"}),
    ] {
        let reason = scene.refused(job).await;
        for part in ["size 8 and distance Dot", "size 4 and distance Cosine"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
    assert_eq!(scene.collection.count().await, Some(0));
    scene.broker.wait_for("jobs.dlq", (5, 0)).await;
}

#[tokio::test]
async fn changes_while_three_workers_index_end_with_points_equal_to_the_documents() {
    let database = TestDatabase::new().await;
    // The last change of one of the documents is its deletion.
    const CHANGES: u64 = 63;
    let scene = Arc::new(Scene::new(&database).await);
    let mut workers = Vec::new();
    for _ in 0..2 {
        let url = scene.collection.url();
        let config = config_at(&database, &scene.broker, &scene.collection, url);
        workers.push(Running::start(config, Registry::default()).await);
    }
    let mut jobs = Vec::new();
    for change in 0..CHANGES {
        let number = change % 3;
        if change % 7 == 6 {
            scene.documents.delete(id(number)).await.unwrap();
        } else {
            scene.put(number, &PLACE, json!({"change": change})).await;
        }
        let job = match change % 10 {
            9 => json!({"task": "reindex"}),
            _ => json!({"task": "index", "id": number}),
        };
        jobs.push(publish(&scene.broker, &job.to_string()).await);
    }
    for job in jobs {
        wait_until(&scene.pool, job, "done").await;
    }
    // The last change of each document has its own job, or a reindex after it.
    assert!(scene.all_indexed().await);
    let mut expected = Vec::new();
    for number in 0..3 {
        if let Some(document) = scene.documents.find(id(number)).await.unwrap() {
            expected.push((json!(number), Value::Object(document.payload)));
        }
    }
    let mut found = scene.collection.nearest(&PLACE).await;
    found.sort_by_key(|(id, _)| id.as_u64());
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_document_that_the_application_accepted_is_found_by_queries_once_a_worker_had_it() {
    let database = TestDatabase::new().await;
    let scene = Scene::new(&database).await;
    let vector = [
        format!("--vector-url={}", scene.collection.url()),
        format!("--vector-api-key={}", scene.collection.key),
        format!("--vector-collection={}", scene.collection.name),
    ];
    let public = application::start(&database, &scene.broker.url(), &vector).await;
    let document = br#"{"vector":[1,0,0,0],"payload":{"title":"a"}}"#;
    let document = json_bytes("PUT", "/docs/7", "", document);
    until("a job", async || {
        let stored = send(public, &document).await;
        assert_eq!(stored.status, 202, "{stored:?}");
        let enqueued = stored.json()["status"] == "enqueued";
        enqueued.then_some(()).ok_or(stored.text())
    })
    .await;
    let expected = json!({"result": [{"id": 7, "score": 1.0, "payload": {"title": "a"}}]});
    until("the document to be found", async || {
        let question = r#"{"vector":[1,0,0,0],"with_payload":true}"#;
        let answer = post(public, "/docs/query", question).await.json();
        (answer == expected).then_some(()).ok_or(answer.to_string())
    })
    .await;
    // The store is updated first, and the database record after it.
    until("the time of that", async || {
        let document = get(public, "/docs/7").await.json();
        let noted = document["indexed_at"].is_string();
        noted.then_some(()).ok_or(document.to_string())
    })
    .await;
    request(public, "DELETE", "/docs/7", "").await;
    until("the point to be gone", async || {
        let count = scene.collection.count().await;
        (count == Some(0)).then_some(()).ok_or(format!("{count:?}"))
    })
    .await;
}
