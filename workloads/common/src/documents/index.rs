//! Indexing: brings the points of the vector store up to date with the documents.
//!
//! Every operation here may run several times and concurrently for the same documents. After writing a version to
//! the store, [`Documents::index`] checks that it is still the latest one, and otherwise continues with the latest.
//! An older version can remain in the place of a newer one only if the process ends, or loses the database, between
//! these two steps.

use std::{collections::HashMap, time::Duration};

use qdrant_client::qdrant::PointId;
use sqlx::PgConnection;

use super::{
    DocumentId, Documents,
    plan::{Plan, Report, Versions},
    target::{Standing, counts},
};
use crate::{
    database::{StoreError, begin},
    vector::{Shape, VectorError, VectorStore},
};

/// The upper bound of vectors and payloads that are read at once, in bytes. A larger first document is still read.
const BATCH_BYTES: i64 = 4 * 1024 * 1024;

/// Reads the contents of the first documents up to `$2` bytes. The other rows have only the identifier and version.
const READ: &str = "SELECT id, version, is_read, CASE WHEN is_read THEN vector END, \
    CASE WHEN is_read THEN payload::text END FROM (SELECT *, coalesce(sum(4 * cardinality(vector) + octet_length(payload::text)) \
    OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < $2 AS is_read \
    FROM documents WHERE id = ANY($1)) AS sized ORDER BY id";

/// Locks the rows in the same order in every transaction, which rules out deadlocks.
const LOCK: &str = "SELECT id, version FROM documents WHERE id = ANY($1) ORDER BY id FOR UPDATE";

const INDEXED: &str = "UPDATE documents SET indexed_at = now(), due_at = NULL \
    FROM unnest($1::bigint[], $2::bigint[]) AS taken (id, version) \
    WHERE documents.id = taken.id AND documents.version = taken.version";

const UNFIT: &str = "UPDATE documents SET due_at = NULL \
    FROM unnest($1::bigint[], $2::bigint[]) AS unfit (id, version) \
    WHERE documents.id = unfit.id AND documents.version = unfit.version";

const REMOVED: &str = "DELETE FROM documents USING unnest($1::bigint[], $2::bigint[]) AS removed (id, version) \
    WHERE documents.id = removed.id AND documents.version = removed.version";

/// Assigns a new version as well, so that a concurrent write of the old version does not mark the document as
/// indexed.
const FORGET: &str = "UPDATE documents SET version = nextval('document_versions'), indexed_at = NULL, \
    due_at = now() + $3 * interval '1 second' \
    WHERE id IN (SELECT id FROM documents WHERE id > $1 ORDER BY id LIMIT $2 FOR UPDATE) RETURNING id";

/// An error that kept documents from being indexed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    Database(#[from] StoreError),
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// Both answer, but a batch of documents took longer than this.
    #[error("no batch of documents was finished within {} s", .0.as_secs_f64())]
    Stalled(Duration),
}

impl Documents {
    /// Returns true if there is nothing to [prepare](Self::prepare).
    ///
    /// # Errors
    /// Fails if the database or the store is down, or if the existing collection has another shape.
    pub async fn is_prepared(&self, store: &VectorStore) -> Result<bool, IndexError> {
        Ok(store.open().await? && !self.is_to_be_taken(store).await?)
    }

    async fn is_to_be_taken(&self, store: &VectorStore) -> Result<bool, StoreError> {
        Ok(self.standing(store.target()).await? == Standing::Takes)
    }

