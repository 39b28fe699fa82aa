//! Watching the database over a connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus_client::metrics::gauge::Gauge;
use sqlx::{
    ConnectOptions, Connection, PgConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{Doubts, Life, OPERATION, State};

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

/// Keeps [`State`] true.
pub(super) struct Watcher {
    pub(super) options: PgConnectOptions,
    pub(super) max_connections: u32,
    pub(super) publish: watch::Sender<State>,
    pub(super) doubts: Arc<Doubts>,
    pub(super) up: Gauge<u32, AtomicU32>,
    pub(super) lives: u64,
}

impl Watcher {
    pub(super) async fn run(mut self) {
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
