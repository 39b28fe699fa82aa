//! Access to the database that fails fast during an outage and recovers without help.
//!
//! One task, the watcher, monitors the database over its own connection. Requests use the database only while it is
//! up. A request that gets an error, or waits suspiciously long, triggers an immediate probe. If the probe fails, all
//! requests that wait fail, and later ones at once. A database that is only slow still answers the probe, so its requests
//! may finish.
//!
//! Look-ups and changes have connections of their own, and a bounded number of both waits for one.

mod admission;
mod error;
mod pool;
mod transaction;
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
    sync::{Notify, SemaphorePermit, watch},
    time::timeout,
};

pub use admission::AdmissionMetrics;
use admission::{Admission, PoolAdmission};
pub use error::{StoreError, is_refused_by_pooler, no_answer, unusable};
use error::{is_connection_error, is_lost};
pub use transaction::{Transaction, begin, begin_with};
use watcher::Watcher;

use crate::{
    backends::Health,
    supervised::supervised,
    telemetry::call::Server,
    time_limits::{DATABASE_OPERATION, DATABASE_SUSPICIOUS},
};

/// The state (SQLSTATE) of a statement that the server cut short. It answers, so it is no outage.
const STATEMENT_TIMEOUT: &str = "57014";
/// The state (SQLSTATE) of a write that a read-only server or database refuses.
pub const READ_ONLY: &str = "25006";

/// Connection pools that are valid for one uninterrupted period in which the database is up.
#[derive(Clone, Debug)]
struct Pools {
    look_ups: PgPool,
    changes: PgPool,
    number: u64,
}

/// The current period in which the database is up; `None` while it is down.
type DatabaseState = Option<Pools>;

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    state: watch::Receiver<DatabaseState>,
    probes: Arc<ProbeRequests>,
    server: Server,
    /// The state of the database, for the operator.
    pub health: Health,
    admission: Arc<Admission>,
}

/// Signals from requests to the watcher.
#[derive(Debug, Default)]
struct ProbeRequests {
    now: Notify,
    /// Set if the connections lead to a server that is read-only now. The watcher then looks for the new primary.
    reconnect: AtomicBool,
}

impl Database {
    /// Starts the watcher, which ends with the last handle. `name` is the `application_name` of the connections, whose
    /// options have the limits of a session already. Look-ups and changes get half of the connections each, and at least
    /// one.
    pub fn connect(
        name: &str,
        options: PgConnectOptions,
        max_connections: u32,
        up: Gauge<u32, AtomicU32>,
        metrics: &AdmissionMetrics,
    ) -> Self {
        let options = options.application_name(name).disable_statement_logging();
        let server = Server::database("postgresql", options.get_host(), options.get_port())
            .with("db.namespace", options.get_database().unwrap_or_default());
        let (publish, state) = watch::channel(None);
        let probes = Arc::new(ProbeRequests::default());
        let health = Health::default();
        let admission = Arc::new(Admission::new(max_connections, metrics));
        let watcher = Watcher {
            options,
            admission: Arc::clone(&admission),
            publish,
            probes: Arc::clone(&probes),
            up,
            health: health.clone(),
            opened: 0,
        };
        tokio::spawn(supervised("database", watcher.run()));
        Self {
            state,
            probes,
            server,
            health,
            admission,
        }
    }

    /// Waits until the database is up, at most for the given time.
    pub async fn wait_until_up(&self, at_most: Duration) {
        let _ = timeout(at_most, self.up()).await;
    }

    /// Waits until the database is up, without a time limit.
    pub async fn up(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(Option::is_some).await;
    }