    /// Creates the collection of the settings if it does not exist, and makes it the one that counts (see `target.rs`). A new
    /// collection has no points, and one that did not count lacks the changes, so all documents become due after `delay` seconds.
    /// Returns true if the caller has to fill it.
    ///
    /// # Errors
    /// Fails if the database or the store is down, or if the existing collection has another shape. All documents are due at
    /// once after a creation without an answer. A refused one is tried again after a minute.
    pub async fn prepare(&self, store: &VectorStore, delay: f64) -> Result<bool, IndexError> {
        let exists = store.open().await?;
        if exists && !self.is_to_be_taken(store).await? {
            return Ok(false);
        }
        if !exists {
            store.may_create()?;
        }
        // Before the creation, so that no failure can leave a new collection whose documents count as indexed.
        let forgotten = self.take(store.target(), delay).await?;
        let created = match exists {
            true => Ok(false),
            false => create(store).await,
        };
        let made = match created {
            Ok(made) => made,
            Err(refusal) if refusal.is_denied() => return Err(refusal.into()),
            Err(error) => {
                // The store may have created it all the same. The next attempt then finds it, and nothing else fills it.
                self.forget(store.target(), 0.0).await?;
                return Err(error.into());
            }
        };
        tracing::info!(
            event = "collection_made",
            made,
            documents = forgotten,
            "collection_made"
        );
        Ok((made || exists) && forgotten > 0)
    }

    /// Makes all documents due after `delay` seconds, for this target. Returns their number.
    pub(super) async fn forget(&self, target: &str, delay: f64) -> Result<usize, StoreError> {
        let (mut after, mut forgotten) = (-1, 0);
        loop {
            let ids: Vec<i64> = self
                .0
                .run("UPDATE documents", |pool| async move {
                    let forget = sqlx::query_scalar(FORGET).bind(after).bind(5000);
                    forget.bind(delay).fetch_all(&pool).await
                })
                .await?;
            let Some(last) = ids.iter().max() else {
                return Ok(forgotten);
            };
            after = *last;
            forgotten += ids.len();
            self.seen(target).await?;
        }
    }

    /// Makes the points of these documents equal to the documents.
    ///
    /// # Errors
    /// Fails if that is not certain.
    pub async fn index(
        &self,
        ids: impl IntoIterator<Item = DocumentId>,
        store: &VectorStore,
    ) -> Result<Report, IndexError> {
        let mut report = Report::default();
        let mut left: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        while !left.is_empty() {
            let mut plan = self.read(&left, store.shape()).await?;
            push(&mut plan, store).await?;
            report.add(&plan);
            left = self.settle(plan, &left, store.target()).await?;
        }
        Ok(report)
    }

    /// Reads as many of the documents as fit one batch.
    async fn read(&self, ids: &[i64], shape: Shape) -> Result<Plan, StoreError> {
        let rows = self
            .0
            .run("SELECT documents", |pool| async move {
                let read = sqlx::query_as(READ).bind(ids).bind(BATCH_BYTES);
                read.fetch_all(&pool).await
            })
            .await?;
        Plan::new(ids, rows, shape)
    }

    /// Records the versions that the store has now, if its target counts. Returns the remaining identifiers: documents that
    /// were not read yet, that have changed since, or whose rows are gone. A row may be gone because another process removed
    /// the point before this one wrote it again.
    async fn settle(&self, plan: Plan, ids: &[i64], target: &str) -> Result<Vec<i64>, StoreError> {
        let dealt_with = plan.versions();
        let now = self
            .0
            .run("UPDATE documents", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let lock = sqlx::query_as(LOCK).bind(ids);
                let now: Vec<(i64, i64)> = lock.fetch_all(&mut *transaction).await?;
                // After the lock, so that another target is taken before, or makes these rows due afterwards.
                if counts(&mut transaction, target).await? {
                    note(&mut transaction, INDEXED, &plan.indexed).await?;
                    note(&mut transaction, REMOVED, &plan.removed).await?;
                    note(&mut transaction, UNFIT, &plan.unfit).await?;
                }
                transaction.commit().await?;
                Ok(now)
            })
            .await?;
        let now: HashMap<i64, i64> = now.into_iter().collect();
        let is_left = |id: &i64| now.get(id) != dealt_with.get(id);
        Ok(ids.iter().copied().filter(is_left).collect())
    }
}

/// Creates the collection and checks it. Returns true if it is new.
async fn create(store: &VectorStore) -> Result<bool, VectorError> {
    let made = store.create().await?;
    store.open().await?;
    Ok(made)
}

