//! Destinations in the memory of the process, which their server keeps true: it tells of every link that changes (client
//! tracking in broadcasting mode, <https://valkey.io/topics/client-side-caching/>).
//!
//! What holds:
//! - A place is taken before the server is asked, and whatever the server tells meanwhile takes the place away, so an
//!   answer that is older than a change is not kept.
//! - An entry ends with its key's remaining time, though the server may tell of that late.
//! - Everything goes with the connection: nobody would tell of changes any more. A connection that dies without a sign is
//!   found by the breaker, which tries it every few seconds.
//! - Only destinations are kept, and no denials. Links never change, so even an entry of which the server told too late
//!   is never wrong.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use axum::body::Bytes;
use quick_cache::{
    DefaultHashBuilder, Weighter,
    sync::{Cache, DefaultLifecycle, GuardResult, PlaceholderGuard},
};
use redis::{PushInfo, PushKind, Value};
use tokio::time::Instant;

use super::keys;
use crate::code::Code;

/// What an entry takes beside its code and its destination, about.
const OVERHEAD: usize = 128;
/// What an entry takes as a rule, for the first size of the table.
const TYPICAL: u64 = 256;

/// The copies of one connection.
pub struct Near {
    entries: Cache<String, Entry, Bytewise>,
    /// The connection has ended.
    lost: AtomicBool,
}

#[derive(Clone)]
struct Entry {
    url: Bytes,
    ends: Instant,
}

#[derive(Clone)]
struct Bytewise;

impl Weighter<String, Entry> for Bytewise {
    fn weight(&self, code: &String, entry: &Entry) -> u64 {
        (code.len() + entry.url.len() + OVERHEAD) as u64
    }
}

/// Where the destination of a code will be, unless the server tells of a change before it is known.
pub struct Place<'a>(
    PlaceholderGuard<
        'a,
        String,
        Entry,
        Bytewise,
        DefaultHashBuilder,
        DefaultLifecycle<String, Entry>,
    >,
);

impl Near {
    /// Room for so many bytes; what is followed least goes when they are used up.
    #[must_use]
    pub fn new(bytes: NonZeroU64) -> Self {
        let typical = usize::try_from(bytes.get() / TYPICAL).unwrap_or(usize::MAX);
        Self {
            entries: Cache::with_weighter(typical, bytes.get(), Bytewise),
            lost: AtomicBool::new(false),
        }
    }

    /// The destination of a code, if it is here.
    pub fn get(&self, code: Code<'_>) -> Option<Bytes> {
        let entry = self.entries.get(code.as_str())?;
        let holds = !self.lost.load(Ordering::Relaxed) && Instant::now() < entry.ends;
        holds.then_some(entry.url)
    }

    /// Takes the place of a code, unless somebody else has it.
    pub fn place(&self, code: Code<'_>) -> Option<Place<'_>> {
        let code = code.as_str();
        let now = Instant::now();
        self.entries.remove_if(code, |entry| entry.ends <= now);
        match self.entries.get_value_or_guard(code, Some(Duration::ZERO)) {
            GuardResult::Guard(guard) => Some(Place(guard)),
            GuardResult::Value(_) | GuardResult::Timeout => None,
        }
    }

    /// Takes in what the server says unasked.
    pub fn hear(&self, push: &PushInfo) {
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Invalidate, [Value::Array(keys)]) => {
                for key in keys {
                    if let Value::BulkString(key) = key
                        && let Some(code) = keys::code_in(key)
                    {
                        self.entries.remove(code);
                    }
                }
            }
            // No list of keys means all of them.
            (PushKind::Invalidate, _) => self.entries.clear(),
            (PushKind::Disconnection, _) => {
                self.lost.store(true, Ordering::Relaxed);
                self.entries.clear();
            }
            _ => {}
        }
    }
}

