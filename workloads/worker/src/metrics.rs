//! The metrics of the worker.

use std::time::{Duration, SystemTime};

use prometheus_client::{
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family, info::Info},
    registry::{Registry, Unit},
};
use shortener_common::{
    metrics::{Gauge, gauge},
    trace::TraceContext,
};

use crate::outcome::JobOutcome;

/// The upper bounds of the buckets in seconds: OpenTelemetry's recommendation, and longer ones because jobs may
/// take minutes.
const BUCKETS: [f64; 17] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0,
    300.0,
];

/// All metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    processed: Family<[(&'static str, &'static str); 1], Counter>,
    duration: HistogramWithExemplars<TraceContext>,
    /// The metrics of a scrape.
    pub registry: Registry,
    /// 1 while the database is up.
    pub database_up: Gauge,
    /// 1 while the worker consumes jobs from the queue.
    pub queue_up: Gauge,
    /// 1 while a job waits in the worker for a backend.
    pub holding: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let processed = Family::default();
        // Every series exists from the first scrape on, so that queries see the first increase.
        for outcome in JobOutcome::LABELS {
            drop(processed.get_or_create(&[("outcome", outcome)]));
        }
        registry.register(
            "jobs_processed",
            "Processed deliveries, by outcome",
            processed.clone(),
        );
        let duration = HistogramWithExemplars::new(BUCKETS.into_iter());
        registry.register_with_unit(
            "messaging_process_duration",
            "Time from the delivery of a job to its outcome, including waits for a backend",
            Unit::Seconds,
            duration.clone(),
        );
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("shortener_build", "The version that is running", build);
        let mut gauge = |name, help| gauge(&mut registry, name, help);
        Self {
            processed,
            duration,
            database_up: gauge("database_up", "1 while the database answers"),
            queue_up: gauge(
                "queue_up",
                "1 while the worker consumes jobs from the queue",
            ),
            holding: gauge(
                "jobs_holding",
                "1 while a job in the worker waits for the database, the vector store or another worker",
            ),
            registry,
        }
    }
}

impl Metrics {
    pub fn processed(&self, outcome: &JobOutcome, duration: Duration, trace: TraceContext) {
        let labels = [("outcome", outcome.label())];
        self.processed.get_or_create(&labels).inc();
        self.duration
            .observe(duration.as_secs_f64(), Some(trace), Some(SystemTime::now()));
    }
}

#[cfg(test)]
mod tests {
    use shortener_common::exposition::Format;

    use super::*;

    #[test]
    fn every_outcome_is_a_series_from_the_start_and_a_duration_leads_to_its_trace() {
        let metrics = Metrics::default();
        let trace = TraceContext::continuing(None);
        metrics.processed(&JobOutcome::Done, Duration::from_millis(20), trace);
        let text = Format::OpenMetrics.encode(&metrics.registry).unwrap();
        for (outcome, count) in [
            ("done", 1),
            ("duplicate", 0),
            ("failed", 0),
            ("rejected", 0),
            ("invalid", 0),
            ("given_back", 0),
        ] {
            let line = format!("jobs_processed_total{{outcome=\"{outcome}\"}} {count}\n");
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        let exemplar = format!(
            "messaging_process_duration_seconds_bucket{{le=\"0.025\"}} 1 # {{trace_id=\"{}\",span_id=\"{}\"}} 0.02 ",
            trace.trace_id, trace.span_id
        );
        assert!(text.contains(&exemplar), "{exemplar} is missing in\n{text}");
    }

    #[test]
    fn every_metric_is_documented() {
        let text = Format::Classic
            .encode(&Metrics::default().registry)
            .unwrap();
        let undocumented = shortener_testing::metrics::undocumented(&text);
        assert_eq!(undocumented, Vec::<&str>::new());
    }
}
