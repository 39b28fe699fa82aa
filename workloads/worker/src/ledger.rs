//! The ledger in the database: which jobs were begun, done, or failed.

use shortener_common::{
    database::{Database, StoreError},
    queue::job::Job,
};
use uuid::Uuid;

use crate::tasks::Effect;

/// A job that is running is run again: whoever ran it may be gone. Only a job that is done stays as it is.
const BEGIN: &str = "INSERT INTO jobs (message_id, task, client_id, state) VALUES ($1::uuid, $2, $3, 'running') \
    ON CONFLICT (message_id) DO UPDATE SET state = 'running', attempts = jobs.attempts + 1, started_at = now(), \
    finished_at = NULL, error = NULL WHERE jobs.state <> 'done'";

/// Locks the row, so that of two workers with the same job the second one finds it done.
const FINISH: &str = "UPDATE jobs SET state = 'done', finished_at = now(), error = NULL \
    WHERE message_id = $1::uuid AND state <> 'done'";

const FAIL: &str = "UPDATE jobs SET state = 'failed', finished_at = now(), error = $2 \
    WHERE message_id = $1::uuid AND state <> 'done'";

/// The longest reason in characters.
const MAX_REASON: usize = 1000;

/// The jobs of one stack, as workers see them.
#[derive(Clone, Debug)]
pub struct Ledger(Database);

impl Ledger {
    /// The ledger in this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Notes that a job begins. Returns whether it is to be done, which it is not when it is done already.
    ///
    /// # Errors
    /// When the database is away.
    pub async fn begin(&self, job: &Job) -> Result<bool, StoreError> {
        let begun = self.0.run("INSERT jobs", |pool| async move {
            sqlx::query(BEGIN)
                .bind(job.id.to_string())
                .bind(&job.task)
                .bind(&job.client_id)
                .execute(&pool)
                .await
        });
        Ok(begun.await?.rows_affected() == 1)
    }

    /// Makes the effect of a job and notes that it is done, both or neither. Returns whether this was the time.
    ///
    /// # Errors
    /// When the database is away; both may then have happened or not.
    pub async fn finish(&self, id: Uuid, effect: Effect) -> Result<bool, StoreError> {
        self.0
            .run("UPDATE jobs", |pool| async move {
                let mut transaction = pool.begin().await?;
                let finish = sqlx::query(FINISH).bind(id.to_string());
                let marked = finish.execute(&mut *transaction).await?.rows_affected() == 1;
                if marked {
                    effect(&mut transaction).await?;
                    transaction.commit().await?;
                }
                Ok(marked)
            })
            .await
    }

    /// Notes why an attempt failed. The worker does not know the broker's delivery limit, so every failed attempt is
    /// noted as if it were the last one; a later attempt makes the job running again, and then done.
    ///
    /// # Errors
    /// When the database is away.
    pub async fn fail(&self, id: Uuid, reason: &str) -> Result<(), StoreError> {
        let reason: String = reason
            .chars()
            .filter(|character| *character != '\0')
            .take(MAX_REASON)
            .collect();
        let failed = self.0.run("UPDATE jobs", |pool| async move {
            let fail = sqlx::query(FAIL).bind(id.to_string()).bind(reason);
            fail.execute(&pool).await
        });
        failed.await.map(drop)
    }
}
