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
    /// Creates the collection of the settings if it does not exist. A new collection has no points, so all
    /// documents become due after `delay` seconds. Returns true if the collection is new and there are documents.
    ///
    /// # Errors
    /// Fails if the database or the store is down, or if the existing collection has another shape.
    pub async fn prepare(&self, store: &VectorStore, delay: f64) -> Result<bool, IndexError> {
        if store.open().await? {
            return Ok(false);
        }
        // Before the creation, so that no failure can leave a new collection whose documents count as indexed.
        let forgotten = self.forget(delay).await?;
        let made = store.create().await?;
        store.open().await?;
        tracing::info!(
            event = "collection_made",
            made,
            documents = forgotten,
            "collection_made"
        );
        Ok(made && forgotten > 0)
    }

    async fn forget(&self, delay: f64) -> Result<usize, StoreError> {
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
            left = self.settle(plan, &left).await?;
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

    /// Records the versions that the store has now. Returns the remaining identifiers: documents that were not read
    /// yet, that have changed since, or whose rows are gone. A row may be gone because another process removed the
    /// point before this one wrote it again.
    async fn settle(&self, plan: Plan, ids: &[i64]) -> Result<Vec<i64>, StoreError> {
        let dealt_with = plan.versions();
        let now = self
            .0
            .run("UPDATE documents", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let lock = sqlx::query_as(LOCK).bind(ids);
                let now: Vec<(i64, i64)> = lock.fetch_all(&mut *transaction).await?;
                note(&mut transaction, INDEXED, &plan.indexed).await?;
                note(&mut transaction, REMOVED, &plan.removed).await?;
                note(&mut transaction, UNFIT, &plan.unfit).await?;
                transaction.commit().await?;
                Ok(now)
            })
            .await?;
        let now: HashMap<i64, i64> = now.into_iter().collect();
        let is_left = |id: &i64| now.get(id) != dealt_with.get(id);
        Ok(ids.iter().copied().filter(is_left).collect())
    }
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
    use qdrant_client::qdrant::Distance;
    use serde_json::json;
    use shortener_testing::database::TestDatabase;

    use super::*;
    use crate::{documents::tests::documents, queue::origin::Origin};

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
        assert!(documents.settle(quick, &[1]).await.unwrap().is_empty());
        assert_eq!(slow.indexed.ids, [1]);
        assert_eq!(documents.settle(slow, &[1]).await.unwrap(), [1]);
        let again = documents.read(&[1], LINE).await.unwrap();
        assert_eq!(again.absent, [1]);
        assert!(documents.settle(again, &[1]).await.unwrap().is_empty());
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
            left = documents.settle(plan, &left).await.unwrap();
            assert_eq!(left, rest);
        }
    }
}
