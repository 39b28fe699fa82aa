//! The task that monitors the database over its own connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus_client::metrics::gauge::Gauge;
use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    Admission, DatabaseState, PoolAdmission, Pools, ProbeRequests, no_answer, pool, unusable,
};
use crate::{
    backends::{Health, Unusable},
    time_limits::{
        DATABASE_CHECK, DATABASE_CHECK_GRACE, DATABASE_FROZEN, DATABASE_LOGIN, DATABASE_OPERATION,
        DATABASE_SUSPICIOUS,
    },
};

/// The time in which a server accepts a connection; its kernel does so even if the server is overloaded. Otherwise the
/// machine or the pod is gone.
const ACCEPT: Duration = Duration::from_millis(500);
const _: () =
    assert!(DATABASE_SUSPICIOUS.saturating_add(ACCEPT).as_millis() < DATABASE_CHECK.as_millis());
/// The interval between probes that no request triggered.
const INTERVAL: Duration = Duration::from_secs(5);
/// The interval between connection attempts during an outage.
const RETRY: Duration = Duration::from_millis(200);
/// The minimum time between two searches for the new primary after a failover.
const RECONNECT: Duration = Duration::from_millis(500);

/// Keeps [`DatabaseState`] up to date.
pub(super) struct Watcher {
    pub(super) options: PgConnectOptions,
    pub(super) admission: Arc<Admission>,
    pub(super) publish: watch::Sender<DatabaseState>,
    pub(super) probes: Arc<ProbeRequests>,
    pub(super) up: Gauge<u32, AtomicU32>,
    pub(super) health: Health,
    pub(super) opened: u64,
}

impl Watcher {
    pub(super) async fn run(mut self) {
        let mut last_reason = String::new();
        while !self.publish.is_closed() {
            let connected = self.connect().await;
            match connected {
                Ok(connection) => {
                    last_reason.clear();
                    self.guard(connection).await;
                }
                Err(Unusable { reason, fault }) => {
                    self.health.failed(fault);
                    if reason != last_reason {
                        tracing::warn!(
                            event = "database_unavailable",
                            server.address = self.options.get_host(),
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

    async fn connect(&self) -> Result<PgConnection, Unusable> {
        let begun = Instant::now();
        let attempt = async { Some(self.options.connect().await) };
        match self.in_time(DATABASE_LOGIN, attempt).await {
            Some(connected) => connected.map_err(|error| unusable(&error)),
            None => Err(no_answer(begun.elapsed())),
        }
    }

    /// Publishes [`Pools`], and new ones after each reconnect, until a probe fails.
    async fn guard(&mut self, mut connection: PgConnection) {
        self.open_pool();
        let mut reconnected = Instant::now();
        loop {
            self.pause(INTERVAL).await;
            if self.publish.is_closed() {
                break;
            }
            // Not at every rejected write: a read-only database still serves reads over the existing connections.
            let lost_primary = reconnected.elapsed() > RECONNECT
                && self.probes.reconnect.swap(false, Ordering::Relaxed);
            match self.probe(connection, lost_primary).await {
                Some((answered, same_connection)) => {
                    connection = answered;
                    if !same_connection {
                        reconnected = Instant::now();
                        self.open_pool();
                    }
                }
                None => break,
            }
        }
        self.close_pool();
    }

    /// Returns the answer to a question, or `None` if it took longer than `limit`, or much less where the server
    /// accepts no connections.
    async fn in_time<T>(
        &self,
        limit: Duration,
        question: impl Future<Output = Option<T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            answer = question => answer,
            () = self.silence(limit) => None,
        }
    }

    /// Completes when a question that began at the same time counts as unanswered. A quick answer costs the server no
    /// connection.
    async fn silence(&self, limit: Duration) {
        let begun = Instant::now();
        sleep(DATABASE_SUSPICIOUS).await;
        let limit = match timeout(ACCEPT, self.is_accepting()).await {
            Ok(true) => limit,
            _ => DATABASE_CHECK,
        };
        sleep(limit.saturating_sub(begun.elapsed())).await;
        // After a pause of this process or of the machine, all timers have expired at once. The server gets some time for
        // its answer then.
        sleep(DATABASE_CHECK_GRACE).await;
    }

    /// Returns true if the server's machine accepts a connection, on which nothing is sent.
    async fn is_accepting(&self) -> bool {
        let address = (self.options.get_host(), self.options.get_port());
        self.options.get_socket().is_some() || TcpStream::connect(address).await.is_ok()
    }

    /// Returns the connection that answered, and true if it is still the original one. Returns `None` if there was no
    /// answer.
    async fn probe(
        &self,
        mut connection: PgConnection,
        reconnect: bool,
    ) -> Option<(PgConnection, bool)> {
        if !reconnect {
            let ping = async { Some(connection.ping().await) };
            // A server that is silent is frozen. One that has ended the session may take a login.
            if self.in_time(DATABASE_FROZEN, ping).await?.is_ok() {
                return Some((connection, true));
            }
        }
        let connected = self.connect().await.ok();
        connected.map(|connection| (connection, false))
    }

    /// Waits, but at most until a request triggers a probe or the last handle is dropped. Slow requests of an overloaded
    /// server trigger few probes.
    async fn pause(&self, at_most: Duration) {
        sleep(DATABASE_SUSPICIOUS).await;
        tokio::select! {
            () = sleep(at_most) => {}
            () = self.publish.closed() => {}
            () = self.probes.now.notified(), if self.publish.borrow().is_some() => {}
        }
    }

    fn open_pool(&mut self) {
        self.opened += 1;
        let pool =
            |admission: &PoolAdmission| pool::open(self.options.clone(), admission.connections);
        self.up.set(1);
        self.health.up();
        tracing::info!(
            event = "database_up",
            server.address = self.options.get_host(),
            "database_up"
        );
        retire(self.publish.send_replace(Some(Pools {
            look_ups: pool(&self.admission.look_ups),
            changes: pool(&self.admission.changes),
            number: self.opened,
        })));
    }

    fn close_pool(&self) {
        self.up.set(0);
        // The next connection attempt finds the reason.
        self.health.failed(None);
        retire(self.publish.send_replace(None));
    }
}

/// Closes old pools in the background. Connections to a dead server are dropped after a timeout.
fn retire(state: DatabaseState) {
    let Some(pools) = state else { return };
    for pool in [pools.look_ups, pools.changes] {
        tokio::spawn(async move {
            let _ = timeout(DATABASE_OPERATION, pool.close()).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::database::AdmissionMetrics;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_soon_gets_no_further_connection() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let address = server.local_addr().unwrap();
        let options = PgConnectOptions::new_without_pgpass();
        let (publish, _state) = watch::channel(None);
        let watcher = Watcher {
            options: options.host("127.0.0.1").port(address.port()),
            admission: Arc::new(Admission::new(2, &AdmissionMetrics::default())),
            publish,
            probes: Arc::default(),
            up: Gauge::default(),
            health: Health::default(),
            opened: 0,
        };
        let answer = |after: Duration| async move {
            sleep(after).await;
            Some(())
        };
        let soon = watcher.in_time(DATABASE_FROZEN, answer(DATABASE_SUSPICIOUS / 2));
        assert_eq!(soon.await, Some(()));
        assert!(server.accept().is_err());
        let late = watcher.in_time(DATABASE_FROZEN, answer(DATABASE_SUSPICIOUS * 2));
        assert_eq!(late.await, Some(()));
        server.accept().unwrap();
    }
}
