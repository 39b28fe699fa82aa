//! The metrics of the cache.

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use shortener_common::metrics::{Gauge, counters, gauge};

/// The metrics of the cache. The series are looked up once, at registration.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    /// Cache hits: lookups that needed no database query.
    pub hits: Counter,
    /// Cache misses, including lookups while the cache is down.
    pub misses: Counter,
    /// 1 while requests use the cache.
    pub up: Gauge,
    /// Probes after a late answer that were answered.
    pub probes_answered: Counter,
    /// Probes after a late answer that failed, after which requests go on without the cache.
    pub probes_failed: Counter,
}

impl CacheMetrics {
    /// Registers the metrics. Every series exists from the first scrape on, so that a rate over it is never absent.
    pub fn register(registry: &mut Registry) -> Self {
        let [hits, misses] = counters(
            registry,
            "cache_requests",
            "Lookups of a code in the cache, by result",
            "result",
            ["hit", "miss"],
        );
        let up = gauge(registry, "cache_up", "1 while requests use the cache");
        let [probes_answered, probes_failed] = counters(
            registry,
            "cache_probes",
            "Probes of the cache after a late answer, by result",
            "result",
            ["answered", "failed"],
        );
        Self {
            hits,
            misses,
            up,
            probes_answered,
            probes_failed,
        }
    }
}
