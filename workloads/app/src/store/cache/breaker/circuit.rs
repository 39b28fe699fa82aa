//! The state of the circuit breaker: the connection that is used, and the verdict on each operation.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};
use shortener_common::{
    backends::Health, batcher::NoAnswer, budget::Budget, telemetry::call::Server,
};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::{
    metrics::CacheMetrics,
    store::cache::{
        Known, connection::Connection, keys::Keys, refusal::is_refusal, source::Source,
    },
};

/// A connection that has not failed yet.
#[derive(Clone)]
pub(super) struct LiveConnection {
    pub(super) connection: Connection,
    pub(super) number: u64,
}

/// The state that the breaker shares with its reconnecting task.
pub(super) struct Circuit {
    server: Server,
    /// The time limit of an operation.
    pub(super) deadline: Duration,
    /// `None` while the breaker is open.
    pub(super) live: watch::Sender<Option<LiveConnection>>,
    pub(super) failed: Notify,
    /// Set from the first late answer until a probe has decided.
    doubted: AtomicBool,
    pub(super) doubts: Notify,
    pub(super) health: Health,
    /// The memory of the commands of requests.
    pub(super) budget: Budget,
    metrics: CacheMetrics,
    /// The last reason that was logged for a rejected command. A full cache rejects every write, which is logged
    /// once.
    refusal: Mutex<String>,
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
    #[error("too many lookups wait")]
    Full,
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
    /// Returns the state before the first connection.
    pub(super) fn open_for(source: &Source, budget: Budget, metrics: CacheMetrics) -> Self {
        Self {
            server: source.server(),
            deadline: source.deadline(),
            live: watch::Sender::new(None),
            failed: Notify::new(),
            doubted: AtomicBool::new(false),
            doubts: Notify::new(),
            health: Health::default(),
            budget,
            metrics,
            refusal: Mutex::default(),
        }
    }

    /// Returns true from the first late answer until a probe has decided.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    pub(super) async fn run<T, F>(
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
        let answer = self.server.call(command, answer).await;
        self.judge(live.number, answer)
    }

    /// Looks up a code, together with those that wait at the same time.
    pub(super) async fn look_up(&self, keys: Keys) -> Option<Option<Known>> {
        let (number, lookups) = {
            let live = self.live.borrow();
            let live = live.as_ref()?;
            (live.number, Arc::clone(&live.connection.lookups))
        };
        let answer = async {
            match timeout(self.deadline, lookups.look_up(keys)).await {
                Ok(Ok(answer)) => Ok(answer?),
                Ok(Err(NoAnswer::Full)) => Err(Failure::Full),
                Ok(Err(NoAnswer::Ended)) | Err(_) => Err(Failure::Silent),
            }
        };
        let answer = self.server.call("MGET", answer).await;
        self.judge(number, answer)
    }

    /// Draws the conclusion from the result of an operation on the connection of this number.
    fn judge<T>(&self, number: u64, result: Result<T, Failure>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(Failure::Refused(error)) => self.refused(&error),
            Err(Failure::Silent) => self.doubt(),
            Err(Failure::Full) => self.budget.count_refusal(),
            Err(Failure::Broken(error)) => self.open(number, &error.to_string()),
        }
        None
    }

    /// Requests a probe.
    fn doubt(&self) {
        if !self.doubted.swap(true, Ordering::Relaxed) {
            self.doubts.notify_one();
        }
    }

    /// Opens the breaker if the server answers none of two questions within a deadline each. After a pause of this
    /// process every time limit has passed at once, and that costs one of them.
    pub(super) async fn probe(&self, live: &LiveConnection) {
        let mut connection = live.connection.clone();
        let mut answer = Err(Failure::Silent);
        for _ in 0..2 {
            if let Ok(in_time) = timeout(self.deadline, connection.ping()).await {
                answer = in_time.map_err(Failure::from);
                break;
            }
        }
        match answer {
            Ok(()) | Err(Failure::Refused(_)) => {
                self.metrics.probes_answered.inc();
                self.doubted.store(false, Ordering::Relaxed);
            }
            Err(failure) => {
                self.metrics.probes_failed.inc();
                self.open(live.number, &failure.to_string());
            }
        }
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
            self.metrics.up.set(0);
            // The next connection attempt finds the reason.
            self.health.failed(None);
            self.failed.notify_one();
            unavailable(reason);
        }
    }

    pub(super) fn close(&self, live: LiveConnection) {
        self.doubted.store(false, Ordering::Relaxed);
        self.live.send_replace(Some(live));
        self.metrics.up.set(1);
        self.health.up();
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

pub(super) fn unavailable(reason: &str) {
    tracing::warn!(
        event = "cache_unavailable",
        error.message = reason,
        "cache_unavailable"
    );
}
