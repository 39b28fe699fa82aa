//! Adds batches of clicks over a connection of its own, so that a write takes none from requests.

use shortener_common::{
    database::StoreError,
    time_limits::{DATABASE_LOGIN, DATABASE_OPERATION},
};
use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};
use tokio::time::timeout;

use crate::clicks::Batch;

/// Adds nothing if a batch of this identity was added before. It locks the table until the transaction ends, and the
/// deletion of a link waits for that.
const BEGIN: &str = "INSERT INTO click_batches (id) VALUES ($1) ON CONFLICT DO NOTHING";

/// The rows are sorted, so two replicas never wait for each other.
const ADD: &str = "INSERT INTO clicks (code, day, people, bots) \
    SELECT links.code, date '1970-01-01' + added.day, added.people, added.bots \
    FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[]) AS added (code, day, people, bots) \
    JOIN links ON links.code = added.code AND links.disabled_as IS DISTINCT FROM 'deleted' \
    ORDER BY links.code, added.day \
    ON CONFLICT (code, day) DO UPDATE SET people = clicks.people + excluded.people, bots = clicks.bots + excluded.bots";

/// Adds batches of clicks to the database.
pub struct ClickWriter {
    options: PgConnectOptions,
    /// `None` before the first batch, and after a failure.
    connection: Option<PgConnection>,
}

impl ClickWriter {
    /// Returns a writer that connects with these options when it has something to write.
    pub fn new(options: PgConnectOptions) -> Self {
        let options = options.application_name("shortener-clicks");
        Self {
            options: options.disable_statement_logging(),
            connection: None,
        }
    }

    /// Adds the counts of a batch, once for its identity. Links that do not exist or were deleted are left out.
    ///
    /// # Errors
    /// Fails if the database does not confirm it. The batch may then have been added.
    pub async fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => in_time(DATABASE_LOGIN, self.options.connect()).await?,
        };
        in_time(DATABASE_OPERATION, add(&mut connection, batch)).await?;
        self.connection = Some(connection);
        Ok(())
    }
}

/// Any error means that the batch is sent again over another connection, so its kind does not matter.
async fn in_time<T>(
    limit: std::time::Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match timeout(limit, work).await {
        Ok(result) => result.map_err(|error| StoreError::Unavailable(error.to_string())),
        Err(_) => {
            let reason = format!("the database took longer than {} s", limit.as_secs());
            Err(StoreError::TimedOut(reason))
        }
    }
}

async fn add(connection: &mut PgConnection, batch: &Batch) -> Result<(), sqlx::Error> {
    let entries = batch.entries.iter();
    let codes: Vec<&str> = entries.clone().map(|entry| &*entry.code).collect();
    let days: Vec<i32> = entries.clone().map(|entry| entry.day).collect();
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let people: Vec<i64> = entries
        .clone()
        .map(|entry| number(entry.counts.people))
        .collect();
    let bots: Vec<i64> = entries.map(|entry| number(entry.counts.bots)).collect();
    let mut transaction = connection.begin().await?;
    let begin = sqlx::query(BEGIN).bind(batch.id);
    let is_new = begin.execute(&mut *transaction).await?.rows_affected() > 0;
    if is_new {
        // A statement of its own, because one sees nothing that was committed after it began.
        let add = sqlx::query(ADD).bind(codes).bind(days);
        let add = add.bind(people).bind(bots);
        add.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
