//! Rate limits by client address, or by the key of a client: token buckets in bounded memory, and with a cache also
//! buckets shared by all replicas.

mod quota;
mod shared;

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderMap;
use parking_lot::Mutex;

use self::{quota::Quota, shared::SharedBuckets};
use crate::{config::ServeArgs, store::cache::Cache};

/// The number of independent shards of the table, which keeps lock contention low.
const SHARDS: usize = 64;
/// The maximum number of clients per shard; beyond it, the buckets closest to full are removed first.
const CLIENTS_PER_SHARD: usize = 1024;

/// A rate limit per client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per [`Rate::period`]; 0 turns the limit off.
    pub requests: u32,
    /// The period of the rate.
    pub period: Duration,
    /// The burst: requests at once after a pause; at least one is always allowed.
    pub burst: u32,
}

impl Rate {
    /// Returns the rate limit of `POST /shorten` per address.
    #[must_use]
    pub fn of_shorten(config: &ServeArgs) -> Self {
        Self {
            requests: config.limit_shorten_per_minute,
            period: Duration::from_secs(60),
            burst: config.limit_shorten_burst,
        }
    }

    /// Returns the rate limit of all other requests per address.
    #[must_use]
    pub fn of_requests(config: &ServeArgs) -> Self {
        Self {
            requests: config.limit_requests_per_second,
            period: Duration::from_secs(1),
            burst: config.limit_requests_burst,
        }
    }

    /// Returns the rate limit of `POST /shorten` per key.
    #[must_use]
    pub fn of_shorten_by_key(config: &ServeArgs) -> Self {
        let (auth, own) = (&config.auth, Self::of_shorten(config));
        Self {
            requests: auth.auth_limit_shorten_per_minute.unwrap_or(own.requests),
            burst: auth.auth_limit_shorten_burst.unwrap_or(own.burst),
            ..own
        }
    }

    /// Returns the rate limit of all other requests per key.
    #[must_use]
    pub fn of_requests_by_key(config: &ServeArgs) -> Self {
        let (auth, own) = (&config.auth, Self::of_requests(config));
        Self {
            requests: auth.auth_limit_requests_per_second.unwrap_or(own.requests),
            burst: auth.auth_limit_requests_burst.unwrap_or(own.burst),
            ..own
        }
    }

    /// Returns the time in which one token is refilled, and the time in which an empty bucket is.
    fn times(self) -> (Duration, Duration) {
        let interval = self.period / self.requests.max(1);
        (interval, interval.saturating_mul(self.burst.max(1)))
    }
}

/// The limits of one way to count clients.
#[derive(Default)]
pub struct Limits {
    /// The rate limit of `POST /shorten`.
    pub shorten: Option<Limit>,
    /// The rate limit of every other request.
    pub requests: Option<Limit>,
}

impl Limits {
    /// Returns the limits by client address.
    #[must_use]
    pub fn by_address(config: &ServeArgs, cache: Option<&Arc<Cache>>) -> Self {
        Self {
            shorten: Limit::new("shorten", Rate::of_shorten(config), cache),
            requests: Limit::new("requests", Rate::of_requests(config), cache),
        }
    }

    /// Returns the limits by the key of a client. All keys of a client share one bucket.
    #[must_use]
    pub fn by_key(config: &ServeArgs, cache: Option<&Arc<Cache>>) -> Self {
        Self {
            shorten: Limit::new("shorten", Rate::of_shorten_by_key(config), cache),
            requests: Limit::new("requests", Rate::of_requests_by_key(config), cache),
        }
    }
}

/// A rate limit with a bucket of this replica and, with a cache, a bucket shared by all replicas.
pub struct Limit {
    own: RateLimiter,
    shared: Option<SharedBuckets>,
    quota: Quota,
}

impl Limit {
    /// Returns a limit with this name, or `None` if the rate is 0.
    #[must_use]
    pub fn new(name: &'static str, rate: Rate, cache: Option<&Arc<Cache>>) -> Option<Self> {
        Some(Self {
            own: RateLimiter::new(rate)?,
            shared: cache.map(|cache| SharedBuckets::new(name, rate, Arc::clone(cache))),
            quota: Quota::new(name, rate),
        })
    }

