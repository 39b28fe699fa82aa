//! A circuit breaker for the cache: a request waits for at most one deadline, and not at all during an outage.
//!
//! A broken connection opens the breaker for all: from then on requests continue without the cache. One task reconnects
//! in the background. The breaker closes again once a new connection has answered a lookup.
//!
//! A late answer is another matter, because it may be this process that was late. The request that waited for it
//! continues without the cache, and one probe decides for all: the breaker opens only if the probe is not answered
//! either. A cache that vanished therefore costs a request at most one deadline, and is given up after three.

mod circuit;

use std::{future::Future, sync::Arc, time::Duration};

use redis::{RedisError, RedisResult};
use shortener_common::{
    backends::{Fault, StoreState, Unusable},
    budget::{Budget, Share},
    tls,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use self::circuit::{Circuit, LiveConnection, unavailable};
use super::{
    Known, connection::Connection, keys::Keys, refusal::fault_of_connecting, source::Source,
};
use crate::metrics::CacheMetrics;

/// The timeout of connecting. Sentinels and the nodes of a cluster need several steps, and no request waits for
/// them.
const CONNECT: Duration = Duration::from_secs(3);
/// The interval of checks on an idle connection, so that a broken one is replaced before the next request needs it.
const INTERVAL: Duration = Duration::from_secs(5);
/// Backoff between connection attempts: the first and the longest pause. Without it, a cache that accepts
/// connections but does not answer requests would cost each request the deadline.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The memory of a command without values, and of its answer, in bytes.
const COMMAND: usize = 1024;

/// The circuit breaker and its connection. Dropping it stops the reconnecting task.
pub struct Breaker {
    shared: Arc<Circuit>,
    _search: JoinSet<()>,
}

impl Breaker {
    /// Starts connecting. `check` runs on a new connection before any request does, and periodically after that.
    /// Commands fit into the budget.
    pub fn start<C, F>(source: Source, budget: Budget, metrics: CacheMetrics, check: C) -> Self
    where
        C: Fn(Connection) -> F + Send + Sync + 'static,
        F: Future<Output = RedisResult<()>> + Send + 'static,
    {
        let shared = Arc::new(Circuit::open_for(&source, budget, metrics));
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

    /// Returns the state of the cache, for the operator.
    #[must_use]
    pub fn store_state(&self) -> StoreState {
        self.shared.health.state()
    }

    /// Returns true while a probe decides about the cache. Commands that are not needed should not wait for it then.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.shared.is_in_doubt()
    }

    /// Waits until requests use the cache, at most for the given time.
    pub async fn wait_until_closed(&self, at_most: Duration) {
        let mut live = self.shared.live.subscribe();
        let _ = timeout(at_most, live.wait_for(Option::is_some)).await;
    }

    /// Looks up a code in a span, together with those that wait at the same time. Returns `None` as [`run`](Self::run)
    /// does.
    pub async fn look_up(&self, keys: Keys) -> Option<Option<Known>> {
        self.shared.look_up(keys).await
    }

    /// Runs one operation in a span with the name of its command. Returns `None` if the cache is down, does not
    /// answer in time or rejects the command, or if too many commands wait for it.
    pub async fn run<T, F>(
        &self,
        command: &'static str,
        operation: impl FnOnce(Connection) -> F,
    ) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.run_large(command, 0, operation).await
    }

    /// Runs one operation like [`run`](Self::run), with a value of this many bytes in its command.
    pub async fn run_large<T, F>(
        &self,
        command: &'static str,
        bytes: usize,
        operation: impl FnOnce(Connection) -> F,
    ) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let share = self.shared.budget.take(COMMAND + bytes)?;
        self.run_in(share, command, operation).await
    }

    /// Takes memory for a command that nothing waits for, with a value of this many bytes. Returns `None` if less than
    /// half of the memory of commands is free, which is counted: what requests wait for comes first.
    #[must_use]
    pub fn spare_room(&self, bytes: usize) -> Option<Share> {
        let budget = &self.shared.budget;
        if budget.used() > budget.limit() / 2 {
            budget.count_refusal();
            return None;
        }
        budget.take(COMMAND + bytes)
    }

    /// Runs one operation like [`run`](Self::run), in memory that was taken before.
    pub async fn run_in<T, F>(
        &self,
        _share: Share,
        command: &'static str,
        operation: impl FnOnce(Connection) -> F,
    ) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.shared.run(command, operation).await
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
            Err(Unusable { reason, fault }) => {
                shared.health.failed(fault);
                if reason != last_reason {
                    unavailable(&reason);
                    last_reason = reason;
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Connects, and checks the connection.
async fn reach<C, F>(source: &mut Source, check: &C) -> Result<Connection, Unusable>
where
    C: Fn(Connection) -> F,
    F: Future<Output = RedisResult<()>>,
{
    let late = |_| Unusable {
        reason: "no answer in time".to_owned(),
        fault: Some(Fault::Unreachable),
    };
    let unusable = |error: RedisError| Unusable {
        reason: tls::explained(&error),
        fault: fault_of_connecting(&error),
    };
    let connection = timeout(CONNECT, source.connect())
        .await
        .map_err(late)?
        .map_err(unusable)?;
    timeout(source.deadline(), check(connection.clone()))
        .await
        .map_err(late)?
        .map_err(unusable)?;
    Ok(connection)
}

/// Checks the connection periodically, and probes it after a late answer. Completes once the breaker is open.
async fn guard<C, F>(shared: &Circuit, check: &C)
where
    C: Fn(Connection) -> F,
    F: Future<Output = RedisResult<()>>,
{
    loop {
        let Some(live) = shared.live.borrow().clone() else {
            return;
        };
        tokio::select! {
            () = shared.failed.notified() => {}
            () = shared.doubts.notified() => shared.probe(&live).await,
            () = sleep(INTERVAL) => {
                shared.run("MGET", check).await;
            }
        }
    }
}
