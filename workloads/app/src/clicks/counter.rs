//! The counts in memory. Their number is bounded, so that an outage of the database takes no more memory.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    ops::{AddAssign, Range},
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::Day;
use crate::code::{Code, MAX_LENGTH};

/// The maximum number of entries in a batch.
pub const BATCH: usize = 10_000;
/// The maximum number of entries, with whatever memory.
const MOST: usize = 100_000;
/// The number of parts, each with a lock of its own. It is a power of two.
const SHARDS: usize = 64;

/// The most bytes of an entry.
const PER_ENTRY: usize = 256;

const _: () = {
    let entry = size_of::<(Box<str>, Counts)>();
    // The text, and in a table that has just grown 16 places for seven entries.
    assert!((entry + 1) * 16 / 7 + MAX_LENGTH <= PER_ENTRY);
    // The text and the entry in a batch, the columns of the statement, and their encoding with the length of each value.
    let columns = size_of::<&str>() + size_of::<Day>() + size_of::<Counts>();
    let encoded = MAX_LENGTH + size_of::<Day>() + size_of::<Counts>() + 4 * size_of::<u32>();
    assert!(size_of::<Entry>() + MAX_LENGTH + columns + encoded <= PER_ENTRY);
};

/// Numbers of clicks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub people: u64,
    pub bots: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.people = self.people.saturating_add(other.people);
        self.bots = self.bots.saturating_add(other.bots);
    }
}

/// The clicks on a link on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub code: Box<str>,
    pub day: Day,
    pub counts: Counts,
}

/// Counts on their way to the database, sorted by code and day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The identity under which the database adds the counts once, however often it gets them.
    pub id: Uuid,
    pub entries: Vec<Entry>,
}

impl Batch {
    /// Returns the sum of the counts.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for entry in &self.entries {
            total += entry.counts;
        }
        total
    }
}

/// The counts of several codes by day. There is more than one day only around midnight, or during an outage.
type Shard = BTreeMap<Day, HashMap<Box<str>, Counts>>;

/// The counts that the database does not have yet.
pub struct Counter {
    hashes: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    /// The number of entries here and in batches that are not stored.
    entries: AtomicUsize,
    limit: usize,
    crowded: Notify,
}

impl Counter {
    /// Returns a counter that takes this many bytes at most.
    pub fn new(bytes: usize) -> Self {
        Self {
            hashes: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            entries: AtomicUsize::new(0),
            limit: (bytes / PER_ENTRY).min(MOST),
            crowded: Notify::new(),
        }
    }

    /// Adds clicks. Returns false if there is no room for another entry.
    pub fn add(&self, code: Code<'_>, day: Day, counts: Counts) -> bool {
        let text = code.as_str();
        let mut shard = self.shards[self.hashes.hash_one(text) as usize % SHARDS].lock();
        let codes = shard.entry(day).or_default();
        if let Some(sum) = codes.get_mut(text) {
            *sum += counts;
            return true;
        }
        let is_admitted = self.take_place();
        if is_admitted {
            codes.insert(text.into(), counts);
        }
        is_admitted
    }

    fn take_place(&self) -> bool {
        let more = |entries| (entries < self.limit).then_some(entries + 1);
        let taken = self
            .entries
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if taken == Ok(self.limit / 2) {
            self.crowded.notify_one();
        }
        taken.is_ok()
    }

    /// Completes when half of the entries are taken. It does not complete again before some have been stored.
    pub async fn crowded(&self) {
        self.crowded.notified().await;
    }

    /// Returns all parts, for [`take`](Self::take).
    pub fn shards() -> Range<usize> {
        0..SHARDS
    }

    /// Takes the entries of the next parts, as many as fit into a batch; `None` if there are none. Redirects wait for
    /// one part only, and no longer than an exchange of two maps takes.
    pub fn take(&self, parts: &mut Range<usize>) -> Option<Batch> {
        let mut entries = Vec::new();
        while parts.start < parts.end {
            let mut shard = self.shards[parts.start].lock();
            let more: usize = shard.values().map(HashMap::len).sum();
            if !entries.is_empty() && entries.len() + more > BATCH {
                break;
            }
            let taken = std::mem::take(&mut *shard);
            drop(shard);
            parts.start += 1;
            for (day, codes) in taken {
                let of_day = codes.into_iter();
                entries.extend(of_day.map(|(code, counts)| Entry { code, day, counts }));
            }
        }
        entries.sort_unstable_by(|one: &Entry, other| {
            (&one.code, one.day).cmp(&(&other.code, other.day))
        });
        let id = Uuid::now_v7();
        (!entries.is_empty()).then_some(Batch { id, entries })
    }

