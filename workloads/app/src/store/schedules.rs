//! The times at which repeating work was last started, so that of all replicas one starts it each time.

use std::sync::Arc;

use jiff::Timestamp;
use shortener_common::{
    database::{Database, StoreError},
    purge::SUCCESS,
};

/// The row of the purge.
const PURGE: &str = "purge";

/// Adds missing rows as if the work had just been done, so that a new stack does not begin with it.
const PREPARE: &str = "INSERT INTO schedules (name, ran_at) \
    VALUES ($1, timestamptz 'epoch' + $3 * interval '1 second'), ($2, now()) ON CONFLICT (name) DO NOTHING";

const CLAIM: &str = "UPDATE schedules SET ran_at = timestamptz 'epoch' + $2 * interval '1 second' \
    WHERE name = $1 AND ran_at < timestamptz 'epoch' + $2 * interval '1 second'";

const RELEASE: &str = "UPDATE schedules SET ran_at = ran_at - interval '1 second' \
    WHERE name = $1 AND ran_at = timestamptz 'epoch' + $2 * interval '1 second'";

const LAST_SUCCESS: &str =
    "SELECT extract(epoch FROM ran_at)::bigint FROM schedules WHERE name = $1";

/// The schedules of one stack.
#[derive(Clone, Debug)]
pub struct Schedules(Database);

impl Schedules {
    /// Returns the schedules in this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Claims the purge at this time, in whole seconds. Returns true if no other replica has claimed it. The first call
    /// for a stack claims nothing.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn claim(&self, time: Timestamp) -> Result<bool, StoreError> {
        let second = time.as_second();
        let prepare = self.0.run("INSERT schedules", |pool| async move {
            let prepare = sqlx::query(PREPARE).bind(PURGE).bind(SUCCESS);
            prepare.bind(second).execute(&pool).await
        });
        prepare.await?;
        Ok(self.change(CLAIM, second).await? == 1)
    }

    /// Gives a claim back, because the purge could not be started. It can be claimed again then.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn release(&self, time: Timestamp) -> Result<(), StoreError> {
        self.change(RELEASE, time.as_second()).await.map(drop)
    }

    /// Returns the time of the last purge that succeeded; `None` before the first claim.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn last_success(&self) -> Result<Option<Timestamp>, StoreError> {
        let second: Option<i64> = self
            .0
            .run("SELECT schedules", |pool| async move {
                let last = sqlx::query_scalar(LAST_SUCCESS).bind(SUCCESS);
                last.fetch_optional(&pool).await
            })
            .await?;
        let time = second.map(Timestamp::from_second).transpose();
        time.map_err(|error| StoreError::Internal(Arc::new(sqlx::Error::Decode(error.into()))))
    }

    async fn change(&self, statement: &'static str, second: i64) -> Result<u64, StoreError> {
        let changed = self.0.run("UPDATE schedules", |pool| async move {
            let change = sqlx::query(statement).bind(PURGE).bind(second);
            change.execute(&pool).await
        });
        Ok(changed.await?.rows_affected())
    }
}
