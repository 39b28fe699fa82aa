//! The metrics of keys.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use shortener_common::metrics::{Gauge, counters};

/// The metrics of keys. No label names a client, because their number is not bounded by this program.
#[derive(Clone, Debug)]
pub struct AuthMetrics {
    /// Requests with a key that was accepted.
    pub accepted: Counter,
    /// Refused requests without a key.
    pub missing: Counter,
    /// Requests with a key that is malformed or not known.
    pub invalid: Counter,
    /// Refused requests with a key that has not got the scope.
    pub forbidden: Counter,
    loaded: Gauge,
    ignored: Gauge,
}

impl AuthMetrics {
    /// Registers the metrics. Every series exists from the first scrape on.
    pub fn register(registry: &mut Registry) -> Self {
        let [accepted, missing, invalid, forbidden] = counters(
            registry,
            "auth_requests",
            "Requests on routes that take keys, by result",
            "result",
            ["accepted", "missing", "invalid", "forbidden"],
        );
        let keys = Family::<[(&str, &str); 1], Gauge>::default();
        let state = |state: &'static str| keys.get_or_create_owned(&[("state", state)]);
        let (loaded, ignored) = (state("loaded"), state("ignored"));
        registry.register("auth_keys", "Keys of clients, by state", keys);
        Self {
            accepted,
            missing,
            invalid,
            forbidden,
            loaded,
            ignored,
        }
    }

    /// Sets the number of keys that are used, and of entries and lines that are not.
    pub fn set_keys(&self, loaded: usize, ignored: usize) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.loaded.set(number(loaded));
        self.ignored.set(number(ignored));
    }
}
