//! The connection to the cache that all requests share, with one time limit for each command.
//!
//! The client library replaces a connection that broke. One task checks that the cache answers: every few seconds, and
//! at once after a command that failed. After several failures in a row the [`Breaker`] is open, and requests continue
//! without the cache. The task then connects anew, which asks Sentinels for the master again, and the breaker closes
//! once the cache has answered a lookup and has the links that it missed.

use std::{future::Future, io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};
use shortener_common::{backends::Health, telemetry::call::Server, tls};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep, timeout},
};

use super::{
    breaker::Breaker,
    channel::Channel,
    keys::CacheKeys,
    lookup::look_up,
    promises::PendingWrites,
    refusal::{Meaning, fault_of_connecting},
    source::Source,
};
use crate::metrics::CacheMetrics;

/// The time limit of connecting. Sentinels and the nodes of a cluster need several steps, and no request waits for
/// them.
const CONNECT: Duration = Duration::from_secs(3);
/// The time to wait for the cache before serving without it.
const GRACE: Duration = Duration::from_millis(200);
/// The interval of checks while requests use the cache.
const INTERVAL: Duration = Duration::from_secs(5);
/// The pause before the cache is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// The number of commands in flight beside lookups. Each takes 8 KiB at most, because a URL takes 6: 2 MiB together.
const COMMANDS: usize = 256;

/// The connection of one process.
pub struct Connection {
    server: Server,
    /// The time limit of a command.
    pub(super) limit: Duration,
    state: watch::Sender<Breaker<Channel>>,
    /// Asks the task for a check at once, which also writes what the cache has missed.
    pub(super) checks: Notify,
    commands: Semaphore,
    pub(super) missed: PendingWrites,
    /// The state of the cache, for the operator.
    pub health: Health,
    metrics: CacheMetrics,
    /// The last warning: a full cache rejects every write, and one that is down every connection, which is logged once.
    warned: Mutex<String>,
}

impl Connection {
    /// Returns the state before the first connection.
    pub(super) fn to(source: &Source, ttl: Duration, metrics: CacheMetrics) -> Self {
        Self {
            server: source.server.clone(),
            limit: source.deadline,
            state: watch::Sender::new(Breaker::open()),
            checks: Notify::new(),
            commands: Semaphore::new(COMMANDS),
            missed: PendingWrites::new(ttl),
            health: Health::default(),
            metrics,
            warned: Mutex::default(),
        }
    }

    /// Returns true if requests use the cache.
    pub fn is_up(&self) -> bool {
        self.state.borrow().connection().is_some()
    }

    /// Returns true if the last command has failed. Commands that are not needed should wait for the check then.
    pub(super) fn is_suspicious(&self) -> bool {
        self.state.borrow().is_suspicious()
    }

    /// Waits for the first connection, for a short time at most.
    pub async fn wait_until_up(&self) {
        let mut state = self.state.subscribe();
        let up = state.wait_for(|breaker| breaker.connection().is_some());
        let _ = timeout(GRACE, up).await;
    }

    /// Runs one command of a request in a span with its name. Returns `None` if the cache is down, does not answer in
    /// time or rejects the command, or if too many commands wait for it.
    pub async fn run<T>(
        &self,
        command: &'static str,
        operation: impl AsyncFnOnce(Channel) -> RedisResult<T>,
    ) -> Option<T> {
        let _place = self.commands.try_acquire().ok()?;
        self.spanned(command, self.ask(operation)).await
    }

    /// Waits for an answer in a span, unless the cache is down.
    pub(super) async fn spanned<T>(
        &self,
        command: &'static str,
        answer: impl Future<Output = RedisResult<T>>,
    ) -> Option<T> {
        match self.is_up() {
            true => self.server.call(command, answer).await.ok(),
            false => None,
        }
    }

    /// Runs one command, and draws the conclusion from its result.
    pub(super) async fn ask<T>(
        &self,
        operation: impl AsyncFnOnce(Channel) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let channel = self.state.borrow().connection().cloned();
        let channel = channel.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let began = Instant::now();
        let answer = in_time(self.limit, operation(channel)).await;
        match answer.as_ref().map_err(|error| (Meaning::of(error), error)) {
            Ok(_) => self.answered(),
            Err((Meaning::Refusal, error)) => {
                self.answered();
                self.warn("cache_refused", error.to_string());
            }
            Err((meaning, error)) => self.failed(began, error, meaning == Meaning::Unready),
        }
        answer
    }

    fn answered(&self) {
        if self.is_suspicious() {
            self.state.send_modify(Breaker::answered);
        }
    }

    fn failed(&self, began: Instant, error: &RedisError, is_conclusive: bool) {
        let fails = |breaker: &mut Breaker<_>| breaker.failed(began, Instant::now(), is_conclusive);
        if self.state.send_if_modified(fails) {
            self.metrics.up.set(0);
            // The next connection attempt finds the reason.
            self.health.failed(None);
            self.warn("cache_unavailable", error.to_string());
        }
        self.checks.notify_one();
    }

    fn warn(&self, event: &'static str, reason: String) {
        let mut last = self.warned.lock();
        if *last != reason {
            tracing::warn!(event, error.message = reason, "{event}");
            *last = reason;
        }
    }

    /// Keeps the cache connected without end.
    pub(super) async fn keep(self: Arc<Self>, mut source: Source) {
        loop {
            match self.reach(&mut source).await {
                Ok(channel) => {
                    let close = |breaker: &mut Breaker<_>| breaker.close(channel, Instant::now());
                    self.state.send_modify(close);
                    self.metrics.up.set(1);
                    self.health.up();
                    self.warned.lock().clear();
                    tracing::info!(event = "cache_up", "cache_up");
                    self.guard().await;
                }
                Err(error) => {
                    self.health.failed(fault_of_connecting(&error));
                    self.warn("cache_unavailable", tls::explained(&error));
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Connects, and checks the connection.
    async fn reach(&self, source: &mut Source) -> RedisResult<Channel> {
        let channel = in_time(CONNECT, source.connect()).await?;
        self.check(&channel).await?;
        Ok(channel)
    }

    /// Checks the connection until the breaker is open.
    async fn guard(&self) {
        loop {
            let _ = timeout(INTERVAL, self.checks.notified()).await;
            let Some(channel) = self.state.borrow().connection().cloned() else {
                return;
            };
            let (was_suspicious, began) = (self.is_suspicious(), Instant::now());
            let checked = self.check(&channel).await;
            if was_suspicious {
                let probes = match &checked {
                    Ok(()) => &self.metrics.probes_answered,
                    Err(_) => &self.metrics.probes_failed,
                };
                probes.inc();
            }
            match checked {
                Ok(()) => self.answered(),
                // A cache that rejects even a lookup is of no use.
                Err(error) => self.failed(began, &error, Meaning::of(&error) != Meaning::Failure),
            }
        }
    }

    /// Checks that the cache works, and writes the links that it missed. After it, no negative entry hides a link that
    /// this replica acknowledged.
    async fn check(&self, channel: &Channel) -> RedisResult<()> {
        in_time(self.limit, look_up(channel, &[CacheKeys::default()])).await?;
        while let Some(missed) = self.missed.oldest() {
            match in_time(self.limit, self.missed.write(channel.clone(), &missed)).await {
                // A full cache rejects the destination, but it has deleted the negative entry.
                Err(error) if Meaning::of(&error) != Meaning::Refusal => return Err(error),
                _ => self.missed.forget(&missed.link.code),
            }
        }
        Ok(())
    }
}

/// Waits for an answer until the time limit.
pub(super) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    timeout(limit, answer).await.map_err(late)?
}
