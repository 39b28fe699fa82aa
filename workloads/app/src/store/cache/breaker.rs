//! A circuit breaker for the cache: a request waits for at most one deadline, and not at all during an outage.
//!
//! An error or a timeout of one request opens the breaker for all: from then on requests continue without the
//! cache. One task reconnects in the background. The breaker closes again once a new connection has answered a
//! lookup.

use std::{
    future::Future,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use shortener_common::{telemetry::call::Server, tls};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{connection::Connection, local_cache::LocalCache, source::Source};

/// The timeout of connecting. Sentinels and the nodes of a cluster need several steps, and no request waits for
/// them.
const CONNECT: Duration = Duration::from_secs(3);
/// The interval of checks on an idle connection, so that a broken one is replaced before the next request needs it.
const INTERVAL: Duration = Duration::from_secs(5);
/// Backoff between connection attempts: the first and the longest pause. Without it, a cache that accepts
/// connections but does not answer requests would cost each request the deadline.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A connection that has not failed yet.
#[derive(Clone)]
struct LiveConnection {
    connection: Connection,
    number: u64,
}

/// The circuit breaker and its connection. Dropping it stops the reconnecting task.
pub struct Breaker {
    shared: Arc<Circuit>,
    _search: JoinSet<()>,
}

/// The state that the breaker shares with its reconnecting task.
struct Circuit {
    server: Server,
    /// The time limit of an operation.
    deadline: Duration,
    /// `None` while the breaker is open.
    live: watch::Sender<Option<LiveConnection>>,
    failed: Notify,
    up: Gauge<u32, AtomicU32>,
    /// The last reason that was logged for a rejected command. A full cache rejects every write, which is logged
    /// once.
    refusal: Mutex<String>,
}

impl Breaker {
    /// Starts connecting. `check` runs on a new connection before any request does, and periodically after that.
    pub fn start<C, F>(source: Source, up: Gauge<u32, AtomicU32>, check: C) -> Self
    where
        C: Fn(Connection) -> F + Send + Sync + 'static,
        F: Future<Output = RedisResult<()>> + Send + 'static,
    {
        let shared = Arc::new(Circuit {
            server: source.server(),
            deadline: source.deadline(),
            live: watch::Sender::new(None),
            failed: Notify::new(),
            up,
            refusal: Mutex::default(),
        });
        let mut search = JoinSet::new();
        search.spawn(look_for(source, Arc::clone(&shared), check));
        Self {
            shared,
            _search: search,
        }
    }

    /// Returns true if requests use the cache.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.live.borrow().is_some()
    }

    /// Waits until requests use the cache, at most for the given time.
    pub async fn wait_until_closed(&self, at_most: Duration) {
        let mut live = self.shared.live.subscribe();
        let _ = timeout(at_most, live.wait_for(Option::is_some)).await;
    }

    /// Looks up the copies in this process, if there are any and the breaker is closed.
    pub fn near<T>(&self, ask: impl FnOnce(&LocalCache) -> Option<T>) -> Option<T> {
        let live = self.shared.live.borrow();
        ask(live.as_ref()?.connection.near()?)
    }

    /// Runs one operation in a span with the name of its command. Returns `None` if the cache is down, does not
    /// answer in time or rejects the command.
    pub async fn run<T, F>(
        &self,
        command: &'static str,
        operation: impl FnOnce(Connection) -> F,
    ) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.shared.run(command, operation).await
    }
}

/// The reason why an operation has no result.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Refused(RedisError),
    #[error(transparent)]
    Broken(RedisError),
    #[error("no answer in time")]
    Silent,
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        if is_refusal(&error) {
            Self::Refused(error)
        } else {
            Self::Broken(error)
        }
    }
}

