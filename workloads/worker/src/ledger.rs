//! The job records in the database: the state, the attempts and the last error of every job.

use shortener_common::{
    database::{Database, StoreError, begin},
    queue::job::Job,
};
use uuid::Uuid;

use crate::tasks::Effect;

/// Starts a running job again, because the worker that ran it may be gone. Only a job that is done is left
/// unchanged.
const BEGIN: &str = "INSERT INTO jobs (message_id, task, client_id, origin, state) VALUES ($1, $2, $3, $4, 'running') \
    ON CONFLICT (message_id) DO UPDATE SET state = 'running', attempts = jobs.attempts + 1, started_at = now(), \
    finished_at = NULL, error = NULL WHERE jobs.state <> 'done'";

const RUNS: &str = "UPDATE jobs SET alive_until = now() + interval '1 hour' \
    WHERE message_id = $1 AND state = 'running'";

const WAITS: &str = "UPDATE jobs SET alive_until = now() + interval '1 day' WHERE message_id = $1 AND state = 'running'";

/// Locks the row, so that of two workers with the same job, the second one finds it done.
const FINISH: &str = "UPDATE jobs SET state = 'done', finished_at = now(), error = NULL \
    WHERE message_id = $1 AND state <> 'done'";

const FAIL: &str = "UPDATE jobs SET state = 'failed', finished_at = now(), error = $2 \
    WHERE message_id = $1 AND state <> 'done'";

/// The maximum length of an error, in characters.
const MAX_REASON: usize = 1000;

/// The job records of one stack.
#[derive(Clone, Debug)]
pub struct Ledger(Database);

impl Ledger {
    /// Returns the job records in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Records the start of an attempt. Returns true if the job should be processed, and false if it is already
    /// done.
    pub async fn begin(&self, job: &Job) -> Result<bool, StoreError> {
        let begun = self.0.run("INSERT jobs", |pool| async move {
            sqlx::query(BEGIN)
                .bind(job.id)
                .bind(&job.fields.task)
                .bind(&job.fields.client_id)
                .bind(job.origin.value())
                .execute(&pool)
                .await
        });
        Ok(begun.await?.rows_affected() == 1)
    }

    /// Records that the job still runs. A job counts as abandoned an hour after its start, or after the last such record.
    pub async fn runs(&self, id: Uuid) -> Result<(), StoreError> {
        self.note(RUNS, id).await
    }

    /// Records that the job returns to the queue, where it may wait for long.
    pub async fn waits(&self, id: Uuid) -> Result<(), StoreError> {
        self.note(WAITS, id).await
    }

    async fn note(&self, statement: &'static str, id: Uuid) -> Result<(), StoreError> {
        let noted = self.0.run("UPDATE jobs", |pool| async move {
            sqlx::query(statement).bind(id).execute(&pool).await
        });
        noted.await.map(drop)
    }

    /// Applies the effect of a job and marks the job as done, in one transaction. Returns false if it was already
    /// done.
    ///
    /// # Errors
    /// Fails if the database is down; the transaction may then have been committed or not.
    pub async fn finish(&self, id: Uuid, effect: Effect) -> Result<bool, StoreError> {
        self.0
            .run("UPDATE jobs", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let finish = sqlx::query(FINISH).bind(id);
                let marked = finish.execute(&mut *transaction).await?.rows_affected() == 1;
                if marked {
                    effect(&mut transaction).await?;
                    transaction.commit().await?;
                }
                Ok(marked)
            })
            .await
    }

    /// Records the error of an attempt. The worker does not know the delivery limit of the broker, so it records
    /// every failed attempt as if it were the last one. A later attempt changes the state to running, and then to
    /// done.
    pub async fn fail(&self, id: Uuid, reason: &str) -> Result<(), StoreError> {
        let reason: String = reason
            .chars()
            .filter(|character| *character != '\0')
            .take(MAX_REASON)
            .collect();
        let failed = self.0.run("UPDATE jobs", |pool| async move {
            let fail = sqlx::query(FAIL).bind(id).bind(reason);
            fail.execute(&pool).await
        });
        failed.await.map(drop)
    }
}
