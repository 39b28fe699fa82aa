//! A transaction on a connection of a pool.
//!
//! The library's transaction does not note that it has begun if the wait for the answer is given up, as with a client that goes
//! away or at a time limit. The connection then returns to the pool within that transaction, and what others write on it
//! later is rolled back ([sqlx #4385](https://github.com/launchbadge/sqlx/issues/4385)). This one is rolled back in any case,
//! and its connection is closed if the server does not answer that in time.

use std::ops::{Deref, DerefMut};

use sqlx::{Error, Executor, PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::time::timeout;

use crate::time_limits::DATABASE_OPERATION;

/// The reason why a transaction has a connection.
const OPEN: &str = "only the end takes the connection";

/// A transaction, which is rolled back unless it is committed. It has no savepoints: a `begin` on its connection would end it.
#[derive(Debug)]
pub struct Transaction {
    /// There until the end.
    connection: Option<PoolConnection<Postgres>>,
}

/// Begins a transaction.
///
/// # Errors
/// Fails if no connection is free in time, or if the database is down.
pub async fn begin(pool: &PgPool) -> Result<Transaction, Error> {
    begin_with(pool, "BEGIN").await
}

/// Begins a transaction with a statement of the form `BEGIN ...`.
///
/// # Errors
/// As of [`begin`].
pub async fn begin_with(pool: &PgPool, statement: &'static str) -> Result<Transaction, Error> {
    let connection = Some(pool.acquire().await?);
    let mut transaction = Transaction { connection };
    transaction.execute(statement).await?;
    Ok(transaction)
}

impl Transaction {
    /// Makes the changes last.
    ///
    /// # Errors
    /// Fails if the database is down; the changes may then last or not.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.execute("COMMIT").await?;
        drop(self.connection.take());
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    #[expect(clippy::expect_used, reason = "only the end takes the connection")]
    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect(OPEN)
    }
}

impl DerefMut for Transaction {
    #[expect(clippy::expect_used, reason = "only the end takes the connection")]
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect(OPEN)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        tokio::spawn(async move {
            let rolled_back = timeout(DATABASE_OPERATION, connection.execute("ROLLBACK")).await;
            if !matches!(rolled_back, Ok(Ok(_))) {
                connection.close_on_drop();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shortener_testing::{
        database::TestDatabase,
        proxy::{Path, Proxy},
    };
    use sqlx::{ConnectOptions, postgres::PgPoolOptions};

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
