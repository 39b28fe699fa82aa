//! The app's access to jobs: the records that workers write, and the idempotency keys.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Time;
use serde::Serialize;
use shortener_common::database::{Database, StoreError};
use uuid::Uuid;

/// A job that has run for an hour, and whose worker has not said that it runs or waits, has no worker.
const FIND: &str = "SELECT task, client_id, state, attempts, started_at, finished_at, error, \
    finished_at IS NULL AND greatest(alive_until, started_at + interval '1 hour') < now() FROM jobs WHERE message_id = $1";

/// Looks for a job that a worker received and that was accepted after another one. A purge keeps the latest job.
const LATER: &str = "SELECT EXISTS (SELECT FROM jobs WHERE message_id > $1)";

/// The error of a job without a worker.
const ABANDONED: &str = "the worker that ran it is gone; the job may be a dead letter";

/// Claims the key unless it is claimed already. A key expires after a day, longer than any client retries.
const CLAIM: &str = "INSERT INTO job_keys (key, body_sha256, message_id) VALUES ($1, sha256($2), $3) \
    ON CONFLICT (key) DO UPDATE SET body_sha256 = excluded.body_sha256, message_id = excluded.message_id, \
    created_at = now(), enqueued_at = NULL WHERE job_keys.created_at < now() - interval '1 day'";

/// Reads the claim; after [`CLAIM`] there always is one.
const HOLDER: &str = "SELECT body_sha256 = sha256($2), message_id, enqueued_at IS NOT NULL \
    FROM job_keys WHERE key = $1";

/// Reads the claim of a key that has not expired.
const CLAIMED: &str = "SELECT body_sha256 = sha256($2), message_id, enqueued_at IS NOT NULL \
    FROM job_keys WHERE key = $1 AND created_at >= now() - interval '1 day'";

const ENQUEUED: &str = "UPDATE job_keys SET enqueued_at = now() \
    WHERE key = $1 AND message_id = $2 AND enqueued_at IS NULL";

/// What a `reindex` did before it failed may be long ago, so a replay does it again.
const BEGIN_ANEW: &str = "UPDATE jobs SET created_at = now() WHERE message_id = $1";

/// The state of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobStatus {
    /// Identifier of the job.
    id: String,
    /// Name of the task; empty if the job has none, or if no worker has received it yet.
    task: String,
    /// The client's own `id`, as a string.
    client_id: Option<String>,
    /// `enqueued` until a worker has received the job, then `running`, `done` or `failed`. A failed job is retried up
    /// to the delivery limit of the broker.
    status: String,
    /// Number of times that the job was started.
    attempts: i32,
    /// Start of the last attempt (RFC 3339); null before the first one.
    started_at: Option<Timestamp>,
    /// End of that attempt (RFC 3339); null while it runs, and if its worker is gone.
    finished_at: Option<Timestamp>,
    /// Error of that attempt, if it failed.
    error: Option<String>,
}

impl JobStatus {
    /// Returns the state of a job that no worker has received yet.
    pub fn enqueued(id: Uuid) -> Self {
        Self {
            id: id.to_string(),
            status: "enqueued".to_owned(),
            ..Self::default()
        }
    }
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

/// The row of a key: whether the body is the same one, the job, and whether the broker confirmed it.
type Holder = (bool, Uuid, bool);

fn claim_of((same_body, id, enqueued): Holder) -> Claim {
    match (same_body, enqueued) {
        (false, _) => Claim::OtherBody,
        (true, false) => Claim::ToPublish(id),
        (true, true) => Claim::Enqueued(id),
    }
}

/// The jobs of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct Jobs(Database);

impl Jobs {
    /// Returns a handle to the jobs in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Returns the state of a job; `None` until a worker has received it.
    pub async fn find(&self, id: Uuid) -> Result<Option<JobStatus>, StoreError> {
        type JobRow = (
            String,
            Option<String>,
            String,
            i32,
            Time,
            Option<Time>,
            Option<String>,
            bool,
        );
        let row: Option<JobRow> = self
            .0
            .look_up("SELECT jobs", |pool| async move {
                sqlx::query_as(FIND).bind(id).fetch_optional(&pool).await
            })
            .await?;
        Ok(row.map(
            |(task, client_id, state, attempts, started_at, finished_at, error, is_abandoned)| {
                let (status, error) = match is_abandoned {
                    true => ("failed".to_owned(), Some(ABANDONED.to_owned())),
                    false => (state, error),
                };
                JobStatus {
                    id: id.to_string(),
                    task,
                    client_id,
                    status,
                    attempts,
                    started_at: Some(started_at.to_jiff()),
                    finished_at: finished_at.map(Time::to_jiff),
                    error,
                }
            },
        ))
    }

    /// Returns true if a worker has received a job that was accepted after this one.
    pub async fn is_overtaken(&self, id: Uuid) -> Result<bool, StoreError> {
        self.0
            .look_up("SELECT jobs", |pool| async move {
                sqlx::query_scalar(LATER).bind(id).fetch_one(&pool).await
            })
            .await
    }

    /// Makes the next attempt at a job the first one.
    pub async fn begin_anew(&self, id: Uuid) -> Result<(), StoreError> {
        let begun = self.0.run("UPDATE jobs", |pool| async move {
            sqlx::query(BEGIN_ANEW).bind(id).execute(&pool).await
        });
        begun.await.map(drop)
    }

    /// Returns the job of a key, or assigns a new identifier, `id`, to the key.
    pub async fn claim(&self, key: &str, body: &[u8], id: Uuid) -> Result<Claim, StoreError> {
        let holder: Holder = self
            .0
            .run("INSERT job_keys", |pool| async move {
                let claim = sqlx::query(CLAIM).bind(key).bind(body).bind(id);
                claim.execute(&pool).await?;
                let holder = sqlx::query_as(HOLDER).bind(key).bind(body);
                holder.fetch_one(&pool).await
            })
            .await?;
        Ok(claim_of(holder))
    }

    /// Returns the job of a key; `None` if no request has claimed the key.
    pub async fn claimed(&self, key: &str, body: &[u8]) -> Result<Option<Claim>, StoreError> {
        let holder: Option<Holder> = self
            .0
            .look_up("SELECT job_keys", |pool| async move {
                let holder = sqlx::query_as(CLAIMED).bind(key).bind(body);
                holder.fetch_optional(&pool).await
            })
            .await?;
        Ok(holder.map(claim_of))
    }

    /// Records that the broker confirmed the job of a key.
    ///
    /// # Errors
    /// Fails if the database is down. A repeated request then publishes the job again, which results in a duplicate
    /// message and not in a second job.
    pub async fn enqueued(&self, key: &str, id: Uuid) -> Result<(), StoreError> {
        self.0
            .run("UPDATE job_keys", |pool| async move {
                let note = sqlx::query(ENQUEUED).bind(key).bind(id);
                note.execute(&pool).await
            })
            .await
            .map(drop)
    }
}
