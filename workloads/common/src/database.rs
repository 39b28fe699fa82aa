//! Access to the database that fails fast while it is away and recovers by itself.
//!
//! One task watches the database over a connection of its own. Requests ask only while it is up: a request that
//! meets an error or waits suspiciously long makes the watcher look at once, and when the watcher finds the
//! database gone, every waiting request fails in that moment. A database that is merely slow still answers
//! the watcher, so its requests are left to finish.

mod error;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus_client::metrics::gauge::Gauge;
use sqlx::{
    ConnectOptions, Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

pub use error::StoreError;
use error::is_connection_error;

/// A request that waits longer makes the watcher look. A database that refuses or ended the connection is known to
/// be away right then, well within the 250 ms that a client may wait to hear it.
const SUSPICIOUS: Duration = Duration::from_millis(40);
/// How long a living database may take to answer the watcher. Silence is no proof: on a starved node either side may
/// be late, and a database taken for dead fails every request. So only the first requests of a silent outage wait this
/// long; all later ones hear at once.
const PROBE: Duration = Duration::from_secs(1);
/// How often the watcher looks without being asked.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often the watcher looks while the database is away.
const RETRY: Duration = Duration::from_millis(200);
/// How long a connection attempt may take while the database is away.
const CONNECT: Duration = Duration::from_secs(1);
/// The least time between two searches for a successor of a read-only server.
const RECONNECT: Duration = Duration::from_millis(500);
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
        Self { state, doubts }
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

    /// Runs one operation, or fails at once when the database is known to be away.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away, [`StoreError::Internal`] when it refuses the operation.
    pub async fn run<T, F>(&self, operation: impl FnOnce(PgPool) -> F) -> Result<T, StoreError>
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

/// Keeps [`State`] true.
struct Watcher {
    options: PgConnectOptions,
    max_connections: u32,
    publish: watch::Sender<State>,
    doubts: Arc<Doubts>,
    up: Gauge<u32, AtomicU32>,
    lives: u64,
}

impl Watcher {
    async fn run(mut self) {
        let mut last_reason = String::new();
        while !self.publish.is_closed() {
            match timeout(CONNECT, self.options.connect()).await {
                Ok(Ok(connection)) => {
                    last_reason.clear();
                    self.guard(connection).await;
                }
                failed => {
                    let reason = failed.map_or_else(
                        |_| "no answer".to_owned(),
                        |result| match result {
                            Ok(_) => String::new(),
                            Err(error) => error.to_string(),
                        },
                    );
                    if reason != last_reason {
                        tracing::warn!(
                            event = "database_unavailable",
                            error.message = reason,
                            "database_unavailable"
                        );
                        last_reason = reason;
                    }
                    self.pause(RETRY).await;
                }
            }
        }
    }

    /// Publishes lives of the database for as long as it answers.
    async fn guard(&mut self, mut connection: PgConnection) {
        self.begin_life();
        let mut reconnected = Instant::now();
        loop {
            self.pause(INTERVAL).await;
            if self.publish.is_closed() {
                break;
            }
            // Not at every refused write: a read-only database still serves reads over the connections it has.
            let lost_primary = reconnected.elapsed() > RECONNECT
                && self.doubts.reconnect.swap(false, Ordering::Relaxed);
            match timeout(PROBE, self.probe(connection, lost_primary)).await {
                Ok(Some((answered, same_life))) => {
                    connection = answered;
                    if !same_life {
                        reconnected = Instant::now();
                        self.begin_life();
                    }
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.end_life();
    }

    /// The connection that answered, and whether it is still the one of this life.
    async fn probe(
        &self,
        mut connection: PgConnection,
        reconnect: bool,
    ) -> Option<(PgConnection, bool)> {
        if !reconnect && connection.ping().await.is_ok() {
            return Some((connection, true));
        }
        self.options
            .connect()
            .await
            .ok()
            .map(|connection| (connection, false))
    }

    /// Waits, but not when a request has doubts or nobody is left.
    async fn pause(&self, at_most: Duration) {
        tokio::select! {
            () = sleep(at_most) => {}
            () = self.publish.closed() => {}
            () = self.doubts.look.notified(), if self.publish.borrow().is_some() => {}
        }
    }

    fn begin_life(&mut self) {
        self.lives += 1;
        let pool = PgPoolOptions::new()
            .max_connections(self.max_connections)
            .acquire_timeout(OPERATION)
            // The watcher notices a dead server; asking before every query would double its latency.
            .test_before_acquire(false)
            .connect_lazy_with(self.options.clone());
        self.up.set(1);
        tracing::info!(event = "database_up", "database_up");
        retire(self.publish.send_replace(Some(Life {
            pool,
            number: self.lives,
        })));
    }

    fn end_life(&self) {
        self.up.set(0);
        retire(self.publish.send_replace(None));
    }
}

/// Gives connections back that still work; those of a dead server are simply dropped after a while.
fn retire(life: State) {
    if let Some(life) = life {
        tokio::spawn(async move {
            let _ = timeout(OPERATION, life.pool.close()).await;
        });
    }
}
