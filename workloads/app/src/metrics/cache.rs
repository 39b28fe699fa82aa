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
    /// Probes after a late answer that were answered.
    pub probes_answered: Counter,
    /// Probes after a late answer that failed, after which requests go on without the cache.
    pub probes_failed: Counter,
}

impl CacheMetrics {
    /// Registers the metrics. Every series exists from the first scrape on, so that a rate over it is never absent.
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::<[(&str, &str); 1], Counter>::default();
        let child = |result: &'static str| requests.get_or_create_owned(&[("result", result)]);
        let probes = Family::<[(&str, &str); 1], Counter>::default();
        let probe = |result: &'static str| probes.get_or_create_owned(&[("result", result)]);
        let metrics = Self {
            hits: child("hit"),
            misses: child("miss"),
            up: Gauge::default(),
            probes_answered: probe("answered"),
            probes_failed: probe("failed"),
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
        registry.register(
            "cache_probes",
            "Probes of the cache after a late answer, by result",
            probes,
        );
        metrics
    }
}
