//! Runs of `reindex` that are interrupted.

use serde_json::json;
use shortener_testing::{
    broker::{Broker, until},
    database::TestDatabase,
    process::Process,
    vector::Collection,
};
use sqlx::{Executor, PgPool};

use crate::{
    process::command,
    support::{prepare, publish, wait_until},
};

const DOCUMENTS: i64 = 5000;
const KILLS: i64 = 10;
/// Documents of one batch, which an interruption may repeat.
const BATCH: i64 = 100;

/// Stores the documents, slows each batch down, and notes each document that the vector store got.
const SCENE: &str = "INSERT INTO documents (id, vector, payload) \
    SELECT n, ARRAY[1, 0, 0, 0]::real[], '{}'::json FROM generate_series(0, 4999) n; \
    CREATE TABLE writes (id bigint NOT NULL); \
    CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS \
    'BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END'; \
    CREATE TRIGGER take_time AFTER UPDATE ON documents FOR EACH STATEMENT EXECUTE FUNCTION take_time(); \
    CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS \
    'BEGIN INSERT INTO writes VALUES (NEW.id); RETURN NEW; END'; \
    CREATE TRIGGER note_write AFTER UPDATE ON documents FOR EACH ROW \
    WHEN (NEW.indexed_at IS NOT NULL) EXECUTE FUNCTION note_write()";

/// Starts a worker whose time limit is shorter than the run, but longer than a batch.
fn start(database: &TestDatabase, broker: &Broker, collection: &Collection) -> Process {
    let mut command = command(database, broker);
    command
        .env("JOB_TIMEOUT_SECONDS", "1")
        .env("VECTOR_URL", collection.url())
        .env("VECTOR_API_KEY", &collection.key)
        .env("VECTOR_COLLECTION", &collection.name);
    Process::spawn(&mut command)
}

async fn number(pool: &PgPool, question: &'static str) -> i64 {
    let number = sqlx::query_scalar(question).fetch_one(pool);
    number.await.unwrap()
}

#[tokio::test]
async fn a_reindex_outlives_its_workers_and_the_time_limit_and_repeats_only_batches() {
    let database = TestDatabase::new().await;
    let (broker, pool) = (Broker::new().await, prepare(&database).await);
    pool.execute(SCENE).await.unwrap();
    let collection = Collection::default();
    let mut worker = start(&database, &broker, &collection);
    worker.event("queue_up").await;
    // A worker that is killed may use up a delivery.
    broker.policy(json!({"delivery-limit": 100})).await;
    let job = publish(&broker, r#"{"task":"reindex"}"#).await;
    for kill in 1..=KILLS {
        // In different places of a batch, because the worker goes on meanwhile.
        let due = DOCUMENTS * kill / (KILLS + 2);
        until("its turn", async || {
            let indexed = "SELECT count(*) FROM documents WHERE indexed_at IS NOT NULL";
            let indexed = number(&pool, indexed).await;
            (indexed >= due).then_some(()).ok_or(indexed.to_string())
        })
        .await;
        // Dropping the old process kills it with SIGKILL.
        worker = start(&database, &broker, &collection);
    }
    let attempts = i64::from(wait_until(&pool, job, "done").await);
    worker.event("reindexed").await;
    assert!(attempts > KILLS, "{attempts} attempts");
    let writes = number(&pool, "SELECT count(*) FROM writes").await;
    assert!(
        (DOCUMENTS..=DOCUMENTS + (attempts - 1) * BATCH).contains(&writes),
        "{writes} documents written in {attempts} attempts"
    );
    assert_eq!(collection.count().await, Some(DOCUMENTS.unsigned_abs()));
    assert_eq!(broker.counts("jobs.dlq").await.0, 0);
}
