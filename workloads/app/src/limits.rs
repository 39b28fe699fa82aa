//! Rate limits by client address, or by the key of a client: token buckets in bounded memory, and with a cache also
//! buckets shared by all replicas, which are asked only for clients that send many requests.

mod bucket;
mod quota;
mod shared;
mod table;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use http::HeaderMap;

use self::{
    bucket::{BucketVerdict, Demand},
    quota::Quota,
    shared::SharedBuckets,
    table::Table,
};
use crate::{config::ServeArgs, store::cache::Cache};

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
    /// Returns the time in which one token is refilled, and the time in which an empty bucket is.
    fn times(self) -> (Duration, Duration) {
        let interval = self.period / self.requests.max(1);
        (interval, interval.saturating_mul(self.burst.max(1)))
    }

    /// Returns the rate with other figures, where there are some.
    fn with(self, requests: Option<u32>, burst: Option<u32>) -> Self {
        Self {
            requests: requests.unwrap_or(self.requests),
            burst: burst.unwrap_or(self.burst),
            ..self
        }
    }
}

/// The rate limits of one way to count clients.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// The rate limit of `POST /shorten`.
    pub shorten: Rate,
    /// The rate limit of every other request.
    pub requests: Rate,
}

impl Rates {
    /// Returns the rate limits by client address.
    pub fn by_address(config: &ServeArgs) -> Self {
        Self {
            shorten: Rate {
                requests: config.limit_shorten_per_minute,
                period: Duration::from_secs(60),
                burst: config.limit_shorten_burst,
            },
            requests: Rate {
                requests: config.limit_requests_per_second,
                period: Duration::from_secs(1),
                burst: config.limit_requests_burst,
            },
        }
    }

    /// Returns the rate limits by the key of a client. All keys of a client share one bucket.
    pub fn by_key(config: &ServeArgs) -> Self {
        let (auth, own) = (&config.auth, Self::by_address(config));
        let (number, burst) = (
            auth.auth_limit_shorten_per_minute,
            auth.auth_limit_shorten_burst,
        );
        let shorten = own.shorten.with(number, burst);
        let (number, burst) = (
            auth.auth_limit_requests_per_second,
            auth.auth_limit_requests_burst,
        );
        Self {
            shorten,
            requests: own.requests.with(number, burst),
        }
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
    /// Returns the limits with these rates.
    pub fn new(rates: Rates, cache: Option<&Arc<Cache>>) -> Self {
        Self {
            shorten: Limit::new("shorten", rates.shorten, cache),
            requests: Limit::new("requests", rates.requests, cache),
        }
    }
}

/// A rate limit with buckets of this replica and, with a cache, buckets shared by all replicas.
pub struct Limit {
    own: Table,
    shared: Option<SharedBuckets>,
    quota: Quota,
}

/// A question to the shared bucket of a client. If it is dropped after it was sent, the bucket may count the request and the
/// report all the same, and the next question reports the same tokens again. The limit is then stricter, and never looser.
pub struct Question<'a> {
    limit: &'a Limit,
    client: LimitedClient,
    demand: Demand,
}

impl Limit {
    /// Returns a limit with this name, or `None` if the rate is 0.
    pub fn new(name: &'static str, rate: Rate, cache: Option<&Arc<Cache>>) -> Option<Self> {
        Some(Self {
            own: Table::new(rate, cache.is_some())?,
            shared: cache.map(|cache| SharedBuckets::new(name, rate, Arc::clone(cache))),
            quota: Quota::new(name, rate),
        })
    }

    /// Returns the number of tokens that a request with so many bytes in its body costs.
    pub fn cost(&self, bytes: u64) -> u32 {
        self.own.terms.cost(bytes)
    }

    /// Takes the tokens of a request of a client. Returns the time until the bucket is full again, and a question if the bucket that all
    /// replicas share decides. A client above the limit of one replica is above the shared limit as well.
    ///
    /// # Errors
    /// Returns the time until there are enough tokens.
    pub fn take(
        &self,
        client: LimitedClient,
        cost: u32,
    ) -> Result<(Duration, Option<Question<'_>>), Duration> {
        match self.own.take(client, cost) {
            BucketVerdict::Passes(refill) => Ok((Duration::from_nanos(refill), None)),
            BucketVerdict::Refused(wait) => Err(Duration::from_nanos(wait)),
            BucketVerdict::Asks(demand) => {
                let question = Question {
                    limit: self,
                    client,
                    demand,
                };
                Ok((Duration::ZERO, Some(question)))
            }
        }
    }

    /// Returns the time until a bucket is full again that has the tokens of a refused request after `wait`.
    pub fn refill_of_empty(&self, cost: u32, wait: Duration) -> Duration {
        self.quota.refill_of_empty(cost, wait)
    }

    /// Tells a client the limit and what is left of it, if its bucket is full again after `refill`.
    pub fn tell(&self, refill: Duration, headers: &mut HeaderMap) {
        self.quota.tell(refill, headers);
    }
}

impl Question<'_> {
    /// Asks, and returns the time until the bucket is full again. The request passes if the cache is unavailable.
    ///
    /// # Errors
    /// Returns the time until there are enough tokens.
    pub async fn ask(self) -> Result<Duration, Duration> {
        let Limit { own, shared, .. } = self.limit;
        let grant = match shared {
            Some(shared) => shared.ask(self.client, self.demand).await,
            None => None,
        };
        own.settle(self.client, self.demand.cost, grant)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if self.demand.debt > 0 {
            self.limit.own.end_report(self.client);
        }
    }
}

/// A rate-limited client. An IPv6 client usually owns a whole /64, so that network shares one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitedClient {
    V4(u32),
    /// The first half of an IPv6 address.
    V6Network(u64),
    /// The number of a client with a key.
    Key(u64),
}

impl From<IpAddr> for LimitedClient {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6Network((address.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for LimitedClient {
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