impl Place<'_> {
    /// Keeps a destination for the remaining time of its key, in milliseconds as `PTTL` tells it. A key that is gone
    /// (-2), or that somebody else made and that never ends (-1), is not kept.
    pub fn fill(self, url: Bytes, left: i64) {
        let Ok(left @ 1..) = u64::try_from(left) else {
            return;
        };
        let ends = Instant::now() + Duration::from_millis(left);
        // It is refused when the server has told of a change since.
        let _ = self.0.insert(Entry { url, ends });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://example.com/";

    fn near() -> Near {
        Near::new(NonZeroU64::new(1024 * 1024).unwrap())
    }

    fn code(text: &str) -> Code<'_> {
        Code::parse(text).unwrap()
    }

    fn keep(near: &Near, text: &str, left: i64) {
        near.place(code(text)).unwrap().fill(URL.into(), left);
    }

    fn has(near: &Near, text: &str) -> bool {
        near.get(code(text)).is_some_and(|url| url == URL)
    }

    fn told(key: &str) -> PushInfo {
        PushInfo {
            kind: PushKind::Invalidate,
            data: vec![Value::Array(vec![Value::BulkString(key.into())])],
        }
    }

    #[test]
    fn what_was_kept_is_there_until_the_server_tells_of_a_change() {
        let near = near();
        assert!(!has(&near, "a"));
        keep(&near, "a", 1000);
        keep(&near, "b", 1000);
        assert!(has(&near, "a") && has(&near, "b"));
        near.hear(&told("link:a"));
        assert!(!has(&near, "a") && has(&near, "b"));
    }

    #[test]
    fn other_keys_are_nobody_s_business() {
        let near = near();
        keep(&near, "a", 1000);
        for key in ["a", "{link:a}:none", "link:", "limit:a", "link:a "] {
            near.hear(&told(key));
        }
        assert!(has(&near, "a"));
    }

    #[test]
    fn an_answer_that_is_older_than_a_change_is_not_kept() {
        let near = near();
        let place = near.place(code("a")).unwrap();
        near.hear(&told("link:a"));
        place.fill(URL.into(), 1000);
        assert!(!has(&near, "a"));

        let place = near.place(code("a")).unwrap();
        let flushed = PushInfo {
            kind: PushKind::Invalidate,
            data: vec![Value::Nil],
        };
        near.hear(&flushed);
        place.fill(URL.into(), 1000);
        assert!(!has(&near, "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_ends_with_its_key() {
        let near = near();
        keep(&near, "a", 1000);
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(has(&near, "a"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!has(&near, "a"));
        keep(&near, "a", 1000);
        assert!(has(&near, "a"), "its place can be taken again");
        for never in [-2, -1, 0] {
            keep(&near, "b", never);
            assert!(!has(&near, "b"), "{never}");
        }
    }

    #[test]
    fn only_one_at_a_time_has_the_place_of_a_code() {
        let near = near();
        let place = near.place(code("a"));
        assert!(place.is_some() && near.place(code("a")).is_none());
        drop(place);
        assert!(near.place(code("a")).is_some());
    }

    #[test]
    fn everything_goes_with_the_connection() {
        let near = near();
        keep(&near, "a", 1000);
        let place = near.place(code("b")).unwrap();
        near.hear(&PushInfo {
            kind: PushKind::Disconnection,
            data: vec![],
        });
        place.fill(URL.into(), 1000);
        keep(&near, "c", 1000);
        assert!(!has(&near, "a") && !has(&near, "b") && !has(&near, "c"));
    }

    #[test]
    fn the_bytes_are_a_bound() {
        let bytes = 64 * 1024;
        let near = Near::new(NonZeroU64::new(bytes).unwrap());
        for number in 0..10_000 {
            keep(&near, &format!("code{number}"), 1000);
        }
        let kept = near.entries.len() as u64;
        assert!(near.entries.weight() <= bytes, "{}", near.entries.weight());
        assert!(kept > bytes / 512, "only {kept} are kept");
    }
}