impl Circuit {
    async fn run<T, F>(
        &self,
        command: &'static str,
        operation: impl FnOnce(Connection) -> F,
    ) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let live = self.live.borrow().clone()?;
        let answer = timeout(self.deadline, operation(live.connection));
        let answer = async { Ok(answer.await.map_err(|_| Failure::Silent)??) };
        match self.server.call(command, answer).await {
            Ok(value) => return Some(value),
            Err(Failure::Refused(error)) => self.refused(&error),
            Err(failure) => self.open(live.number, &failure.to_string()),
        }
        None
    }

    /// Opens the breaker, unless the connection was already replaced.
    fn open(&self, number: u64, reason: &str) {
        let opened = self.live.send_if_modified(|live| {
            let current = live.as_ref().is_some_and(|live| live.number == number);
            if current {
                *live = None;
            }
            current
        });
        if opened {
            self.up.set(0);
            self.failed.notify_one();
            unavailable(reason);
        }
    }

    fn close(&self, live: LiveConnection) {
        self.live.send_replace(Some(live));
        self.up.set(1);
        tracing::info!(event = "cache_up", "cache_up");
    }

    fn refused(&self, error: &RedisError) {
        let reason = error.to_string();
        let mut last = self.refusal.lock();
        if *last != reason {
            tracing::warn!(
                event = "cache_refused",
                error.message = reason,
                "cache_refused"
            );
            *last = reason;
        }
    }
}

fn unavailable(reason: &str) {
    tracing::warn!(
        event = "cache_unavailable",
        error.message = reason,
        "cache_unavailable"
    );
}

/// Returns true if a healthy server rejected a command in time, such as a write to a full cache. The breaker stays
/// closed then.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    match error.kind() {
        // Another server has to be found, or this one is not ready.
        ErrorKind::Server(
            Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain,
        ) => false,
        ErrorKind::Server(_) | ErrorKind::Extension => true,
        _ => false,
    }
}

async fn look_for<C, F>(mut source: Source, shared: Arc<Circuit>, check: C)
where
    C: Fn(Connection) -> F,
    F: Future<Output = RedisResult<()>>,
{
    let mut number = 0;
    let mut pause = PAUSES.0;
    let mut last_reason = String::new();
    loop {
        match reach(&mut source, &check).await {
            Ok(connection) => {
                number += 1;
                last_reason.clear();
                shared.close(LiveConnection { connection, number });
                let closed = Instant::now();
                guard(&shared, &check).await;
                if closed.elapsed() > INTERVAL {
                    pause = PAUSES.0;
                }
            }
            Err(reason) if reason != last_reason => {
                unavailable(&reason);
                last_reason = reason;
            }
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Connects, and checks the connection.
async fn reach<C, F>(source: &mut Source, check: &C) -> Result<Connection, String>
where
    C: Fn(Connection) -> F,
    F: Future<Output = RedisResult<()>>,
{
    let late = |_| "no answer in time".to_owned();
    let text = |error: RedisError| tls::explained(&error);
    let connection = timeout(CONNECT, source.connect())
        .await
        .map_err(late)?
        .map_err(text)?;
    timeout(source.deadline(), check(connection.clone()))
        .await
        .map_err(late)?
        .map_err(text)?;
    Ok(connection)
}

/// Checks the connection periodically. Completes once the breaker is open.
async fn guard<C, F>(shared: &Circuit, check: &C)
where
    C: Fn(Connection) -> F,
    F: Future<Output = RedisResult<()>>,
{
    while shared.live.borrow().is_some() {
        tokio::select! {
            () = shared.failed.notified() => {}
            () = sleep(INTERVAL) => {
                shared.run("MGET", check).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sound_server_s_refusal_leaves_the_breaker_closed() {
        let server = |kind: ServerErrorKind| RedisError::from((kind.into(), "x"));
        for kind in [ServerErrorKind::NoPerm, ServerErrorKind::ResponseError] {
            assert!(is_refusal(&server(kind)), "{kind:?}");
        }
        assert!(is_refusal(&redis::make_extension_error(
            "OOM".to_owned(),
            None
        )));
        for kind in [
            ServerErrorKind::ReadOnly,
            ServerErrorKind::BusyLoading,
            ServerErrorKind::ClusterDown,
        ] {
            assert!(!is_refusal(&server(kind)), "{kind:?}");
        }
        for kind in [
            ErrorKind::Io,
            ErrorKind::Parse,
            ErrorKind::UnexpectedReturnType,
        ] {
            assert!(!is_refusal(&RedisError::from((kind, "x"))), "{kind:?}");
        }
    }
}
