//! The app's access to jobs: the records that workers write, and the idempotency keys.

use std::sync::Arc;

use jiff::Timestamp;
use shortener_common::database::{Database, StoreError};
use uuid::Uuid;

const FIND: &str = "SELECT task, client_id, state, attempts, \
    (extract(epoch FROM started_at) * 1000000)::bigint, \
    (extract(epoch FROM finished_at) * 1000000)::bigint, error \
    FROM jobs WHERE message_id = $1::uuid";

/// Claims the key unless it is claimed already. A key expires after a day, longer than any client retries.
const CLAIM: &str = "INSERT INTO job_keys (key, body_sha256, message_id) VALUES ($1, sha256($2), $3::uuid) \
    ON CONFLICT (key) DO UPDATE SET body_sha256 = excluded.body_sha256, message_id = excluded.message_id, \
    created_at = now(), enqueued_at = NULL WHERE job_keys.created_at < now() - interval '1 day'";

/// Reads the claim; after [`CLAIM`] there always is one.
const HOLDER: &str = "SELECT body_sha256 = sha256($2), message_id::text, enqueued_at IS NOT NULL \
    FROM job_keys WHERE key = $1";

const ENQUEUED: &str = "UPDATE job_keys SET enqueued_at = now() \
    WHERE key = $1 AND message_id = $2::uuid AND enqueued_at IS NULL";

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// The task as the client names it.
    pub task: String,
    /// The client's own identifier.
    pub client_id: Option<String>,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// The number of times that the job was started.
    pub attempts: i32,
    /// The start of the last attempt.
    pub started_at: Timestamp,
    /// The end of the last attempt.
    pub finished_at: Option<Timestamp>,
    /// The error of the last attempt.
    pub error: Option<String>,
}

/// The job of an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The broker has not confirmed the job yet: publish it with this identifier, again if necessary.
    ToPublish(Uuid),
    /// The job was accepted before.
    Enqueued(Uuid),
    /// The key was used with another body before.
    OtherBody,
}

/// The jobs of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct Jobs(Database);

impl Jobs {
    /// Returns a handle to the jobs in this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Returns the record of a job; `None` until a worker has received it.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn find(&self, id: Uuid) -> Result<Option<JobRow>, StoreError> {
        type Row = (
            String,
            Option<String>,
            String,
            i32,
            i64,
            Option<i64>,
            Option<String>,
        );
        let row: Option<Row> = self
            .0
            .look_up("SELECT jobs", |pool| async move {
                sqlx::query_as(FIND)
                    .bind(id.to_string())
                    .fetch_optional(&pool)
                    .await
            })
            .await?;
        let time = |microseconds| Timestamp::from_microsecond(microseconds).map_err(malformed);
        row.map(
            |(task, client_id, state, attempts, started_at, finished_at, error)| {
                Ok(JobRow {
                    task,
                    client_id,
                    state,
                    attempts,
                    started_at: time(started_at)?,
                    finished_at: finished_at.map(time).transpose()?,
                    error,
                })
            },
        )
        .transpose()
    }

    /// Returns the job of a key, or assigns a new identifier, `id`, to the key.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn claim(&self, key: &str, body: &[u8], id: Uuid) -> Result<Claim, StoreError> {
        let id = id.to_string();
        let (same_body, id, enqueued): (bool, String, bool) = self
            .0
            .run("INSERT job_keys", |pool| async move {
                let claim = sqlx::query(CLAIM).bind(key).bind(body).bind(id);
                claim.execute(&pool).await?;
                let holder = sqlx::query_as(HOLDER).bind(key).bind(body);
                holder.fetch_one(&pool).await
            })
            .await?;
        let id: Uuid = id.parse().map_err(malformed)?;
        Ok(match (same_body, enqueued) {
            (false, _) => Claim::OtherBody,
            (true, false) => Claim::ToPublish(id),
            (true, true) => Claim::Enqueued(id),
        })
    }

    /// Records that the broker confirmed the job of a key.
    ///
    /// # Errors
    /// Fails if the database is down. A repeated request then publishes the job again, which results in a duplicate
    /// message and not in a second job.
    pub async fn enqueued(&self, key: &str, id: Uuid) -> Result<(), StoreError> {
        self.0
            .run("UPDATE job_keys", |pool| async move {
                let note = sqlx::query(ENQUEUED).bind(key).bind(id.to_string());
                note.execute(&pool).await
            })
            .await
            .map(drop)
    }
}

/// Builds the error for a value that the schema rules out.
fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Internal(Arc::new(sqlx::Error::Decode(error.into())))
}
