//! Temporary copies of links in Redis or Valkey. No operation here returns an error: without the cache there are no
//! copies.
//!
//! `link:<code>` holds exactly the destination as a URI ([`crate::location`]).
//! `{link:<code>}:none` is a negative entry: for 15 s it records that there is no such code, until the code is
//! created. For a link that was taken down it holds a mark instead.
//! `{link:<code>}:hold` is there for a while after the link was taken down or changed. Guarantees:
//! - A destination takes precedence over a negative entry. A create writes the destination and deletes the negative
//!   entry before its response is sent. A negative entry that a slow reader writes after a create is therefore
//!   ignored for as long as the destination is there.
//! - If a create cannot reach the cache, the replica repeats the write, and until then ignores a negative entry of that
//!   code.
//! - An acknowledged link is therefore never reported as missing, with two exceptions that last at most 15 s: the
//!   replica that created it could not reach the cache while other replicas could, or its new entry was evicted or
//!   deleted while a reader was still writing.
//! - A mark takes precedence over a destination. A takedown removes the destination and writes the mark before its
//!   response is sent. As long as the mark or the hold is there, no reader writes a destination that it read before.

mod answer;
pub mod breaker;
mod changes;
mod channel;
mod connection;
mod keys;
mod lookup;
mod mark;
mod pending_writes;
mod refusal;
pub mod source;

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use jiff::Timestamp;
use redis::RedisResult;
use shortener_common::{memory::Memory, telemetry::span::with_current_span};
use tokio::{task::JoinHandle, time::Instant};

use self::{
    breaker::Breaker,
    changes::{Entry, Place},
    connection::Connection,
    keys::{Keys, Lifetime},
    mark::mark_of,
    pending_writes::PendingWrites,
    refusal::is_refusal,
    source::Source,
};
use super::{Link, Stored, Takedown};
use crate::{
    code::{Code, OwnedCode},
    config::CacheArgs,
    location,
    metrics::CacheMetrics,
};

/// The time to live of a negative entry.
const DENIAL: Duration = Duration::from_secs(15);
/// The value of a negative entry.
const DENIED: &str = "1";
/// The time to wait for the cache before serving without it.
const GRACE: Duration = Duration::from_millis(200);
/// The factor that spreads the ends of entries which were written at the same time.
const JITTER: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// The age after which a result of the database is not cached. One that waited for long could outlast the hold of a
/// change.
const FRESH: Duration = Duration::from_secs(1);
/// The number of times that a change is tried at a cache that is up.
const TRIES: usize = 3;

/// An entry of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The destination of a link that has not expired.
    To(Bytes),
    /// A negative entry: the code did not exist a moment ago.
    Nothing,
    /// A mark: the link was taken down.
    Down(Takedown),
}

/// The cache of one stack.
pub struct Cache {
    breaker: Breaker,
    ttl: Duration,
    pending: Arc<PendingWrites>,
    metrics: CacheMetrics,
}

impl Cache {
    /// Starts connecting to the cache. Commands, and links that the cache has missed, fit into this memory.
    #[must_use]
    pub fn start(source: Source, args: &CacheArgs, memory: &Memory, metrics: CacheMetrics) -> Self {
        let writes = memory.cache_writes.clone();
        let pending = Arc::new(PendingWrites::new(pending_writes::RETENTION, writes));
        let ttl = args.ttl();
        let unwritten = Arc::clone(&pending);
        let check = move |connection| check(connection, Arc::clone(&unwritten), ttl);
        Self {
            breaker: Breaker::start(
                source,
                memory.cache_commands.clone(),
                metrics.clone(),
                check,
            ),
            ttl,
            pending,
            metrics,
        }
    }

    /// Returns the circuit breaker, for data other than links.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Waits for the first connection, for a short time at most.
    pub async fn wait_until_up(&self) {
        self.breaker.wait_until_closed(GRACE).await;
    }

    /// Looks up a code, and counts the hit or miss.
    pub async fn look_up(&self, code: Code<'_>) -> Option<Known> {
        let known = self.breaker.look_up(Keys::of(code)).await.flatten();
        // A write that the cache did not confirm in time may not have deleted the negative entry.
        let known = match known {
            Some(Known::Nothing) if self.pending.holds(code) => None,
            known => known,
        };
        match known {
            Some(_) => self.metrics.hits.inc(),
            None => self.metrics.misses.inc(),
        };
        known
    }

