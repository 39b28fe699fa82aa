//! Copies of destinations in the memory of the process. The server invalidates them when a link changes (client
//! tracking in broadcasting mode, <https://valkey.io/topics/client-side-caching/>).
//!
//! Guarantees:
//! - A code is kept from the second lookup at the server on, counted from its last change. Until then its deletion takes
//!   effect at once, without the moment that a message of the server takes.
//! - A place is reserved before the server is queried, and an invalidation meanwhile removes it. A result that is
//!   older than a change is therefore not kept.
//! - An entry ends with the remaining time of its key, because the server may report expired keys late.
//! - All entries are dropped with the connection, because invalidations end with it. On a connection that is silent or
//!   slow an entry counts no longer than one lease after its change: while entries are used, the connection is asked for an
//!   answer, and the server sends invalidations before the answers to later questions. The lease counts from the time of
//!   the question, so it also ends while this process cannot run.
//! - Only destinations are kept, and no negative entries. A link that is taken down or changed is invalidated like any
//!   other key, so an earlier state of it counts no longer than one lease.

use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroU64,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use axum::body::Bytes;
use quick_cache::{
    DefaultHashBuilder, Weighter,
    sync::{Cache, DefaultLifecycle, GuardResult, PlaceholderGuard},
};
use redis::{PushInfo, PushKind, Value};
use tokio::{sync::Notify, time::Instant};

use super::keys;
use crate::code::Code;

/// The time for which entries count after a question that the server answered. It does not depend on the deadline of the
/// cache: a deleted link is promised to redirect nowhere after this time.
pub const LEASE: Duration = Duration::from_millis(100);

/// The approximate memory of an entry in bytes, besides its code and its destination.
const OVERHEAD: usize = 128;
/// The typical memory of an entry in bytes, for the initial size of the table.
const TYPICAL: u64 = 256;

/// The largest number of codes that are known to have been looked up once.
const MOST_SEEN: u64 = 64 * 1024;

/// The copies of one connection.
pub struct LocalCache {
    entries: Cache<String, Entry, Bytewise>,
    seen: Seen,
    /// Set once the connection has ended.
    lost: AtomicBool,
    /// The time for which entries count after a question that the server answered.
    term: Duration,
    began: Instant,
    /// The end of the lease, in microseconds after `began`.
    leased: AtomicU64,
    /// Set by each use of an entry.
    used: AtomicBool,
    wanted: Notify,
}

/// The codes that were looked up a short time ago: for each place the hash of the last one that fell on it.
struct Seen {
    places: Box<[AtomicU32]>,
    hasher: RandomState,
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

/// A reserved place for the destination of a code, which an invalidation removes.
pub struct Reservation<'a>(
    PlaceholderGuard<
        'a,
        String,
        Entry,
        Bytewise,
        DefaultHashBuilder,
        DefaultLifecycle<String, Entry>,
    >,
);

impl LocalCache {
    /// Returns a store of this many bytes with a lease of this term; when it is full, the least used entries are evicted.
    #[must_use]
    pub fn new(bytes: NonZeroU64, term: Duration) -> Self {
        let typical = bytes.get() / TYPICAL;
        let seen = usize::try_from(typical.min(MOST_SEEN)).unwrap_or(usize::MAX);
        let typical = usize::try_from(typical).unwrap_or(usize::MAX);
        Self {
            entries: Cache::with_weighter(typical, bytes.get(), Bytewise),
            seen: Seen::of(seen),
            lost: AtomicBool::new(false),
            term,
            began: Instant::now(),
            leased: AtomicU64::new(0),
            used: AtomicBool::new(false),
            wanted: Notify::new(),
        }
    }

    /// Returns the destination of a code, if there is a copy and the lease has not ended.
    pub fn get(&self, code: Code<'_>) -> Option<Bytes> {
        // The lease comes first: what the server had invalidated before it was renewed is removed by now. In the other
        // order, a thread that had to wait in between could return an entry that was invalidated long ago.
        let now = Instant::now();
        let is_leased = self.since_start(now) < self.leased.load(Ordering::Acquire);
        let entry = self.entries.get(code.as_str())?;
        if self.lost.load(Ordering::Relaxed) || now >= entry.ends {
            return None;
        }
        if !is_leased {
            self.wanted.notify_one();
            return None;
        }
        // Without the check, all cores would write to one place.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(entry.url)
    }

    /// Renews the lease after the server has answered a question that was sent at this time.
    pub fn renew(&self, sent: Instant) {
        let end = self.since_start(sent + self.term);
        self.leased.fetch_max(end, Ordering::Release);
    }

