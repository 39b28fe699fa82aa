//! The metrics of the cache.

use std::sync::atomic::AtomicU32;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The metrics of the cache. The series are looked up once, at registration.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    /// Cache hits: lookups that needed no database query.
    pub hits: Counter,
    /// Cache misses, including lookups while the cache is down.
    pub misses: Counter,
    /// 1 while requests use the cache.
    pub up: Gauge<u32, AtomicU32>,
}

impl CacheMetrics {
    /// Registers the metrics. Both series exist from the first scrape on, so that a rate over either is never
    /// absent.
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::<[(&str, &str); 1], Counter>::default();
        let child = |result: &'static str| requests.get_or_create_owned(&[("result", result)]);
        let metrics = Self {
            hits: child("hit"),
            misses: child("miss"),
            up: Gauge::default(),
        };
        registry.register(
            "cache_requests",
            "Lookups of a code in the cache, by result",
            requests,
        );
        registry.register(
            "cache_up",
            "1 while requests use the cache",
            metrics.up.clone(),
        );
        metrics
    }
}
