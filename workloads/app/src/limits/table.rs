//! The buckets of all clients of a limit, in bounded memory.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    LimitedClient, Rate,
    bucket::{Bucket, BucketVerdict, Grant, Terms},
    nanoseconds,
};

/// The number of independent shards of the table, which keeps lock contention low.
const SHARDS: usize = 64;
/// The maximum number of clients per shard, which is that of a hash table with 1,024 places. Beyond it, the buckets
/// closest to full are removed first.
const CLIENTS_PER_SHARD: usize = 896;

type Shard = HashMap<LimitedClient, Bucket>;

/// The buckets of one limit.
pub(super) struct Table {
    pub(super) terms: Terms,
    start: Instant,
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

impl Table {
    /// Returns the buckets of a rate, or `None` if it is 0. With `is_shared`, the replicas share buckets too.
    pub(super) fn new(rate: Rate, is_shared: bool) -> Option<Self> {
        if rate.requests == 0 {
            return None;
        }
        Some(Self {
            terms: Terms::of(rate, is_shared),
            start: Instant::now(),
            shards: std::iter::repeat_with(Mutex::default)
                .take(SHARDS)
                .collect(),
            hasher: RandomState::new(),
        })
    }

    /// Takes the tokens of a request of a client.
    pub(super) fn take(&self, client: LimitedClient, cost: u32) -> BucketVerdict {
        self.take_at(client, cost, self.now())
    }

    /// Takes note of an answer of the shared bucket to a request of this cost, or of the lack of one. Returns the time until
    /// the bucket is full again.
    ///
    /// # Errors
    /// Returns the time until there are enough tokens if the request is refused.
    pub(super) fn settle(
        &self,
        client: LimitedClient,
        cost: u32,
        grant: Option<Grant>,
    ) -> Result<Duration, Duration> {
        let now = self.now();
        let mut shard = self.shard(client).lock();
        // Without an entry, other clients have taken its place meanwhile.
        let mut forgotten = Bucket::default();
        let bucket = shard.get_mut(&client).unwrap_or(&mut forgotten);
        let settled = bucket.settle(&self.terms, (cost, grant), now);
        settled
            .map(Duration::from_nanos)
            .map_err(Duration::from_nanos)
    }

    /// Ends a report, answered or not.
    pub(super) fn end_report(&self, client: LimitedClient) {
        if let Some(bucket) = self.shard(client).lock().get_mut(&client) {
            bucket.end_report();
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }

    fn shard(&self, client: LimitedClient) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(client) as usize % SHARDS]
    }

    fn take_at(&self, client: impl Into<LimitedClient>, cost: u32, now: u64) -> BucketVerdict {
        let client = client.into();
        let mut shard = self.shard(client).lock();
        if shard.len() >= CLIENTS_PER_SHARD && !shard.contains_key(&client) {
            evict(&mut shard, now);
        }
        let bucket = shard.entry(client).or_default();
        bucket.take(&self.terms, cost, now)
    }

    #[cfg(test)]
    fn clients(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// Removes full buckets. If that is not enough, it also removes the fuller half, which affects the least active
/// clients. With a bucket goes its account with the shared one.
fn evict(shard: &mut Shard, now: u64) {
    shard.retain(|_, bucket| !bucket.is_full(now));
    if shard.len() >= CLIENTS_PER_SHARD {
        let mut times: Vec<u64> = shard.values().map(Bucket::full_at).collect();
        let (_, median, _) = times.select_nth_unstable(CLIENTS_PER_SHARD / 2);
        let median = *median;
        shard.retain(|_, bucket| bucket.full_at() > median);
    }
    // A table with many removed entries would grow instead of taking their places.
    *shard = std::mem::take(shard).into_iter().collect();
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2));

    fn table(requests: u32, seconds: u64, burst: u32) -> Table {
        let rate = Rate {
            requests,
            period: Duration::from_secs(seconds),
            burst,
        };
        Table::new(rate, false).unwrap()
    }

    fn passes(table: &Table, client: impl Into<LimitedClient>, now: u64) -> bool {
        matches!(table.take_at(client, 1, now), BucketVerdict::Passes(_))
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let rate = Rate {
            requests: 0,
            period: Duration::from_secs(1),
            burst: 5,
        };
        assert!(Table::new(rate, false).is_none());
    }

    #[test]
    fn every_client_has_a_bucket_of_its_own() {
        let table = table(1, 1, 1);
        assert!(passes(&table, A, 0) && !passes(&table, A, 0));
        assert!(passes(&table, B, 0));
    }

    #[test]
    fn one_ipv6_network_is_one_client() {
        let table = table(1, 1, 1);
        let address = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last));
        assert!(passes(&table, address(1), 0));
        assert!(!passes(&table, address(2), 0));
        let other: IpAddr = "2001:db8:0:2::1".parse().unwrap();
        assert!(passes(&table, other, 0));
    }

    #[test]
    fn a_client_with_a_key_is_counted_by_it_under_one_name_in_every_replica() {
        let table = table(1, 1, 1);
        let key = LimitedClient::Key(0xcb00_7101);
        assert_eq!(LimitedClient::from(A), LimitedClient::V4(0xcb00_7101));
        assert!(passes(&table, A, 0));
        assert!(passes(&table, key, 0));
        assert!(!passes(&table, key, 0));
        assert_eq!(key.to_string(), "key:00000000cb007101");
    }

    #[test]
    fn memory_stays_bounded_and_the_busiest_client_is_remembered() {
        let table = table(1, 1, 1000);
        while passes(&table, A, 0) {}
        for number in 0..500_000_u32 {
            let _ = table.take_at(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)), 1, 0);
        }
        assert!(table.clients() <= SHARDS * CLIENTS_PER_SHARD);
        assert!(
            !passes(&table, A, 0),
            "a flood of other addresses must not refill a bucket"
        );
    }

    #[test]
    fn two_tables_fit_into_the_memory_that_is_set_aside_for_rate_limits() {
        // A hash table of 1,024 places, each with one byte of its own.
        let table = SHARDS * 1024 * (size_of::<(LimitedClient, Bucket)>() + 1);
        assert!(2 * table <= 7 * 1024 * 1024, "{table}");
        let used = table_after_a_flood();
        let largest = used.shards.iter().map(|shard| shard.lock().capacity());
        assert_eq!(largest.max(), Some(CLIENTS_PER_SHARD));
    }

    /// Returns a table through which many clients have gone.
    fn table_after_a_flood() -> Table {
        let table = table(1, 1, 1);
        for number in 0..500_000_u32 {
            let _ = table.take_at(LimitedClient::V4(number), 1, u64::from(number));
        }
        table
    }

    #[test]
    fn an_answer_for_a_client_that_was_forgotten_counts_for_the_request_alone() {
        let rate = Rate {
            requests: 1,
            period: Duration::from_secs(1),
            burst: 1,
        };
        let table = Table::new(rate, true).unwrap();
        let grant = |passes| Grant {
            paid: 0,
            passes,
            refill: 0,
        };
        assert!(table.settle(A.into(), 1, Some(grant(true))).is_ok());
        assert!(table.settle(A.into(), 1, Some(grant(false))).is_err());
        table.end_report(A.into());
        assert_eq!(table.clients(), 0);
    }
}