    /// Renews the lease after an answer to a lookup, and asks for further renewals.
    pub fn heard(&self, sent: Instant) {
        self.renew(sent);
        self.wanted.notify_one();
    }

    /// Waits until an entry is used or wanted, unless one was used since the last call.
    pub async fn until_used(&self) {
        if !self.used.swap(false, Ordering::Relaxed) {
            self.wanted.notified().await;
        }
    }

    fn since_start(&self, time: Instant) -> u64 {
        let time = time.saturating_duration_since(self.began);
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    /// Reserves the place of a code that is looked up, unless the code is new or the place is taken.
    pub fn reserve(&self, code: &str) -> Option<Reservation<'_>> {
        if !self.seen.add(code) {
            return None;
        }
        let now = Instant::now();
        self.entries.remove_if(code, |entry| entry.ends <= now);
        match self.entries.get_value_or_guard(code, Some(Duration::ZERO)) {
            GuardResult::Guard(guard) => Some(Reservation(guard)),
            GuardResult::Value(_) | GuardResult::Timeout => None,
        }
    }

    /// Handles a push message of the server.
    pub fn on_push(&self, push: &PushInfo) {
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Invalidate, [Value::Array(keys)]) => {
                for key in keys {
                    if let Value::BulkString(key) = key
                        && let Some(code) = keys::code_in(key)
                    {
                        self.entries.remove(code);
                        self.seen.remove(code);
                    }
                }
            }
            // Without a list of keys, the message is about all of them.
            (PushKind::Invalidate, _) => {
                self.entries.clear();
                self.seen.clear();
            }
            (PushKind::Disconnection, _) => {
                self.lost.store(true, Ordering::Relaxed);
                self.entries.clear();
            }
            _ => {}
        }
    }
}

impl Seen {
    fn of(places: usize) -> Self {
        Self {
            places: std::iter::repeat_with(AtomicU32::default)
                .take(places.max(1))
                .collect(),
            hasher: RandomState::new(),
        }
    }

    /// Adds a code. Returns true if it was there.
    fn add(&self, code: &str) -> bool {
        let (place, mark) = self.place(code);
        place.swap(mark, Ordering::Relaxed) == mark
    }

    fn remove(&self, code: &str) {
        let (place, mark) = self.place(code);
        let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn clear(&self) {
        for place in &self.places {
            place.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the place of a code, and what stands there for it.
    fn place(&self, code: &str) -> (&AtomicU32, u32) {
        let hash = self.hasher.hash_one(code);
        let place = (hash >> 32) as usize % self.places.len();
        // 0 stands for none.
        (&self.places[place], hash as u32 | 1)
    }
}

impl Reservation<'_> {
    /// Keeps a destination for the remaining time of its key: milliseconds, from a `PTTL` that was sent at this time. It is
    /// not kept if the key is gone (-2), or never expires (-1) because another client wrote it.
    pub fn fill(self, url: Bytes, left: i64, sent: Instant) {
        let Ok(left @ 1..) = u64::try_from(left) else {
            return;
        };
        // The answer may have waited for this process.
        let ends = sent + Duration::from_millis(left);
        // The insertion fails if the entry was invalidated meanwhile.
        let _ = self.0.insert(Entry { url, ends });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://example.com/";

    /// Longer than every test.
    const TERM: Duration = Duration::from_secs(3600);

    /// Returns a store with a lease.
    fn near_of(bytes: u64, term: Duration) -> LocalCache {
        let near = LocalCache::new(NonZeroU64::new(bytes).unwrap(), term);
        near.renew(Instant::now());
        near
    }

    fn near() -> LocalCache {
        near_of(1024 * 1024, TERM)
    }

    fn code(text: &str) -> Code<'_> {
        Code::parse(text).unwrap()
    }

    /// Looks up a code twice.
    fn reserve<'a>(near: &'a LocalCache, text: &str) -> Option<Reservation<'a>> {
        near.reserve(text).or_else(|| near.reserve(text))
    }

    fn keep(near: &LocalCache, text: &str, left: i64) {
        reserve(near, text)
            .unwrap()
            .fill(URL.into(), left, Instant::now());
    }

    fn has(near: &LocalCache, text: &str) -> bool {
        near.get(code(text)).is_some_and(|url| url == URL)
    }

    fn invalidation(key: &str) -> PushInfo {
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
        near.on_push(&invalidation("link:a"));
        assert!(!has(&near, "a") && has(&near, "b"));
    }

