//! A pool of connections to a server that the watcher monitors.

use std::io;

use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time::timeout;

use crate::time_limits::DATABASE_OPERATION;

/// Returns a pool that opens connections when they are needed.
pub(super) fn open(options: PgConnectOptions, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(DATABASE_OPERATION)
        // The watcher detects a dead server; a check before every query would double its latency.
        .test_before_acquire(false)
        .after_release(|connection, _| Box::pin(is_settled(connection)))
        .connect_lazy_with(options)
}

/// Waits for the answer to an operation that was given up. The library does so without a limit, for the quarter of an hour
/// after which the kernel gives up a machine that is gone. The watcher does not notice that machine if its connection leads
/// to another one, as behind the Service of a pooler.
///
/// The library's own ping, which follows, has no limit: a connection whose machine is lost within that round trip still waits
/// for the kernel.
async fn is_settled(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    match timeout(DATABASE_OPERATION, connection.flush()).await {
        Ok(answered) => answered.map(|()| true),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shortener_testing::{
        database::TestDatabase,
        proxy::{Path, Proxy},
    };
    use sqlx::Executor;
    use tokio::time::sleep;

    use super::*;
    use crate::database::begin;

    /// Gives up an operation on a connection that has fallen silent, and checks that the pool gives up the connection.
    async fn is_replaced_after(operation: impl AsyncFnOnce(&PgPool) -> Result<(), sqlx::Error>) {
        let database = TestDatabase::new().await;
        let server = format!("{}:{}", database.get_host(), database.get_port());
        let proxy = Proxy::before(server).await;
        let through = database.clone().host("127.0.0.1");
        let pool = open(through.port(proxy.address.port()), 1);
        pool.execute("SELECT 1").await.unwrap();
        // The library returns it in a task.
        while pool.num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.set(Path::Silent);
        let given_up = timeout(Duration::from_secs(1), operation(&pool)).await;
        assert!(given_up.is_err());
        // The open connection stays silent, and new ones get answers: those of another machine.
        proxy.set(Path::Open);
        let replaced = async {
            while pool.size() > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(2 * DATABASE_OPERATION, replaced).await.unwrap();
        pool.execute("SELECT 1").await.unwrap();
    }

    #[tokio::test]
    async fn a_silent_connection_leaves_the_pool_after_a_statement() {
        is_replaced_after(async |pool| pool.execute("SELECT 1").await.map(drop)).await;
    }

    #[tokio::test]
    async fn a_silent_connection_leaves_the_pool_after_a_transaction() {
        is_replaced_after(async |pool| begin(pool).await.map(drop)).await;
    }
}