    /// Gives back the places of entries that are stored, or lost.
    pub fn release(&self, batch: Batch) {
        self.entries
            .fetch_sub(batch.entries.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const PERSON: Counts = Counts { people: 1, bots: 0 };
    const BOT: Counts = Counts { people: 0, bots: 1 };

    fn add(counter: &Counter, code: &str, day: Day, counts: Counts) -> bool {
        counter.add(Code::parse(code).unwrap(), day, counts)
    }

    fn all(counter: &Counter) -> Vec<Entry> {
        let mut parts = Counter::shards();
        let mut entries = Vec::new();
        while let Some(batch) = counter.take(&mut parts) {
            entries.extend(batch.entries.clone());
            counter.release(batch);
        }
        entries
    }

    #[test]
    fn clicks_are_counted_by_code_and_day_and_taken_in_their_order() {
        let counter = Counter::new(1 << 20);
        for (code, day, counts) in [
            ("b", 2, PERSON),
            ("a", 3, BOT),
            ("b", 2, BOT),
            ("a", 2, PERSON),
            ("b", 2, PERSON),
            ("Z", 2, PERSON),
        ] {
            assert!(add(&counter, code, day, counts));
        }
        let found = all(&counter).into_iter().map(|entry| {
            let Counts { people, bots } = entry.counts;
            (entry.code.to_string(), entry.day, people, bots)
        });
        let expected = [
            ("Z", 2, 1, 0),
            ("a", 2, 1, 0),
            ("a", 3, 0, 1),
            ("b", 2, 2, 1),
        ];
        let expected =
            expected.map(|(code, day, people, bots)| (code.to_owned(), day, people, bots));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(all(&counter), Vec::new());
    }

    #[test]
    fn a_full_counter_still_counts_what_it_has_and_nothing_else() {
        let counter = Counter::new(2 * PER_ENTRY);
        assert!(add(&counter, "a", 1, PERSON) && add(&counter, "b", 1, PERSON));
        assert!(!add(&counter, "c", 1, PERSON) && !add(&counter, "a", 2, PERSON));
        assert!(add(&counter, "a", 1, PERSON));
        let mut parts = Counter::shards();
        let batch = counter.take(&mut parts).unwrap();
        assert_eq!(batch.total(), Counts { people: 3, bots: 0 });
        // What is on its way takes its room until it is stored.
        assert!(!add(&counter, "c", 1, PERSON));
        counter.release(batch);
        assert!(add(&counter, "c", 1, PERSON));
    }

    #[test]
    fn batches_are_bounded_and_have_different_identities() {
        let counter = Counter::new(usize::MAX);
        for number in 0..2 * BATCH + 1 {
            assert!(add(&counter, &format!("code-{number}"), 1, BOT));
        }
        let mut parts = Counter::shards();
        let batches: Vec<Batch> = std::iter::from_fn(|| counter.take(&mut parts)).collect();
        let sizes = batches.iter().map(|batch| batch.entries.len());
        assert!(sizes.clone().all(|size| size <= BATCH));
        assert_eq!(sizes.sum::<usize>(), 2 * BATCH + 1);
        assert_ne!(batches[0].id, batches[1].id);
    }

    #[test]
    fn the_default_memory_has_room_for_as_many_links_as_the_page_says() {
        let counter = Counter::new(shortener_common::memory::Memory::default().clicks);
        let page = include_str!("../../../../docs/scaling.md");
        assert_eq!(counter.limit, 12_288);
        assert!(page.contains("| 12,288 links, 3 MiB |"));
    }

    #[test]
    fn half_of_the_entries_make_a_counter_crowded_once() {
        let counter = Counter::new(4 * PER_ENTRY);
        let is_crowded = || counter.crowded().now_or_never().is_some();
        for (code, expected) in [
            ("a", false),
            ("b", false),
            ("c", true),
            ("d", false),
            ("e", false),
        ] {
            add(&counter, code, 1, PERSON);
            assert_eq!(is_crowded(), expected, "{code}");
        }
    }
}
