//! Temporary copies of links in Redis or Valkey. No operation here returns an error: without the cache there are no
//! copies.
//!
//! `link:<code>` holds exactly the destination as a URI ([`crate::location`]); links never change, so such an entry is
//! never wrong.
//! `{link:<code>}:none` is a negative entry: for 15 s it records that there is no such code, until the code is
//! created. Guarantees:
//! - A destination takes precedence over a negative entry. A create writes the destination and deletes the negative
//!   entry before its response is sent. A negative entry that a slow reader writes after a create is therefore
//!   ignored for as long as the destination is there.
//! - If a create cannot reach the cache, the replica repeats the write, and until then ignores a negative entry of that
//!   code.
//! - An acknowledged link is therefore never reported as missing, with two exceptions that last at most 15 s: the
//!   replica that created it could not reach the cache while other replicas could, or its new entry was evicted or
//!   deleted while a reader was still writing.

pub mod breaker;
mod connection;
mod keys;
mod local_cache;
mod pending_writes;
mod refusal;
pub mod source;

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use jiff::Timestamp;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, Value};
use shortener_common::memory::{Buffer, Memory};
use tokio::time::Instant;

use self::{
    breaker::Breaker,
    connection::Connection,
    keys::{Keys, Lifetime},
    pending_writes::PendingWrites,
    refusal::is_refusal,
    source::Source,
};
use super::{Link, Stored};
use crate::{code::Code, config::CacheArgs, location, metrics::CacheMetrics, target};

