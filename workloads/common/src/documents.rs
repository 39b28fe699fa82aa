//! Documents in the database. Each row records which of its versions has reached the vector store, so that a
//! version that failed to arrive is found later and indexed then.

mod index;
mod plan;
mod reindex;
mod target;

use std::sync::Arc;

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Time;
use serde_json::{Map, Value};

use self::target::Standing;
pub use self::{index::IndexError, plan::Report};
use crate::{
    database::{Database, StoreError},
    queue::origin::Origin,
};

/// The time in seconds for the process that changed a document to index it. Other processes may claim the document
/// later.
const OWN_TIME: f64 = 15.0;
/// The time in seconds for a process that claimed a document to index it.
const CLAIMED_TIME: f64 = 30.0;
/// The time in seconds for a job in the queue to index its document. If the document becomes due after it, the job
/// was lost or has become a dead letter.
const QUEUED_TIME: f64 = 3600.0;

const PUT: &str = "WITH before AS (SELECT vector IS NOT NULL AS live FROM documents WHERE id = $1) \
    INSERT INTO documents (id, vector, payload, due_at, origin) \
    VALUES ($1, $2, $3::json, now() + $4 * interval '1 second', $5) \
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, payload = excluded.payload, version = excluded.version, \
    origin = excluded.origin, \
    changed_at = now(), indexed_at = NULL, due_at = excluded.due_at \
    RETURNING version, coalesce((SELECT live FROM before), false)";

/// Marks the document as deleted. The row stays until the point is gone, so that no failure leaves the point
/// behind. A second request finds the row and tries again.
const DELETE: &str = "UPDATE documents SET vector = NULL, payload = NULL, version = nextval('document_versions'), \
    changed_at = now(), indexed_at = NULL, due_at = now() + $2 * interval '1 second' WHERE id = $1 RETURNING version";

const FIND: &str = "SELECT vector, payload::text, changed_at, indexed_at FROM documents WHERE id = $1 AND vector IS NOT NULL";

/// `SKIP LOCKED` makes two replicas claim different documents.
const CLAIM: &str = "UPDATE documents SET due_at = now() + $1 * interval '1 second' \
    WHERE id IN (SELECT id FROM documents WHERE due_at <= now() ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED) \
    RETURNING id, version";

const QUEUED: &str = "UPDATE documents SET due_at = now() + $3 * interval '1 second' \
    WHERE id = $1 AND version = $2 AND due_at IS NOT NULL \
    AND NOT EXISTS (SELECT FROM vector_target WHERE target <> $4)";

/// The identifier of a document and of its point: an unsigned integer that fits a `bigint` of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentId(i64);

impl DocumentId {
    /// The largest identifier.
    pub const MAX: u64 = i64::MAX.unsigned_abs();

    /// Returns the identifier, or `None` above [`DocumentId::MAX`].
    pub fn new(id: u64) -> Option<Self> {
        i64::try_from(id).ok().map(Self)
    }

    pub fn get(self) -> u64 {
        self.0.unsigned_abs()
    }
}

/// A document as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub vector: Vec<f32>,
    /// The payload, a JSON object.
    pub payload: Map<String, Value>,
    /// The time of the last write.
    pub changed_at: Timestamp,
    /// The time at which the vector store accepted this version; `None` if it has not yet.
    pub indexed_at: Option<Timestamp>,
}

/// A version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The identifier of the document.
    pub id: DocumentId,
    number: i64,
}

/// The documents of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct Documents(Database);

impl Documents {
    /// Returns a handle to the documents in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Stores or replaces a document of this sender with a JSON object as its payload. Returns its version, and true if it
    /// replaced one.
    pub async fn put(
        &self,
        id: DocumentId,
        vector: &[f32],
        payload: String,
        sender: &Origin,
    ) -> Result<(Version, bool), StoreError> {
        let (number, replaced) = self
            .0
            .run("INSERT documents", |pool| async move {
                let put = sqlx::query_as(PUT).bind(id.0).bind(vector);
                let put = put.bind(payload).bind(OWN_TIME).bind(sender.value());
                put.fetch_one(&pool).await
            })
            .await?;
        Ok((Version { id, number }, replaced))
    }

