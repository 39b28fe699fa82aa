//! The beginning of a transaction.
//!
//! The library does not note that a transaction has begun if the wait for the answer is given up, as with a client that goes
//! away or at a time limit. The connection then returns to the pool within that transaction, and what others write on it
//! later is rolled back ([sqlx #4385](https://github.com/launchbadge/sqlx/issues/4385)). So a task waits for the answer in any
//! case, and rolls the transaction back if the caller has left.

use sqlx::{Error, PgPool, PgTransaction};

/// Begins a transaction. It is rolled back if it is dropped.
///
/// # Errors
/// Fails if no connection is free in time, or if the database is down.
pub async fn begin(pool: &PgPool) -> Result<PgTransaction<'static>, Error> {
    begin_with(pool, "BEGIN").await
}

/// Begins a transaction with a statement of the form `BEGIN ...`.
///
/// # Errors
/// As of [`begin`].
#[expect(clippy::disallowed_methods, reason = "this is what replaces it")]
pub async fn begin_with(
    pool: &PgPool,
    statement: &'static str,
) -> Result<PgTransaction<'static>, Error> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(statement).await });
    begun.await.unwrap_or(Err(Error::WorkerCrashed))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shortener_testing::{
        database::TestDatabase,
        proxy::{Path, Proxy},
    };
    use sqlx::{ConnectOptions, Executor, postgres::PgPoolOptions};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_is_written_after_a_beginning_that_was_given_up_is_stored() {
        let database = TestDatabase::new().await;
        let server = format!("{}:{}", database.get_host(), database.get_port());
        let proxy = Proxy::before(server).await;
        let through = database.clone().host("127.0.0.1");
        let through = through.port(proxy.address.port());
        // One connection, which is not asked for a sign of life first.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false);
        let pool = pool.connect_with(through).await.unwrap();
        pool.execute("CREATE TABLE written ()").await.unwrap();
        // The library returns it in a task.
        while pool.num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.set(Path::Held);
        let given_up = timeout(Duration::from_secs(1), begin(&pool)).await;
        assert!(given_up.is_err());
        proxy.set(Path::Open);
        pool.execute("INSERT INTO written DEFAULT VALUES")
            .await
            .unwrap();
        let mut other = database.connect().await.unwrap();
        let rows = sqlx::query("SELECT FROM written").fetch_all(&mut other);
        assert_eq!(rows.await.unwrap().len(), 1);
    }
}
