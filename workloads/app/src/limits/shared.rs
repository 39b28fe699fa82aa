//! Token buckets in the cache, shared by all replicas.

use std::{sync::Arc, time::Duration};

use redis::Script;

use super::{Client, Rate};
use crate::store::cache::Cache;

/// The buckets of one limit, with one key per client that is below its full burst.
pub struct SharedBuckets {
    cache: Arc<Cache>,
    name: &'static str,
    script: Script,
    /// Microseconds in which one token is refilled.
    interval: u64,
    /// Microseconds in which an empty bucket is refilled.
    capacity: u64,
}

impl SharedBuckets {
    /// Returns buckets of this rate under this name.
    pub fn new(name: &'static str, rate: Rate, cache: Arc<Cache>) -> Self {
        let (interval, capacity) = rate.times();
        Self {
            cache,
            name,
            script: Script::new(include_str!("shared.lua")),
            interval: microseconds(interval),
            capacity: microseconds(capacity),
        }
    }

    /// Takes a token in one round trip, and returns the time until the bucket is full again. Succeeds if the cache is
    /// unavailable.
    pub async fn take(&self, client: Client) -> Result<Duration, Duration> {
        // The braces keep a client's buckets on one node of a cluster.
        let key = format!("limit:{}:{{{client}}}", self.name);
        let taken = self
            .cache
            .breaker()
            .run("EVALSHA", |mut connection| async move {
                let mut call = self.script.key(key);
                call.arg(self.interval).arg(self.capacity);
                call.invoke_async::<(u64, u64)>(&mut connection).await
            })
            .await;
        match taken {
            None => Ok(Duration::ZERO),
            Some((0, refill)) => Ok(Duration::from_micros(refill)),
            Some((wait, _)) => Err(Duration::from_micros(wait)),
        }
    }
}

/// Returns at least one: a rate above one token per microsecond is no effective limit.
fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
}
