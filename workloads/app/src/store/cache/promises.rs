//! What keeps a takedown down and a create visible: the entries of a code, and every command that writes them.
//!
//! `link:<code>` holds exactly the destination as a URI ([`crate::location`]).
//! `{link:<code>}:template` holds the template of a link with arguments, as given, instead.
//! `{link:<code>}:none` is a negative entry: for 15 s it records that there is no such code, until the code is
//! created. For a link that was taken down it holds a mark instead, and for an expired one, for a minute, that it is gone:
//! expiry is final.
//! `{link:<code>}:hold` is there for a while after the link was taken down or changed. Guarantees:
//! - A destination takes precedence over a negative entry. A create writes the destination and deletes the negative
//!   entry before its response is sent. A negative entry that a slow reader writes after a create is therefore
//!   ignored for as long as the destination is there.
//! - A repeated or reused create ends the negative entry too, because the first one may have ended before it wrote.
//! - If a create cannot reach the cache, the replica repeats the write, and until then ignores a negative entry of that
//!   code ([`PendingWrites`]).
//! - An acknowledged link is therefore never reported as missing, with two exceptions that last at most 15 s: the
//!   replica that created it could not reach the cache while other replicas could, or its new entry was evicted or
//!   deleted while a reader was still writing.
//! - No destination stands beside a mark. A takedown removes the destination and writes the mark before its response is
//!   sent. As long as the mark or the hold is there, no reader writes a destination that it read before.
//! - A takedown that the cache did not confirm is repeated by the replicas until it is
//!   ([`PurgeSweeper`](crate::store::purge_sweeper)).
//!
//! Each change is one script. A lookup reads the destination first, and the other key only if there is none. What changes
//! in between changes while the lookup runs, so either state is a right answer to it: a create has deleted the negative
//! entry, and a takedown has written the mark.

use std::{collections::VecDeque, sync::LazyLock, time::Duration};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use redis::{ErrorKind, RedisError, RedisResult, Script, Value};
use shortener_common::time_limits::{CACHE_DENIAL, CACHE_HOLD, CACHE_RETENTION};
use tokio::time::Instant;

use super::{
    channel::Channel,
    keys::{CacheKeys, Lifetime},
};
use crate::{
    code::Code,
    store::{Link, MAX_TEXT, Resolved, Stored, Takedown},
    target, template,
};

/// The value of a negative entry.
const DENIED: &str = "1";
/// The value for an expired link, and its time to live.
const EXPIRED: &str = "gone";
const EXPIRED_TTL: Duration = Duration::from_secs(60);
/// The values of a mark, which are those of the response.
const DISABLED: &str = "410";
const LEGAL: &str = "451";
/// The maximum length of a notice in a mark, in bytes.
const MAX_NOTICE: usize = 4 * MAX_TEXT;
/// The factor that spreads the ends of entries which were written at the same time.
const JITTER: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// The maximum memory of links that the cache has missed, in bytes: a thousand with the longest URLs.
const ROOM: usize = 2 * 1024 * 1024;

static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("write.lua")));
static PURGE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("purge.lua")));

/// Parses the value under the key of a destination. Any client of the cache could have written it, so it counts only if
/// it has the form of one. Otherwise the lookup is a miss.
pub(super) fn destination(value: Value) -> RedisResult<Option<Resolved>> {
    match value {
        Value::BulkString(url) => Ok(target::is_uri(&url).then(|| Resolved::To(url.into()))),
        _ => Err(garbage()),
    }
}

/// Parses the values under the other keys of a code that has no destination: its template, and its negative entry or mark.
pub(super) fn without_destination(template: Value, value: &Value) -> RedisResult<Option<Resolved>> {
    match template {
        Value::Nil => {}
        Value::BulkString(text) => {
            let text = String::from_utf8(text).ok();
            let sound =
                |text: &String| target::parse(text).is_ok() && template::check(text).is_ok();
            return Ok(text.filter(sound).map(Resolved::Template));
        }
        _ => return Err(garbage()),
    }
    let entry = match value {
        Value::Nil => return Ok(None),
        Value::BulkString(entry) => entry,
        _ => return Err(garbage()),
    };
    Ok(Some(match takedown_in(entry) {
        Some(takedown) => Resolved::Down(takedown),
        None if entry == EXPIRED.as_bytes() => Resolved::Gone,
        None => Resolved::Nothing,
    }))
}

/// Returns the error of a reply that no cache would give.
pub(super) fn garbage() -> RedisError {
    (ErrorKind::UnexpectedReturnType, "wrong reply to MGET").into()
}

/// Returns the mark of a link that is down.
fn mark_of(takedown: &Takedown) -> String {
    match takedown {
        Takedown::Disabled => DISABLED.to_owned(),
        Takedown::Legal { notice: None } => LEGAL.to_owned(),
        Takedown::Legal {
            notice: Some(notice),
        } => format!("{LEGAL}\n{notice}"),
    }
}

/// Returns the takedown that a mark stands for, or `None` for another entry.
fn takedown_in(value: &[u8]) -> Option<Takedown> {
    if value.starts_with(DISABLED.as_bytes()) {
        return Some(Takedown::Disabled);
    }
    let rest = value.strip_prefix(LEGAL.as_bytes())?;
    let notice = rest.strip_prefix(b"\n").and_then(|text| {
        let text = str::from_utf8(text).ok()?;
        (text.len() <= MAX_NOTICE).then(|| text.to_owned())
    });
    Some(Takedown::Legal { notice })
}

/// The numbers of the keys in the scripts: those of the destination, of an entry without one, and of the template.
const URL: u8 = 1;
const NONE: u8 = 2;
const TEMPLATE: u8 = 4;

