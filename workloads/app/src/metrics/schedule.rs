//! The metrics of the schedule of the purge.

use jiff::Timestamp;
use prometheus_client::{
    metrics::gauge::Gauge,
    registry::{Registry, Unit},
};

/// The metrics of the schedule. Every replica reads them from the database, so they are those of the stack.
#[derive(Clone, Debug)]
pub struct ScheduleMetrics {
    last_success: Gauge,
    missed: Gauge,
}

impl ScheduleMetrics {
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            last_success: Gauge::default(),
            missed: Gauge::default(),
        };
        registry.register_with_unit(
            "purge_last_success_timestamp",
            "Time of the last removal of expired data that succeeded, since 1970",
            Unit::Seconds,
            metrics.last_success.clone(),
        );
        registry.register(
            "purge_missed",
            "Times of the schedule since the last removal of expired data that succeeded",
            metrics.missed.clone(),
        );
        metrics
    }

    /// Sets the time of the last success and the number of times since.
    pub fn set(&self, last_success: Timestamp, missed: usize) {
        self.last_success.set(last_success.as_second());
        self.missed.set(i64::try_from(missed).unwrap_or(i64::MAX));
    }
}
