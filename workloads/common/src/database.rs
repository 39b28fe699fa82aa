//! Access to the database that fails fast during an outage and recovers without help.
//!
//! One task, the watcher, monitors the database over its own connection. Requests use the database only while it is
//! up. A request that gets an error, or waits suspiciously long, triggers an immediate probe. If the probe is not
//! answered soon and the server accepts no connections, all waiting requests fail; if the probe fails, later ones fail at
//! once. A database that is only slow still answers the probe, so its requests may finish.
//!
//! The app bounds the requests that use the database or wait for it, see [`Database::admitting`]. Its look-ups that wait
//! at the same time are one operation, see [`Lookups`].

mod admission;
mod error;
mod lookups;
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

pub use admission::AdmissionMetrics;
use admission::{Admission, Lane, Turn};
use error::is_connection_error;
pub use error::{StoreError, is_refused_by_pooler, no_answer, unusable};
pub use lookups::{Lookups, Question};
use watcher::Watcher;

use crate::{
    backends::{Health, StoreState},
    telemetry::call::Server,
};

/// The wait after which a request triggers a probe. A database that refuses or closes the connection is detected
/// immediately; together with the time in which a probe has to be answered, it is within the 250 ms that a client may
/// wait for the error.
const SUSPICIOUS: Duration = Duration::from_millis(40);
/// The timeout of one operation on a database that is up.
const OPERATION: Duration = Duration::from_secs(5);
/// The longest time of a request in the database: its wait for a connection and then its operation.
pub const LONGEST: Duration = admission::LONGEST_WAIT.saturating_add(OPERATION);

/// A connection pool that is valid for one uninterrupted period in which the database is up.
#[derive(Clone, Debug)]
struct ConnectedPool {
    pool: PgPool,
    number: u64,
}

/// The current period in which the database is up; `None` while it is down.
type State = Option<ConnectedPool>;

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    state: watch::Receiver<State>,
    /// True while a probe is not answered and the server accepts no connections.
    silent: watch::Receiver<bool>,
    probes: Arc<ProbeRequests>,
    server: Server,
    health: Health,
    admission: Option<Arc<Admission>>,
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
    /// options have the limits of a session already.
    pub fn connect(
        name: &str,
        options: PgConnectOptions,
        max_connections: u32,
        up: Gauge<u32, AtomicU32>,
    ) -> Self {
        let options = options.application_name(name).disable_statement_logging();
        let server = Server::database("postgresql", options.get_host(), options.get_port())
            .with("db.namespace", options.get_database().unwrap_or_default());
        let (publish, state) = watch::channel(None);
        let (publish_silence, silent) = watch::channel(false);
        let probes = Arc::new(ProbeRequests::default());
        let health = Health::default();
        let watcher = Watcher {
            options,
            max_connections,
            publish,
            publish_silence,
            probes: Arc::clone(&probes),
            up,
            health: health.clone(),
            opened: 0,
        };
        tokio::spawn(watcher.run());
        Self {
            state,
            silent,
            probes,
            server,
            health,
            admission: None,
        }
    }

    /// Bounds the operations that use this number of connections, and those that wait for one.
    #[must_use]
    pub fn admitting(self, connections: u32, metrics: AdmissionMetrics) -> Self {
        Self {
            admission: Some(Arc::new(Admission::new(connections, metrics))),
            ..self
        }
    }

    /// Returns the state of the database, for the operator.
    #[must_use]
    pub fn store_state(&self) -> StoreState {
        self.health.state()
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
    /// for too long, and [`StoreError::Internal`] if the database rejects the operation.
    pub async fn run<T, F>(
        &self,
        summary: &'static str,
        operation: impl FnOnce(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let work = self.try_run(Lane::Changes, operation);
        self.server.call(summary, work).await
    }

    /// Runs one look-up of a name that a client may have guessed, like [`run`](Self::run). Look-ups have connections and
    /// places of their own.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run).
    pub async fn look_up<T, F>(
        &self,
        summary: &'static str,
        operation: impl FnOnce(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let work = self.try_run(Lane::LookUps, operation);
        self.server.call(summary, work).await
    }

    async fn try_run<T, F>(
        &self,
        lane: Lane,
        operation: impl FnOnce(PgPool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        if !self.is_up() {
            return Err(away());
        }
        let _turn = self.turn(lane).await?;
        self.operate(operation).await
    }

    fn is_up(&self) -> bool {
        self.state.borrow().is_some()
    }

    /// Returns the number of the pool, if there is one.
    fn pool_number(&self) -> Option<u64> {
        self.state
            .borrow()
            .as_ref()
            .map(|connected| connected.number)
    }

    /// Returns true if another pool has followed the one of this number.
    fn has_replaced(&self, number: Option<u64>) -> bool {
        self.pool_number().is_some_and(|now| Some(now) != number)
    }

    /// Runs an operation that has its turn.
    async fn operate<T, F>(&self, operation: impl FnOnce(PgPool) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        // The database may have gone down meanwhile.
        let connected = self.state.borrow().clone().ok_or_else(away)?;
        // In a box, so that what waits for it does not contain it once more at each level.
        let mut work = Box::pin(operation(connected.pool));
        if let Ok(result) = timeout(SUSPICIOUS, &mut work).await {
            return result.map_err(|error| self.classify_error(error));
        }
        self.probes.now.notify_one();
        let mut silent = self.silent.clone();
        let mut state = self.state.clone();
        let pool_closed = state.wait_for(|now| {
            now.as_ref()
                .is_none_or(|now| now.number != connected.number)
        });
        tokio::select! {
            biased;
            result = timeout(OPERATION, work) => match result {
                Ok(result) => result.map_err(|error| self.classify_error(error)),
                Err(_) => {
                    let limit = OPERATION.as_secs();
                    let reason = format!("the operation took longer than {limit} s");
                    Err(StoreError::Unavailable(reason))
                }
            },
            _ = pool_closed => Err(away()),
            _ = silent.wait_for(|silent| *silent) => Err(silence()),
        }
    }

    /// Waits for a connection, unless the database has fallen silent.
    async fn turn(&self, lane: Lane) -> Result<Option<Turn>, StoreError> {
        let Some(admission) = &self.admission else {
            return Ok(None);
        };
        if let Some(turn) = admission.try_enter(lane) {
            return Ok(Some(turn));
        }
        let mut silent = self.silent.clone();
        tokio::select! {
            biased;
            turn = admission.enter(lane) => turn.map(Some),
            _ = silent.wait_for(|silent| *silent) => Err(silence()),
        }
    }

    /// Separates an unavailable database from an invalid query, and notifies the watcher of the former.
    fn classify_error(&self, error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Database(refusal) = &error {
            let code = refusal.code().unwrap_or_default();
            let passing = match &*code {
                "25006" => {
                    self.probes.reconnect.store(true, Ordering::Relaxed);
                    true
                }
                // Statement and lock timeouts, shutdown, lack of resources, lost connections, authentication.
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

fn silence() -> StoreError {
    StoreError::Unavailable("the database does not answer".to_owned())
}

fn away() -> StoreError {
    StoreError::Unavailable("the database is down".to_owned())
}