/// Writes to the store. A rejected write may mean that the collection was replaced, so the collection is checked
/// again.
async fn push(plan: &mut Plan, store: &VectorStore) -> Result<(), VectorError> {
    let points = std::mem::take(&mut plan.points);
    let gone = plan.removed.ids.iter().chain(&plan.absent);
    let gone: Vec<PointId> = gone.map(|id| PointId::from(id.unsigned_abs())).collect();
    let pushed = async {
        if !points.is_empty() {
            store.upsert(points).await?;
        }
        if !gone.is_empty() {
            store.delete(gone).await?;
        }
        Ok(())
    };
    match pushed.await {
        Err(refused @ VectorError::Refused(_)) => {
            store.open().await?;
            Err(refused)
        }
        result => result,
    }
}

async fn note(
    connection: &mut PgConnection,
    statement: &'static str,
    which: &Versions,
) -> Result<(), sqlx::Error> {
    if which.ids.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(statement).bind(&which.ids).bind(&which.numbers);
    query.execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::body::Body;
    use clap::Parser;
    use http::{Request, Response};
    use hyper::{body::Incoming, server::conn::http2, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use prometheus_client::registry::Registry;
    use qdrant_client::qdrant::Distance;
    use serde_json::json;
    use shortener_testing::{
        broker::until,
        database::TestDatabase,
        vector::{Collection, url_at},
    };
    use sqlx::{ConnectOptions, Executor, postgres::PgConnectOptions};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, copy},
        net::{TcpListener, TcpStream},
        sync::watch,
    };
    use tonic::Code;

    use super::*;
    use crate::{
        documents::tests::documents,
        queue::origin::Origin,
        vector::{VectorArgs, VectorMetrics},
    };

    const LINE: Shape = Shape {
        size: 1,
        distance: Distance::Cosine,
    };

    fn id(number: u64) -> DocumentId {
        DocumentId::new(number).unwrap()
    }

    #[tokio::test]
    async fn who_brings_a_document_that_others_have_removed_meanwhile_takes_it_away_again() {
        let database = TestDatabase::new().await;
        let documents = documents(&database).await;
        let put = documents.put(id(1), &[1.0], "{}".into(), &Origin::Internal);
        put.await.unwrap();
        let slow = documents.read(&[1], LINE).await.unwrap();
        documents.delete(id(1)).await.unwrap();
        let quick = documents.read(&[1], LINE).await.unwrap();
        assert_eq!(quick.removed.ids, [1]);
        let settle = async |plan: Plan| documents.settle(plan, &[1], "store").await.unwrap();
        assert!(settle(quick).await.is_empty());
        assert_eq!(slow.indexed.ids, [1]);
        assert_eq!(settle(slow).await, [1]);
        let again = documents.read(&[1], LINE).await.unwrap();
        assert_eq!(again.absent, [1]);
        assert!(settle(again).await.is_empty());
    }

    #[tokio::test]
    async fn large_documents_are_dealt_with_in_several_batches() {
        let database = TestDatabase::new().await;
        let documents = documents(&database).await;
        let payload = json!({"text": "x".repeat(1536 * 1024)}).to_string();
        for number in 0..7 {
            let put = documents.put(id(number), &[1.0], payload.clone(), &Origin::Internal);
            put.await.unwrap();
        }
        documents.delete(id(5)).await.unwrap();
        let mut left: Vec<i64> = (0..8).collect();
        let rounds: [[&[i64]; 3]; 2] = [[&[0, 1, 2], &[], &[3, 4, 5, 6]], [&[3, 4, 6], &[5], &[]]];
        for [indexed, removed, rest] in rounds {
            let plan = documents.read(&left, LINE).await.unwrap();
            assert_eq!(plan.indexed.ids, indexed);
            assert_eq!(plan.removed.ids, removed);
            left = documents.settle(plan, &left, "store").await.unwrap();
            assert_eq!(left, rest);
        }
    }

    #[derive(Parser)]
    struct Settings {
        #[command(flatten)]
        vector: VectorArgs,
    }

    /// Returns a store with this collection at this address.
    fn store_at(address: SocketAddr, collection: &Collection) -> VectorStore {
        let mut settings = Settings::parse_from(["program"]).vector;
        settings.vector_url = Some(url_at(address));
        settings.vector_api_key = Some(collection.key.clone());
        settings.vector_collection.clone_from(&collection.name);
        let metrics = || VectorMetrics::register(&mut Registry::default());
        VectorStore::new(&settings, metrics).unwrap().unwrap()
    }

    /// Returns a store whose requests arrive, and whose answers do so while they are not withheld.
    async fn store_before(collection: &Collection, withheld: watch::Receiver<bool>) -> VectorStore {
        let (listener, server) = (TcpListener::bind("127.0.0.1:0").await, collection.address());
        let listener = listener.unwrap();
        let store = store_at(listener.local_addr().unwrap(), collection);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(forward(client, server, withheld.clone()));
            }
        });
        store
    }

    /// Returns the address of a store without the collection, whose key may only read.
    async fn read_only_store() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let answers = service_fn(async |request: Request<Incoming>| {
                    let code = match request.uri().path() {
                        "/qdrant.Collections/Get" => Code::NotFound,
                        _ => Code::PermissionDenied,
                    };
                    let answer = Response::builder().header("grpc-status", code as i32);
                    answer.body(Body::empty())
                });
                let server = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(client), answers));
            }
        });
        address
    }

    async fn forward(client: TcpStream, server: TcpStream, mut withheld: watch::Receiver<bool>) {
        let (mut requests, mut to_client) = client.into_split();
        let (mut answers, mut to_server) = server.into_split();
        tokio::spawn(async move { copy(&mut requests, &mut to_server).await });
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = answers.read(&mut bytes).await {
            let is_open = withheld.wait_for(|withheld| !withheld).await.is_ok();
            if !is_open || to_client.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
    }

    /// Waits until a statement waits for a lock.
    async fn is_blocked(database: &PgConnectOptions) {
        let pool = sqlx::PgPool::connect_lazy_with(database.clone());
        until("a statement that waits", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
            let waiting = sqlx::query_scalar::<_, i64>(waiting).fetch_one(&pool);
            match waiting.await.unwrap() {
                0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_collection_that_was_created_without_an_answer_is_filled_soon() {
        let (database, collection) = (TestDatabase::new().await, Collection::default());
        let documents = documents(&database).await;
        let put = documents.put(id(1), &[1.0; 4], "{}".into(), &Origin::Internal);
        put.await.unwrap();
        let (withhold, withheld) = watch::channel(false);
        let store = store_before(&collection, withheld).await;
        let mut connection = database.connect().await.unwrap();
        let lock = "BEGIN; SELECT FROM documents FOR UPDATE";
        connection.execute(lock).await.unwrap();
        let withholding = async {
            // The store has answered that there is no collection.
            is_blocked(&database).await;
            withhold.send_replace(true);
            connection.execute("COMMIT").await.unwrap();
        };
        let (prepared, ()) = tokio::join!(documents.prepare(&store, 600.0), withholding);
        let error = prepared.unwrap_err();
        assert!(matches!(error, IndexError::Vector(_)), "{error}");
        until("the collection", async || {
            let info = collection.info().await;
            info.ok_or_else(|| "it does not exist".to_owned())
        })
        .await;
        let is_due = sqlx::query_scalar::<_, bool>("SELECT due_at <= now() FROM documents");
        assert!(is_due.fetch_one(&mut connection).await.unwrap());
    }

    #[tokio::test]
    async fn a_refused_creation_changes_the_documents_once() {
        let (database, collection) = (TestDatabase::new().await, Collection::default());
        let documents = documents(&database).await;
        let put = documents.put(id(1), &[1.0; 4], "{}".into(), &Origin::Internal);
        put.await.unwrap();
        let store = store_at(read_only_store().await, &collection);
        let mut connection = database.connect().await.unwrap();
        let mut versions = Vec::new();
        for _ in 0..3 {
            let error = documents.prepare(&store, 600.0).await.unwrap_err();
            assert!(error.to_string().contains("PermissionDenied"), "{error}");
            let version = sqlx::query_scalar::<_, i64>("SELECT version FROM documents");
            versions.push(version.fetch_one(&mut connection).await.unwrap());
        }
        assert_eq!(versions, [2; 3]);
    }
}