    /// Caches a result of the database that was asked for at this time, in a task of its own: a request does not wait for
    /// it. Nothing is written during an outage, or while commands take more than half of their memory. Expired links are
    /// not cached, because that would save nothing. Returns the task, if there is one.
    pub fn remember(
        self: &Arc<Self>,
        code: OwnedCode,
        stored: Option<Stored>,
        asked: Instant,
    ) -> Option<JoinHandle<()>> {
        if !self.breaker.is_closed() || self.breaker.is_in_doubt() {
            return None;
        }
        let (place, value, lifetime) = match stored {
            Some(Stored::Live { url, expires_at }) => {
                (Place::Destination, url, lifetime(self.ttl, expires_at)?)
            }
            Some(Stored::Down(takedown)) => {
                (Place::Mark, mark_of(&takedown), lifetime(self.ttl, None)?)
            }
            Some(Stored::Expired) => return None,
            None => {
                let lifetime = Lifetime::Seconds(DENIAL.as_secs());
                (Place::Mark, DENIED.to_owned(), lifetime)
            }
        };
        let share = self.breaker.spare_room(value.len())?;
        let cache = Arc::clone(self);
        let fill = async move {
            if asked.elapsed() > FRESH {
                return;
            }
            let keys = Keys::of(code.borrow());
            let entry = Entry {
                place,
                value: &value,
                lifetime,
            };
            let write = |connection| changes::fill(connection, &keys, entry);
            cache.breaker.run_in(share, "EVALSHA", write).await;
        };
        Some(tokio::spawn(with_current_span(fill)))
    }

    /// Writes a new link through, so that its first redirect is a cache hit.
    pub async fn created(&self, link: &Link, code_was_chosen: bool) {
        let write = || {
            // As a URI, a byte takes up to three.
            let bytes = 3 * link.url.len();
            self.breaker.run_large("EVALSHA", bytes, |connection| {
                tell(connection, link, self.ttl)
            })
        };
        if write().await.is_some() || !code_was_chosen {
            // There can be no negative entry for a random code, because no request used it before it existed.
            return;
        }
        self.pending.push(link.clone());
        // The cache may have come back before the link was on the list.
        if self.breaker.is_closed() && write().await.is_some() {
            self.pending.written(link);
        }
    }

    /// Removes a link that was changed, and marks it if it is down. Returns true if the cache confirmed it: then no
    /// replica finds an earlier state of the link in the cache.
    pub async fn purge(&self, code: Code<'_>, takedown: Option<&Takedown>) -> bool {
        self.pending.forget(code);
        let keys = Keys::of(code);
        let longest = self.ttl.mul_f64(*JITTER.end());
        let bytes = takedown.map_or(0, |takedown| mark_of(takedown).len());
        for _ in 0..TRIES {
            let purged = self.breaker.run_large("EVALSHA", bytes, |connection| {
                changes::purge(connection, &keys, takedown, longest)
            });
            if purged.await.is_some() {
                return true;
            }
        }
        false
    }
}

/// Checks that the cache works, and writes the links that it missed. After it, no negative entry hides a link that
/// this replica created.
async fn check(
    mut connection: Connection,
    pending: Arc<PendingWrites>,
    ttl: Duration,
) -> RedisResult<()> {
    lookup::look_up(&mut connection, &Keys::of_nothing()).await?;
    for link in pending.links() {
        match tell(connection.clone(), &link, ttl).await {
            // A full cache rejects the destination, but it has deleted the negative entry.
            Err(error) if !is_refusal(&error) => return Err(error),
            _ => pending.written(&link),
        }
    }
    Ok(())
}

async fn tell(connection: Connection, link: &Link, ttl: Duration) -> RedisResult<()> {
    let Ok(code) = Code::parse(&link.code) else {
        return Ok(());
    };
    let url = location::ascii(&link.url);
    let entry = lifetime(ttl, link.expires_at).map(|lifetime| Entry {
        place: Place::Destination,
        value: &url,
        lifetime,
    });
    changes::create(connection, &Keys::of(code), entry).await
}

fn lifetime(ttl: Duration, expires_at: Option<Timestamp>) -> Option<Lifetime> {
    Lifetime::of_link(
        ttl,
        rand::random_range(JITTER),
        expires_at,
        Timestamp::now(),
    )
}
