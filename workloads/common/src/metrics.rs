//! Metrics that have their series from the first scrape on, so that queries see the first increase.

use std::sync::atomic::AtomicU32;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge},
    registry::Registry,
};

/// A gauge of a number that is never negative.
pub type Gauge = gauge::Gauge<u32, AtomicU32>;

/// Registers a gauge.
pub fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

/// Registers counters that one label tells apart, and returns them in the order of its values.
pub fn counters<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: [&'static str; N],
) -> [Counter; N] {
    let family = Family::<[(&str, &str); 1], Counter>::default();
    let counters = values.map(|value| family.get_or_create_owned(&[(label, value)]));
    registry.register(name, help, family);
    counters
}
