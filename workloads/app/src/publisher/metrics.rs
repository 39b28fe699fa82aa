//! The metrics of publishing, by the semantic conventions for messaging.
//!
//! <https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/>

use std::time::{Duration, SystemTime};

use prometheus_client::{
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family},
    registry::{Registry, Unit},
};
use shortener_common::{
    metrics::{Gauge, gauge},
    queue::topology::JOBS,
    trace::TraceContext,
};

use crate::metrics::Durations;

/// The upper bounds of the buckets in seconds, as OpenTelemetry recommends.
const BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

type PublishLabels = Vec<(&'static str, &'static str)>;

/// The metrics of the publisher; clones share the same series.
#[derive(Clone, Debug)]
pub struct PublisherMetrics {
    sent: Family<PublishLabels, Counter>,
    duration: Durations<PublishLabels>,
    /// 1 while jobs can be published.
    pub up: Gauge,
}

impl PublisherMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            sent: Family::default(),
            duration: Family::new_with_constructor(|| {
                HistogramWithExemplars::new(BUCKETS.into_iter())
            }),
            up: gauge(registry, "queue_up", "1 while jobs can be published"),
        };
        // They exist from the first scrape on, because alerts use them.
        let accepted = labels(None);
        drop(metrics.sent.get_or_create(&accepted));
        drop(metrics.duration.get_or_create(&accepted));
        registry.register(
            "messaging_client_sent_messages",
            "Jobs sent to the broker, with the reason if one was not accepted",
            metrics.sent.clone(),
        );
        registry.register_with_unit(
            "messaging_client_operation_duration",
            "Time until the broker confirmed or rejected a job",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        metrics
    }

    /// Counts an attempt to publish a job; `error` is one of few fixed words.
    pub fn attempt(&self, error: Option<&'static str>, duration: Duration, trace: TraceContext) {
        let labels = labels(error);
        self.sent.get_or_create(&labels).inc();
        let (duration, now) = (duration.as_secs_f64(), Some(SystemTime::now()));
        let series = self.duration.get_or_create(&labels);
        series.observe(duration, Some(trace), now);
    }
}

fn labels(error: Option<&'static str>) -> PublishLabels {
    let mut labels = vec![
        ("messaging_system", "rabbitmq"),
        ("messaging_operation_name", "publish"),
        ("messaging_destination_name", JOBS),
    ];
    labels.extend(error.map(|error| ("error_type", error)));
    labels
}