    /// Takes a token of this replica's bucket, and returns the time until the bucket is full again. A client above the
    /// limit of one replica is above the shared limit as well.
    ///
    /// # Errors
    /// Returns the time until the next token if the bucket is empty.
    pub fn take(&self, client: Client) -> Result<Duration, Duration> {
        self.own.take(client)
    }

    /// Takes a token of the shared bucket, and returns the time until the bucket is full again. Succeeds if the cache is
    /// unavailable.
    ///
    /// # Errors
    /// Returns the time until the next token if the bucket is empty.
    pub async fn take_shared(&self, client: Client) -> Result<Duration, Duration> {
        match &self.shared {
            Some(buckets) => buckets.take(client).await,
            None => Ok(Duration::ZERO),
        }
    }

    /// Returns the time until an empty bucket is full again whose next token comes after `wait`.
    #[must_use]
    pub fn refill_of_empty(&self, wait: Duration) -> Duration {
        self.quota.refill_of_empty(wait)
    }

    /// Tells a client the limit and what is left of it, if its bucket is full again after `refill`.
    pub fn tell(&self, refill: Duration, headers: &mut HeaderMap) {
        self.quota.tell(refill, headers);
    }
}

/// Token buckets per client. A bucket is stored as the time at which it will be full again (the generic cell rate
/// algorithm): one number per client, and no entry for a full bucket.
pub struct RateLimiter {
    /// Nanoseconds in which one token is refilled.
    interval: u64,
    /// Nanoseconds in which an empty bucket is refilled.
    capacity: u64,
    start: Instant,
    shards: Vec<Mutex<HashMap<Client, u64>>>,
    hasher: std::hash::RandomState,
}

/// A rate-limited client. An IPv6 client usually owns a whole /64, so that network shares one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// An IPv4 address.
    V4(u32),
    /// The first half of an IPv6 address.
    V6Network(u64),
    /// The number of a client with a key.
    Key(u64),
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6Network((address.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4(bits) => Ipv4Addr::from_bits(bits).fmt(f),
            Self::V6Network(bits) => {
                write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(bits) << 64))
            }
            Self::Key(number) => write!(f, "key:{number:016x}"),
        }
    }
}

impl RateLimiter {
    /// Returns a limiter, or `None` if the rate is 0.
    #[must_use]
    pub fn new(rate: Rate) -> Option<Self> {
        if rate.requests == 0 {
            return None;
        }
        let (interval, capacity) = rate.times();
        Some(Self {
            interval: nanoseconds(interval),
            capacity: nanoseconds(capacity),
            start: Instant::now(),
            shards: std::iter::repeat_with(Mutex::default)
                .take(SHARDS)
                .collect(),
            hasher: std::hash::RandomState::new(),
        })
    }

    /// Takes a token, and returns the time until the bucket is full again.
    ///
    /// # Errors
    /// Returns the time until the next token if the bucket is empty.
    pub fn take(&self, client: Client) -> Result<Duration, Duration> {
        self.take_at(client, nanoseconds(self.start.elapsed()))
    }

    fn take_at(&self, client: impl Into<Client>, now: u64) -> Result<Duration, Duration> {
        use std::hash::BuildHasher;
        let client = client.into();
        let shard = self.hasher.hash_one(client) as usize % SHARDS;
        let mut buckets = self.shards[shard].lock();
        let full_at = buckets
            .get(&client)
            .copied()
            .unwrap_or(0)
            .max(now)
            .saturating_add(self.interval);
        let wait = full_at.saturating_sub(now).saturating_sub(self.capacity);
        if wait > 0 {
            return Err(Duration::from_nanos(wait));
        }
        if buckets.len() >= CLIENTS_PER_SHARD && !buckets.contains_key(&client) {
            evict(&mut buckets, now);
        }
        buckets.insert(client, full_at);
        Ok(Duration::from_nanos(full_at - now))
    }