    #[test]
    fn a_code_is_kept_from_its_second_lookup_after_a_change_on() {
        let near = near();
        let flushed = PushInfo {
            kind: PushKind::Invalidate,
            data: vec![Value::Nil],
        };
        for change in [invalidation("link:a"), flushed] {
            assert!(near.reserve("a").is_none(), "the first lookup");
            assert!(near.reserve("a").is_some(), "the second one");
            assert!(near.reserve("a").is_some());
            near.on_push(&change);
        }
        assert!(near.reserve("a").is_none());
        near.on_push(&invalidation("link:b"));
        assert!(near.reserve("a").is_some(), "another code was changed");
    }

    #[test]
    fn other_keys_are_nobody_s_business() {
        let near = near();
        keep(&near, "a", 1000);
        for key in ["a", "{link:a}:none", "link:", "limit:a", "link:a "] {
            near.on_push(&invalidation(key));
        }
        assert!(has(&near, "a"));
    }

    #[test]
    fn an_answer_that_is_older_than_a_change_is_not_kept() {
        let near = near();
        let reservation = reserve(&near, "a").unwrap();
        near.on_push(&invalidation("link:a"));
        reservation.fill(URL.into(), 1000, Instant::now());
        assert!(!has(&near, "a"));

        let reservation = reserve(&near, "a").unwrap();
        let flushed = PushInfo {
            kind: PushKind::Invalidate,
            data: vec![Value::Nil],
        };
        near.on_push(&flushed);
        reservation.fill(URL.into(), 1000, Instant::now());
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
        assert!(has(&near, "a"), "the code can be reserved again");
        for never in [-2, -1, 0] {
            keep(&near, "b", never);
            assert!(!has(&near, "b"), "{never}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_had_to_wait_makes_no_entry_live_longer() {
        let near = near();
        let reservation = reserve(&near, "a").unwrap();
        let sent = Instant::now();
        tokio::time::advance(Duration::from_millis(600)).await;
        reservation.fill(URL.into(), 1000, sent);
        tokio::time::advance(Duration::from_millis(399)).await;
        assert!(has(&near, "a"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!has(&near, "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_counts_only_as_long_as_the_server_has_been_heard() {
        let near = near_of(1024 * 1024, LEASE);
        keep(&near, "a", 10_000);
        tokio::time::advance(LEASE - Duration::from_millis(1)).await;
        assert!(has(&near, "a"));
        let sent = Instant::now();
        tokio::time::advance(Duration::from_millis(60)).await;
        assert!(!has(&near, "a"), "the server has been silent for too long");
        // The answer proves that the server had sent no invalidation before the question.
        near.heard(sent);
        assert!(has(&near, "a"));
        near.on_push(&invalidation("link:a"));
        near.heard(Instant::now());
        assert!(!has(&near, "a"));
        keep(&near, "b", 10_000);
        // An older question does not shorten the lease.
        near.renew(sent);
        tokio::time::advance(LEASE - Duration::from_millis(1)).await;
        assert!(has(&near, "b"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_renewed_only_while_copies_are_used() {
        let near = near_of(1024 * 1024, LEASE);
        let is_used = async || {
            let wait = tokio::time::timeout(Duration::from_millis(1), near.until_used());
            wait.await.is_ok()
        };
        assert!(!is_used().await);
        keep(&near, "a", 10_000);
        assert!(has(&near, "a"));
        assert!(is_used().await && !is_used().await);
        tokio::time::advance(LEASE * 2).await;
        assert!(!has(&near, "a"));
        assert!(is_used().await, "a copy without a lease is wanted");
        near.heard(Instant::now());
        assert!(is_used().await, "and so is one that was just made");
    }

    #[test]
    fn only_one_at_a_time_has_the_place_of_a_code() {
        let near = near();
        let reservation = reserve(&near, "a");
        assert!(reservation.is_some() && reserve(&near, "a").is_none());
        drop(reservation);
        assert!(reserve(&near, "a").is_some());
    }

    #[test]
    fn everything_goes_with_the_connection() {
        let near = near();
        keep(&near, "a", 1000);
        let reservation = reserve(&near, "b").unwrap();
        near.on_push(&PushInfo {
            kind: PushKind::Disconnection,
            data: vec![],
        });
        reservation.fill(URL.into(), 1000, Instant::now());
        keep(&near, "c", 1000);
        assert!(!has(&near, "a") && !has(&near, "b") && !has(&near, "c"));
    }

    #[test]
    fn the_bytes_are_a_bound() {
        let bytes = 64 * 1024;
        let near = near_of(bytes, TERM);
        for number in 0..10_000 {
            keep(&near, &format!("code{number}"), 1000);
        }
        let kept = near.entries.len() as u64;
        assert!(near.entries.weight() <= bytes, "{}", near.entries.weight());
        assert!(kept > bytes / 512, "only {kept} are kept");
    }
}
