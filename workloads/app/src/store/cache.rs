//! Temporary copies of links in Redis or Valkey. No operation here returns an error: without the cache there are no
//! copies.
//!
//! [`promises`] says what the entries are, and what they guarantee.

mod breaker;
mod channel;
pub mod connection;
mod keys;
mod lookup;
mod promises;
mod refusal;
pub mod source;

use std::{io, sync::Arc, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use shortener_common::{
    batcher::Batcher, supervised::supervised, telemetry::span::with_current_span,
    time_limits::CACHE_FRESH,
};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use self::{
    connection::{Connection, in_time},
    keys::CacheKeys,
    lookup::{Codes, LIMITS},
    promises::{Acknowledged, Entry, fill, purge},
    source::Source,
};
use super::{Link, Resolved, Stored, Takedown};
use crate::{
    code::{Code, OwnedCode},
    config::CacheArgs,
    metrics::CacheMetrics,
};

/// The number of times that a change is tried at a cache that is up.
const TRIES: usize = 3;
/// The number of results of the database that are on their way to the cache, one for each code that the database looks
/// up at a time. Each is a command, so the others keep some room.
const FILLS: usize = 160;

/// The cache of one stack.
pub struct Cache {
    connection: Arc<Connection>,
    lookups: Arc<Batcher<Codes>>,
    fills: Arc<Semaphore>,
    ttl: Duration,
    metrics: CacheMetrics,
    /// Ends with the cache.
    _keeper: JoinSet<()>,
}

impl Cache {
    /// Starts connecting to the cache.
    pub fn start(source: Source, args: &CacheArgs, metrics: CacheMetrics) -> Self {
        let ttl = args.ttl();
        let connection = Arc::new(Connection::to(&source, ttl, metrics.clone()));
        let mut keeper = JoinSet::new();
        let keep = Arc::clone(&connection).keep(source);
        keeper.spawn(supervised("cache", keep));
        // How many wait is no metric of the cache.
        let lookups = Batcher::new(Codes(Arc::clone(&connection)), LIMITS, Gauge::default());
        Self {
            connection,
            lookups: Arc::new(lookups),
            fills: Arc::new(Semaphore::new(FILLS)),
            ttl,
            metrics,
            _keeper: keeper,
        }
    }

    /// Returns the connection, for data other than links.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Looks up a code, and counts the hit or miss.
    pub async fn look_up(&self, code: Code<'_>) -> Option<Resolved> {
        let answer = async {
            let answer = self.lookups.look_up(CacheKeys::of(code)).await;
            answer.unwrap_or_else(|none| Err(io::Error::other(none).into()))
        };
        let answer = in_time(self.connection.limit, answer);
        let known = self.connection.spanned("MGET", answer).await.flatten();
        // A write that the cache did not confirm in time may not have deleted the negative entry.
        let known = match known {
            Some(Resolved::Nothing) if self.connection.missed.holds(code.as_str()) => None,
            known => known,
        };
        match known {
            Some(_) => self.metrics.hits.inc(),
            None => self.metrics.misses.inc(),
        };
        known
    }

    /// Caches a result of the database that was asked for at this time, in a task of its own: a request does not wait for
    /// it. Nothing is written while the cache is down or did not answer, or while many results are written. Returns the
    /// task, if there is one.
    pub fn remember(
        self: &Arc<Self>,
        code: OwnedCode,
        stored: Option<Stored>,
        asked: Instant,
    ) -> Option<JoinHandle<()>> {
        if !self.connection.is_up() || self.connection.is_suspicious() {
            return None;
        }
        let entry = Entry::of(stored, self.ttl)?;
        let place = Arc::clone(&self.fills).try_acquire_owned().ok()?;
        let cache = Arc::clone(self);
        let write = async move {
            let _place = place;
            if asked.elapsed() > CACHE_FRESH {
                return;
            }
            let keys = CacheKeys::of(code.borrow());
            let write = |channel| fill(channel, &keys, &entry);
            cache.connection.run("EVALSHA", write).await;
        };
        Some(tokio::spawn(with_current_span(write)))
    }

    /// Writes a new link through, so that its first redirect is a cache hit.
    pub async fn created(&self, link: &Link, code_was_chosen: bool) {
        let created = Acknowledged::created(link.clone());
        self.acknowledge(created, code_was_chosen).await;
    }

    /// Ends the negative entry of a link with a chosen code that an earlier request created, whose response may be lost.
    pub async fn found(&self, link: &Link) {
        self.acknowledge(Acknowledged::found(link.clone()), true)
            .await;
    }

    async fn acknowledge(&self, link: Acknowledged, code_was_chosen: bool) {
        let write = |channel| self.connection.missed.write(channel, &link);
        // There can be no negative entry for a random code, because no request used it before it existed.
        if self.connection.run("EVALSHA", write).await.is_none() && code_was_chosen {
            self.connection.missed.push(link);
            // The cache may have come back before the link was on the list.
            self.connection.checks.notify_one();
        }
    }

    /// Removes a link that was changed, and marks it if it is down. Returns true if the cache confirmed it: then no
    /// replica finds an earlier state of the link in the cache.
    pub async fn purge(&self, code: Code<'_>, takedown: Option<&Takedown>) -> bool {
        self.connection.missed.forget(code.as_str());
        let keys = CacheKeys::of(code);
        for _ in 0..TRIES {
            let write = |channel| purge(channel, &keys, takedown, self.ttl);
            if self.connection.run("EVALSHA", write).await.is_some() {
                return true;
            }
        }
        false
    }
}