    #[cfg(test)]
    fn clients(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// Removes full buckets. If that is not enough, it also removes the fuller half, which affects the least active
/// clients.
fn evict(buckets: &mut HashMap<Client, u64>, now: u64) {
    buckets.retain(|_, full_at| *full_at > now);
    if buckets.len() >= CLIENTS_PER_SHARD {
        let mut times: Vec<u64> = buckets.values().copied().collect();
        let (_, median, _) = times.select_nth_unstable(CLIENTS_PER_SHARD / 2);
        let median = *median;
        buckets.retain(|_, full_at| *full_at > median);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2));

    fn limiter(requests: u32, seconds: u64, burst: u32) -> RateLimiter {
        RateLimiter::new(Rate {
            requests,
            period: Duration::from_secs(seconds),
            burst,
        })
        .unwrap()
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert!(
            RateLimiter::new(Rate {
                requests: 0,
                period: Duration::from_secs(1),
                burst: 5
            })
            .is_none()
        );
    }

    #[test]
    fn a_burst_passes_then_tokens_come_back_one_by_one() {
        let limiter = limiter(60, 60, 20);
        assert_eq!(
            (0..30)
                .filter(|_| limiter.take_at(A, SECOND).is_ok())
                .count(),
            20
        );
        assert_eq!(limiter.take_at(A, SECOND), Err(Duration::from_secs(1)));
        assert_eq!(
            limiter.take_at(A, 2 * SECOND),
            Ok(Duration::from_secs(20)),
            "the bucket is empty again"
        );
        assert!(limiter.take_at(A, 2 * SECOND).is_err());
        assert_eq!(
            limiter.take_at(B, 2 * SECOND),
            Ok(Duration::from_secs(1)),
            "another client has a bucket of its own"
        );
    }

    #[test]
    fn a_refused_request_costs_no_token() {
        let limiter = limiter(1, 1, 1);
        assert!(limiter.take_at(A, 0).is_ok());
        for _ in 0..100 {
            assert!(limiter.take_at(A, SECOND / 2).is_err());
        }
        assert!(limiter.take_at(A, SECOND).is_ok());
    }

    #[test]
    fn one_ipv6_network_is_one_client() {
        let limiter = limiter(1, 1, 1);
        let address = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last));
        assert!(limiter.take_at(address(1), 0).is_ok());
        assert!(limiter.take_at(address(2), 0).is_err());
        assert!(
            limiter
                .take_at("2001:db8:0:2::1".parse::<IpAddr>().unwrap(), 0)
                .is_ok()
        );
    }

    #[test]
    fn a_client_with_a_key_is_counted_by_it_under_one_name_in_every_replica() {
        let limiter = limiter(1, 1, 1);
        let key = Client::Key(0xcb00_7101);
        assert_eq!(Client::from(A), Client::V4(0xcb00_7101));
        assert!(limiter.take_at(A, 0).is_ok());
        assert!(limiter.take_at(key, 0).is_ok());
        assert!(limiter.take_at(key, 0).is_err());
        assert_eq!(key.to_string(), "key:00000000cb007101");
    }

    #[test]
    fn memory_stays_bounded_and_the_busiest_client_is_remembered() {
        let limiter = limiter(1, 1, 1000);
        while limiter.take_at(A, 0).is_ok() {}
        for number in 0..500_000_u32 {
            let _ = limiter.take_at(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)), 0);
        }
        assert!(limiter.clients() <= SHARDS * CLIENTS_PER_SHARD);
        assert!(
            limiter.take_at(A, 0).is_err(),
            "a flood of other addresses must not refill a bucket"
        );
    }

    proptest! {
        #[test]
        fn never_more_than_the_burst_plus_the_rate_passes(steps in proptest::collection::vec(0u64..SECOND, 1..300), burst in 1u32..30) {
            let limiter = limiter(10, 1, burst);
            let mut now = 0;
            let mut passed = 0;
            for step in &steps {
                now += step;
                passed += u64::from(limiter.take_at(A, now).is_ok());
            }
            prop_assert!(passed <= u64::from(burst) + now / (SECOND / 10) + 1);
        }
    }
}
