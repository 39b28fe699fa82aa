//! The buckets in the cache, which all replicas share.

use std::{sync::Arc, time::Duration};

use redis::Script;

use super::{
    LimitedClient, Rate,
    bucket::{Demand, Grant, Terms},
    nanoseconds,
};
use crate::store::cache::Cache;

/// The buckets of one limit, with one key per client that was below its full burst a short time ago.
pub(super) struct SharedBuckets {
    cache: Arc<Cache>,
    name: &'static str,
    script: Script,
    /// Microseconds in which one token is refilled.
    interval: u64,
    /// Microseconds in which an empty bucket is refilled.
    capacity: u64,
    /// Microseconds for which a full bucket is remembered.
    memory: u64,
}

impl SharedBuckets {
    /// Returns buckets of this rate under this name.
    pub(super) fn new(name: &'static str, rate: Rate, cache: Arc<Cache>) -> Self {
        let (interval, capacity) = rate.times();
        let memory = Terms::of(rate, true).memory();
        Self {
            cache,
            name,
            script: Script::new(include_str!("shared.lua")),
            interval: microseconds(interval).max(1),
            capacity: microseconds(capacity).max(1),
            memory: microseconds(Duration::from_nanos(memory)),
        }
    }

    /// Asks the bucket of a client, in one round trip; `None` if the cache is unavailable.
    pub(super) async fn ask(&self, client: LimitedClient, demand: Demand) -> Option<Grant> {
        // The braces keep a client's buckets on one node of a cluster.
        let key = format!("limit:{}:{{{client}}}", self.name);
        let age = microseconds(Duration::from_nanos(demand.age));
        let answer = self
            .cache
            .connection()
            .run("EVALSHA", async |mut channel| {
                let mut call = self.script.key(key);
                call.arg(self.interval).arg(self.capacity);
                call.arg(demand.debt).arg(age).arg(self.memory);
                call.arg(demand.cost);
                call.invoke_async::<(u32, u32, u64)>(&mut channel).await
            })
            .await;
        let (paid, taken, refill) = answer?;
        Some(Grant {
            paid,
            passes: taken > 0,
            refill: nanoseconds(Duration::from_micros(refill)),
        })
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
