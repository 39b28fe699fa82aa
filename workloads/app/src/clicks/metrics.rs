//! The metrics of clicks. None has a code.

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use shortener_common::metrics::counters;

/// The clicks that were stored, and those that were lost.
#[derive(Clone, Debug, Default)]
pub struct ClickMetrics {
    pub(super) people: Counter,
    pub(super) bots: Counter,
    /// Those that found no room in memory.
    pub(super) lost_full: Counter,
    /// Those that the database had not stored when the app ended.
    pub(super) lost_at_end: Counter,
}

impl ClickMetrics {
    /// Registers the metrics. All series exist from the first scrape on.
    pub fn register(registry: &mut Registry) -> Self {
        let [people, bots] = counters(
            registry,
            "clicks_stored",
            "Clicks that the database has stored",
            "kind",
            ["people", "bots"],
        );
        let [lost_full, lost_at_end] = counters(
            registry,
            "clicks_lost",
            "Clicks that were not counted",
            "reason",
            ["full", "end"],
        );
        Self {
            people,
            bots,
            lost_full,
            lost_at_end,
        }
    }
}
