//! Access to the database that fails fast while it is away and recovers by itself.
//!
//! One task watches the database over a connection of its own. Requests ask only while it is up: a request that
//! meets an error or waits suspiciously long makes the watcher look at once, and when the watcher finds the
//! database gone, every waiting request fails in that moment. A database that is merely slow still answers
//! the watcher, so its requests are left to finish.

mod error;
mod watcher;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use prometheus_client::metrics::gauge::Gauge;
use sqlx::{ConnectOptions, PgPool, postgres::PgConnectOptions};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

pub use error::StoreError;
use error::is_connection_error;
use watcher::Watcher;

use crate::telemetry::call::Server;

/// A request that waits longer makes the watcher look. A database that refuses or ended the connection is known to
/// be away right then, well within the 250 ms that a client may wait to hear it.
const SUSPICIOUS: Duration = Duration::from_millis(40);
/// The longest that a living database may work on one operation.
const OPERATION: Duration = Duration::from_secs(5);

/// A pool of connections that belongs to one uninterrupted life of the database.
#[derive(Clone, Debug)]
struct Life {
    pool: PgPool,
    number: u64,
}

/// `None` while the database is away.
type State = Option<Life>;

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    state: watch::Receiver<State>,
    doubts: Arc<Doubts>,
    server: Server,
}

/// What requests tell the watcher.
#[derive(Debug, Default)]
struct Doubts {
    look: Notify,
    /// The connections reach a server that no longer takes writes: look for its successor.
    reconnect: AtomicBool,
}

impl Database {
    /// Starts the watcher. It ends when the last handle is dropped. The server knows the connections by `name`.
    pub fn connect(
        name: &str,
        options: PgConnectOptions,
        max_connections: u32,
        up: Gauge<u32, AtomicU32>,
    ) -> Self {
        // The server ends what the client no longer waits for.
        let options = options
            .application_name(name)
            .options([
                ("statement_timeout", "5s"),
                ("lock_timeout", "4s"),
                ("idle_in_transaction_session_timeout", "10s"),
            ])
            .disable_statement_logging();
        let server = Server::database("postgresql", options.get_host(), options.get_port())
            .with("db.namespace", options.get_database().unwrap_or_default());
        let (publish, state) = watch::channel(None);
        let doubts = Arc::new(Doubts::default());
        let watcher = Watcher {
            options,
            max_connections,
            publish,
            doubts: Arc::clone(&doubts),
            up,
            lives: 0,
        };
        tokio::spawn(watcher.run());
        Self {
            state,
            doubts,
            server,
        }
    }

    /// Waits until the database has been reached, at most for the given time.
    pub async fn wait_until_up(&self, at_most: Duration) {
        let _ = timeout(at_most, self.up()).await;
    }

    /// Waits until the database answers, however long that takes.
    pub async fn up(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(Option::is_some).await;
    }

    /// Runs one operation, or fails at once when the database is known to be away. Traces know the operation by its
    /// summary: the verb and the table, `SELECT links`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away, [`StoreError::Internal`] when it refuses the operation.
    pub async fn run<T, F>(
        &self,
        summary: &'static str,
        operation: impl FnOnce(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        self.server.call(summary, self.try_run(operation)).await
    }

    async fn try_run<T, F>(&self, operation: impl FnOnce(PgPool) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let life = self.state.borrow().clone().ok_or_else(away)?;
        let mut work = std::pin::pin!(operation(life.pool));
        if let Ok(result) = timeout(SUSPICIOUS, &mut work).await {
            return result.map_err(|error| self.judge(error));
        }
        self.doubts.look.notify_one();
        let mut state = self.state.clone();
        let life_ended =
            state.wait_for(|now| now.as_ref().is_none_or(|now| now.number != life.number));
        tokio::select! {
            biased;
            result = timeout(OPERATION, work) => match result {
                Ok(result) => result.map_err(|error| self.judge(error)),
                Err(_) => Err(StoreError::Unavailable("the operation took too long".to_owned())),
            },
            _ = life_ended => Err(away()),
        }
    }

    /// Tells an unavailable database from a wrong question.
    fn judge(&self, error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Database(refusal) = &error {
            let code = refusal.code().unwrap_or_default();
            let passing = match &*code {
                "25006" => {
                    self.doubts.reconnect.store(true, Ordering::Relaxed);
                    true
                }
                // Statement and lock time-outs, shutdown, lack of resources, lost connections, log-in.
                code => ["57", "55P03", "53", "08", "28"]
                    .iter()
                    .any(|class| code.starts_with(class)),
            };
            if !passing {
                return StoreError::Internal(Arc::new(error));
            }
        } else if !is_connection_error(&error) {
            return StoreError::Internal(Arc::new(error));
        }
        self.doubts.look.notify_one();
        StoreError::Unavailable(error.to_string())
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("the database is away".to_owned())
}