    /// Reads a document; `None` if there is none.
    pub async fn find(&self, id: DocumentId) -> Result<Option<Document>, StoreError> {
        type Row = (Vec<f32>, String, Time, Option<Time>);
        let row: Option<Row> = self
            .0
            .look_up("SELECT documents", |pool| async move {
                sqlx::query_as(FIND).bind(id.0).fetch_optional(&pool).await
            })
            .await?;
        row.map(|(vector, payload, changed_at, indexed_at)| {
            Ok(Document {
                vector,
                payload: serde_json::from_str(&payload).map_err(malformed)?,
                changed_at: changed_at.to_jiff(),
                indexed_at: indexed_at.map(Time::to_jiff),
            })
        })
        .transpose()
    }

    /// Deletes a document. Returns `None` if it has no row; the row of a deleted document exists until its point is
    /// gone.
    pub async fn delete(&self, id: DocumentId) -> Result<Option<Version>, StoreError> {
        let number: Option<i64> = self
            .0
            .run("UPDATE documents", |pool| async move {
                let delete = sqlx::query_scalar(DELETE).bind(id.0).bind(OWN_TIME);
                delete.fetch_optional(&pool).await
            })
            .await?;
        Ok(number.map(|number| Version { id, number }))
    }

    /// Claims up to `at_most` documents that are due, for a limited time. Without the target that counts, there are none.
    pub async fn claim(&self, at_most: i64, target: &str) -> Result<Vec<Version>, StoreError> {
        // Each time, because filling a collection takes many claims.
        if self.standing(target).await? != Standing::Counts {
            return Ok(Vec::new());
        }
        let rows: Vec<(i64, i64)> = self
            .0
            .run("UPDATE documents", |pool| async move {
                let claim = sqlx::query_as(CLAIM).bind(CLAIMED_TIME).bind(at_most);
                claim.fetch_all(&pool).await
            })
            .await?;
        let version = |(id, number)| Version {
            id: DocumentId(id),
            number,
        };
        Ok(rows.into_iter().map(version).collect())
    }

    /// Records that the queue has a job for this version and target. If another target counts, the document stays due.
    pub async fn queued(&self, version: Version, target: &str) -> Result<(), StoreError> {
        self.0
            .run("UPDATE documents", |pool| async move {
                let queued = sqlx::query(QUEUED).bind(version.id.0).bind(version.number);
                let queued = queued.bind(QUEUED_TIME).bind(target);
                queued.execute(&pool).await
            })
            .await
            .map(drop)
    }
}

/// Builds the error for a value that the schema rules out.
fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Internal(Arc::new(sqlx::Error::Decode(error.into())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shortener_testing::database::TestDatabase;
    use sqlx::{ConnectOptions, migrate::Migrator, postgres::PgConnectOptions};

    use super::*;

    /// Returns the documents of a database with the schema.
    pub(super) async fn documents(database: &TestDatabase) -> Documents {
        let mut connection = database.connect().await.unwrap();
        let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/migrations");
        let migrator = Migrator::new(migrations).await.unwrap();
        migrator.run(&mut connection).await.unwrap();
        let options = PgConnectOptions::clone(database);
        let database =
            Database::connect("test", options, 2, Default::default(), &Default::default());
        database.up().await;
        Documents::new(database)
    }

    #[test]
    fn an_identity_is_any_unsigned_integer_that_the_database_can_hold() {
        for (id, kept) in [
            (0, Some(0)),
            (DocumentId::MAX, Some(DocumentId::MAX)),
            (DocumentId::MAX + 1, None),
            (u64::MAX, None),
        ] {
            assert_eq!(DocumentId::new(id).map(DocumentId::get), kept);
        }
    }
}