/// The time to live of a negative entry.
const DENIAL: Duration = Duration::from_secs(15);
/// The time to wait for the cache before serving without it.
const GRACE: Duration = Duration::from_millis(200);
/// The factor that spreads the ends of entries which were written at the same time.
const JITTER: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// An entry of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The destination of a link that has not expired.
    To(Bytes),
    /// A negative entry: the code did not exist a moment ago.
    Nothing,
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
        // Twice the time, because a slow reader may write a negative entry some time after the link was created.
        let writes = memory.budget(Buffer::CacheWrites);
        let pending = Arc::new(PendingWrites::new(DENIAL * 2, writes));
        let ttl = args.ttl();
        let unwritten = Arc::clone(&pending);
        let check = move |connection| check(connection, Arc::clone(&unwritten), ttl);
        Self {
            breaker: Breaker::start(
                source,
                memory.budget(Buffer::CacheCommands),
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
        let known = match self.breaker.near(|near| near.get(code)) {
            Some(url) => Some(Known::To(url)),
            None => self
                .breaker
                .run("MGET", |connection| ask(connection, code))
                .await
                .flatten(),
        };
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

    /// Caches a result of the database. Expired links are not cached, because that would save nothing.
    pub async fn remember(&self, code: Code<'_>, stored: Option<&Stored>) {
        // This request has already waited for the cache.
        if self.breaker.is_in_doubt() {
            return;
        }
        let keys = Keys::of(code);
        let command = match stored {
            Some(Stored::Live { url, expires_at }) => {
                lifetime(self.ttl, *expires_at).map(|life| life.set(keys.link(), url))
            }
            Some(Stored::Expired) => None,
            None => Some(Lifetime::Seconds(DENIAL.as_secs()).set(keys.none(), "1")),
        };
        if let Some(command) = command {
            let bytes = match stored {
                Some(Stored::Live { url, .. }) => url.len(),
                Some(Stored::Expired) | None => 0,
            };
            self.breaker
                .run_large("SET", bytes, |mut connection| async move {
                    command.exec_async(&mut connection).await
                })
                .await;
        }
    }

    /// Writes a new link through, so that its first redirect is a cache hit.
    pub async fn created(&self, link: &Link, code_was_chosen: bool) {
        let write = || {
            // As a URI, a byte takes up to three.
            let bytes = 3 * link.url.len();
            self.breaker
                .run_large("SET", bytes, |connection| tell(connection, link, self.ttl))
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
}

/// Checks that the cache works, and writes the links that it missed. After it, no negative entry hides a link that
/// this replica created.
async fn check(
    connection: Connection,
    pending: Arc<PendingWrites>,
    ttl: Duration,
) -> RedisResult<()> {
    look_up(connection.clone(), &Keys::of_nothing()).await?;
    for link in pending.links() {
        match tell(connection.clone(), &link, ttl).await {
            // A full cache rejects the destination, but it has deleted the negative entry.
            Err(error) if !is_refusal(&error) => return Err(error),
            _ => pending.written(&link),
        }
    }
    Ok(())
}

async fn tell(mut connection: Connection, link: &Link, ttl: Duration) -> RedisResult<()> {
    let Ok(code) = Code::parse(&link.code) else {
        return Ok(());
    };
    let keys = Keys::of(code);
    let mut pipeline = Pipeline::new();
    if let Some(life) = lifetime(ttl, link.expires_at) {
        pipeline.add_command(life.set(keys.link(), &*location::ascii(&link.url)));
    }
    pipeline.del(keys.none());
    pipeline.exec_async(&mut connection).await
}

fn lifetime(ttl: Duration, expires_at: Option<Timestamp>) -> Option<Lifetime> {
    Lifetime::of_link(
        ttl,
        rand::random_range(JITTER),
        expires_at,
        Timestamp::now(),
    )
}

/// Looks up a code at the server, and keeps its destination in this process if there is room for it.
async fn ask(mut connection: Connection, code: Code<'_>) -> RedisResult<Option<Known>> {
    let keys = Keys::of(code);
    let near = connection.near().cloned();
    let sent = Instant::now();
    let heard = || {
        if let Some(near) = &near {
            near.heard(sent);
        }
    };
    let Some(reservation) = near.as_deref().and_then(|near| near.reserve(code)) else {
        let known = look_up(connection, &keys).await?;
        heard();
        return Ok(known);
    };
    let mut pipeline = Pipeline::new();
    // In this order: if the key expires in between, its remaining time is negative.
    pipeline.add_command(both(&keys)).pttl(keys.link());
    let (values, left) = pipeline.query_async(&mut connection).await?;
    heard();
    let known = understand(values)?;
    if let Some(Known::To(url)) = &known {
        reservation.fill(url.clone(), left);
    }
    Ok(known)
}

async fn look_up(mut connection: Connection, keys: &Keys) -> RedisResult<Option<Known>> {
    understand(both(keys).query_async(&mut connection).await?)
}

fn both(keys: &Keys) -> Cmd {
    let mut command = redis::cmd("MGET");
    command.arg(keys.link()).arg(keys.none());
    command
}

/// Parses the two values of a code. Any client of the cache could have written them, so a value counts as a
/// destination only if it passes the checks of a new link. Otherwise the lookup is a miss. Earlier releases wrote
/// destinations as they were given.
fn understand(reply: Value) -> RedisResult<Option<Known>> {
    let garbage = || (ErrorKind::UnexpectedReturnType, "wrong reply to MGET").into();
    let Value::Array(values) = reply else {
        return Err(garbage());
    };
    match <[Value; 2]>::try_from(values) {
        Ok([Value::BulkString(url), _]) => {
            if target::is_plain(&url) {
                return Ok(Some(Known::To(url.into())));
            }
            let url = str::from_utf8(&url).ok();
            let sound = url.filter(|url| target::is_sound(url));
            Ok(sound.map(|url| Known::To(location::ascii(url).into_owned().into())))
        }
        Ok([Value::Nil, Value::BulkString(_)]) => Ok(Some(Known::Nothing)),
        Ok([Value::Nil, Value::Nil]) => Ok(None),
        _ => Err(garbage()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn understood(values: Vec<Value>) -> Option<Known> {
        understand(Value::Array(values)).unwrap()
    }

    #[test]
    fn a_destination_wins_over_a_denial() {
        let to = Some(Known::To("https://example.com/".into()));
        assert_eq!(
            understood(vec![text("https://example.com/"), Value::Nil]),
            to
        );
        assert_eq!(
            understood(vec![text("https://example.com/"), text("1")]),
            to
        );
        assert_eq!(
            understood(vec![Value::Nil, text("1")]),
            Some(Known::Nothing)
        );
        assert_eq!(understood(vec![Value::Nil, Value::Nil]), None);
    }

    #[test]
    fn what_could_not_have_been_shortened_is_a_miss() {
        for bad in [
            "",
            "garbage",
            "javascript:alert(1)",
            "https://example.com/\r\nSet-Cookie: a=b",
            "https://a:b@example.com/",
            "https://exa<mple.com/",
        ] {
            assert_eq!(understood(vec![text(bad), text("1")]), None, "{bad:?}");
        }
        assert_eq!(
            understood(vec![Value::BulkString(vec![0xff]), Value::Nil]),
            None
        );
    }

    #[test]
    fn what_an_earlier_release_wrote_is_a_uri_after_the_look_up() {
        assert_eq!(
            understood(vec![text("https://bücher.example/ü"), Value::Nil]),
            Some(Known::To("https://xn--bcher-kva.example/%C3%BC".into()))
        );
        // A destination may be 2,048 bytes long as given, and is longer as a URI.
        for host in ["example.com", "192.0.2.7"] {
            let long = format!("https://{host}/{}", "%C3%BC".repeat(1000));
            let known = Some(Known::To(long.clone().into()));
            assert_eq!(understood(vec![text(&long), Value::Nil]), known);
        }
    }

    #[test]
    fn what_no_cache_would_answer_is_an_error() {
        for bad in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            Value::Array(vec![]),
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![Value::Int(1), Value::Nil]),
            Value::Array(vec![Value::Nil, Value::Nil, Value::Nil]),
        ] {
            assert!(understand(bad.clone()).is_err(), "{bad:?}");
        }
    }
}