    /// Runs one operation, or fails at once if the database is known to be down. `summary` is the verb and the
    /// table, for example `SELECT links`; it names the span.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if the database is down, [`StoreError::Busy`] if every connection is used
    /// for too long, [`StoreError::TimedOut`] if the operation takes too long, and [`StoreError::Internal`] if the
    /// database rejects it.
    pub async fn run<T, F>(
        &self,
        summary: &'static str,
        operation: impl FnOnce(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let pool = |pools: Pools| operation(pools.changes);
        let work = self.try_run(&self.admission.changes, pool);
        self.server.call(summary, work).await
    }

    /// Runs one look-up of a name that a client may have guessed, like [`run`](Self::run). Look-ups have connections of
    /// their own. They run again if their connection turns out to be lost, because they change nothing.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run).
    pub async fn look_up<T, F>(
        &self,
        summary: &'static str,
        operation: impl Fn(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let work = self.look_up_for_several(operation);
        self.server.call(summary, work).await
    }

    /// Runs one look-up without a span, for several requests that have spans of their own.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run).
    pub async fn look_up_for_several<T, F>(
        &self,
        operation: impl Fn(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let number = self.pool_number();
        match self.try_look_up(&operation).await {
            // The watcher has looked for the primary meanwhile.
            Err(StoreError::Unavailable(_)) if self.has_replaced(number) => {
                self.try_look_up(&operation).await
            }
            result => result,
        }
    }

    /// Returns the server attributes of spans.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the number of connections for look-ups.
    pub fn connections_for_look_ups(&self) -> usize {
        self.admission.look_ups.connections as usize
    }

    /// Returns the number of operations that wait, to which look-ups that wait for a statement add themselves.
    pub fn waiting(&self) -> Gauge<u32, AtomicU32> {
        self.admission.look_ups.waiting.clone()
    }

    /// Counts a look-up that is refused, and returns its error.
    pub fn refuse_look_up(&self) -> StoreError {
        self.admission.look_ups.refuse()
    }

    async fn try_run<T, F>(
        &self,
        admission: &PoolAdmission,
        operation: impl FnOnce(Pools) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let _turn = self.turn(admission).await?;
        let result = self.operate(operation).await?;
        result.map_err(|error| self.classify_error(error))
    }

    async fn try_look_up<T, F>(&self, operation: &impl Fn(PgPool) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let admission = &self.admission.look_ups;
        let _turn = self.turn(admission).await?;
        // Each time takes one connection out of the pool, so the last time opens another.
        for _ in 0..admission.connections {
            match self.operate(|pools| operation(pools.look_ups)).await? {
                Err(error) if is_lost(&error) => self.probes.now.notify_one(),
                result => return result.map_err(|error| self.classify_error(error)),
            }
        }
        let result = self.operate(|pools| operation(pools.look_ups)).await?;
        result.map_err(|error| self.classify_error(error))
    }

    /// Waits for the right to use a connection, while the same pools are open.
    async fn turn<'a>(
        &self,
        admission: &'a PoolAdmission,
    ) -> Result<SemaphorePermit<'a>, StoreError> {
        let number = self.pool_number().ok_or_else(away)?;
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            turn = admission.turn() => turn,
            _ = state.wait_for(|now| !is_pool(now, number)) => Err(away()),
        }
    }

    /// Returns the number of the pools, if there are any.
    fn pool_number(&self) -> Option<u64> {
        self.state.borrow().as_ref().map(|pools| pools.number)
    }

    /// Returns true if other pools have followed those of this number.
    fn has_replaced(&self, number: Option<u64>) -> bool {
        self.pool_number().is_some_and(|now| Some(now) != number)
    }

    /// Runs an operation that has its turn, and returns its result if it has one in time.
    async fn operate<T, F>(
        &self,
        operation: impl FnOnce(Pools) -> F,
    ) -> Result<Result<T, sqlx::Error>, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let pools = self.state.borrow().clone().ok_or_else(away)?;
        let number = pools.number;
        // In a box, so that what waits for it does not contain it once more at each level.
        let mut work = Box::pin(operation(pools));
        if let Ok(result) = timeout(DATABASE_SUSPICIOUS, &mut work).await {
            return Ok(result);
        }
        self.probes.now.notify_one();
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            result = timeout(DATABASE_OPERATION, work) => result.map_err(|_| {
                let limit = DATABASE_OPERATION.as_secs();
                let reason = format!("the operation took longer than {limit} s");
                StoreError::TimedOut(reason)
            }),
            _ = state.wait_for(|now| !is_pool(now, number)) => Err(away()),
        }
    }

    /// Separates an unavailable database from a slow statement and from an invalid one, and notifies the watcher of the
    /// first.
    fn classify_error(&self, error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Database(refusal) = &error {
            let code = refusal.code().unwrap_or_default();
            let passing = match &*code {
                STATEMENT_TIMEOUT => return StoreError::TimedOut(error.to_string()),
                READ_ONLY => {
                    self.probes.reconnect.store(true, Ordering::Relaxed);
                    true
                }
                // Shutdown, lock timeouts, lack of resources, lost connections, authentication.
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
        self.probes.now.notify_one();
        StoreError::Unavailable(error.to_string())
    }
}

/// Returns true if these are the pools of this number.
fn is_pool(state: &DatabaseState, number: u64) -> bool {
    state.as_ref().is_some_and(|now| now.number == number)
}

fn away() -> StoreError {
    StoreError::Unavailable("the database is down".to_owned())
}