/// The entry of a code that is written.
pub(super) struct Entry {
    /// The number of the key in the script.
    key: u8,
    value: String,
    lifetime: Lifetime,
}

impl Entry {
    /// Returns the entry for a result of the database; `None` for a link that ends too soon.
    pub(super) fn of(stored: Option<Stored>, ttl: Duration) -> Option<Self> {
        let (key, value, lifetime) = match stored {
            Some(Stored::Live { url, expires_at }) => (URL, url, lifetime(ttl, expires_at)?),
            Some(Stored::Template { text, expires_at }) => {
                (TEMPLATE, text, lifetime(ttl, expires_at)?)
            }
            Some(Stored::Down(takedown)) => (NONE, mark_of(&takedown), lifetime(ttl, None)?),
            Some(Stored::Expired) => (NONE, EXPIRED.to_owned(), EXPIRED_TTL.into()),
            None => (NONE, DENIED.to_owned(), CACHE_DENIAL.into()),
        };
        Some(Self {
            key,
            value,
            lifetime,
        })
    }
}

fn lifetime(ttl: Duration, expires_at: Option<Timestamp>) -> Option<Lifetime> {
    Lifetime::of_link(
        ttl,
        rand::random_range(JITTER),
        expires_at,
        Timestamp::now(),
    )
}

/// Writes what was read from the database, unless the link was changed a moment ago or is taken down.
pub(super) async fn fill(channel: Channel, keys: &CacheKeys, entry: &Entry) -> RedisResult<()> {
    write(channel, keys, false, Some(entry)).await
}

async fn write(
    mut channel: Channel,
    keys: &CacheKeys,
    is_known: bool,
    entry: Option<&Entry>,
) -> RedisResult<()> {
    let mut call = WRITE.key(keys.link());
    call.key(keys.none())
        .key(keys.hold())
        .key(keys.template())
        .arg(u8::from(is_known));
    if let Some(entry) = entry {
        let Lifetime { left, end } = entry.lifetime;
        call.arg(entry.key).arg(&entry.value).arg(left).arg(end);
    }
    call.invoke_async::<()>(&mut channel).await
}

/// Removes the destination after a change of a link, and marks the link if it is down. The mark has to outlive every
/// destination that was written before.
pub(super) async fn purge(
    mut channel: Channel,
    keys: &CacheKeys,
    takedown: Option<&Takedown>,
    ttl: Duration,
) -> RedisResult<()> {
    let mark = takedown.map(mark_of).unwrap_or_default();
    let longest = ttl.mul_f64(*JITTER.end());
    let mut call = PURGE.key(keys.link());
    call.key(keys.none()).key(keys.hold()).key(keys.template());
    call.arg(mark).arg((longest + CACHE_HOLD).as_secs());
    call.arg(CACHE_HOLD.as_secs());
    call.invoke_async::<()>(&mut channel).await
}

/// A link whose creator gets a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) link: Link,
    /// False if an earlier request created the link. It may have been changed since, so its destination is not written.
    is_new: bool,
}

impl Acknowledged {
    pub(super) fn created(link: Link) -> Self {
        let is_new = true;
        Self { link, is_new }
    }

    pub(super) fn found(link: Link) -> Self {
        let is_new = false;
        Self { link, is_new }
    }
}

/// The recently acknowledged links that may still have a negative entry in the cache, because it missed them. Without
/// room, the oldest are dropped.
#[derive(Debug)]
pub(super) struct PendingWrites {
    /// The time to live of an entry.
    ttl: Duration,
    links: Mutex<VecDeque<(Instant, Acknowledged)>>,
}

impl PendingWrites {
    pub(super) fn new(ttl: Duration) -> Self {
        let links = Mutex::default();
        Self { ttl, links }
    }

    /// Writes a new link, unless it ends too soon, and ends the negative entry of any.
    pub(super) async fn write(
        &self,
        channel: Channel,
        Acknowledged { link, is_new }: &Acknowledged,
    ) -> RedisResult<()> {
        let Ok(code) = Code::parse(&link.code) else {
            return Ok(());
        };
        let stored = is_new.then(|| Stored::live(&link.url, link.template, link.expires_at));
        let entry = stored.and_then(|stored| Entry::of(Some(stored), self.ttl));
        write(channel, &CacheKeys::of(code), true, entry.as_ref()).await
    }

    /// Adds a link that the cache has missed.
    pub(super) fn push(&self, missed: Acknowledged) {
        let mut links = self.recent();
        links.push_back((Instant::now(), missed));
        let bytes = |item: &(_, Acknowledged)| {
            size_of_val(item) + item.1.link.code.len() + item.1.link.url.len()
        };
        while links.iter().map(bytes).sum::<usize>() > ROOM {
            links.pop_front();
        }
    }

    /// Returns the oldest link of the period.
    pub(super) fn oldest(&self) -> Option<Acknowledged> {
        self.recent().front().map(|(_, missed)| missed.clone())
    }

    /// Returns true if the link of this code is on the list.
    pub(super) fn holds(&self, code: &str) -> bool {
        self.recent()
            .iter()
            .any(|(_, missed)| missed.link.code == code)
    }

    /// Removes the link of this code, because the cache has it, or because it was changed.
    pub(super) fn forget(&self, code: &str) {
        self.recent().retain(|(_, missed)| missed.link.code != code);
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Instant, Acknowledged)>> {
        let mut links = self.links.lock();
        while links
            .front()
            .is_some_and(|(since, _)| since.elapsed() > CACHE_RETENTION)
        {
            links.pop_front();
        }
        links
    }
}

#[cfg(test)]
mod tests;
