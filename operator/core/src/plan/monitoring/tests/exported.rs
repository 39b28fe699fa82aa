//! The metrics that the app, the workers, the delivery of webhooks and the operator export after each kind of event has occurred once.

use std::{collections::BTreeSet, time::Duration};

use http::{Method, StatusCode};
use shortener_app::{
    metrics::CacheMetrics,
    publisher::metrics::PublisherMetrics,
    route::Route,
    storage::Storage,
    webhooks::{metrics as webhooks, overdue::Overdue},
};
use shortener_common::{
    exposition::Format, memory::Memory, telemetry::Dropped, trace::TraceContext,
    vector::VectorMetrics,
};
use shortener_worker::outcome::JobOutcome;

/// The operator's metrics after each kind of event. A test of the crate `shortener-operator` keeps them current.
const OPERATOR: &str = include_str!("../../../../../snapshots/metrics.snap");

/// The exported metrics, with any exemplars.
pub(super) struct Exported(String);

impl Default for Exported {
    fn default() -> Self {
        Self([app(), worker(), delivery(), OPERATOR.to_owned()].concat())
    }
}

impl Exported {
    /// Returns the lines of a metric's series.
    fn lines(&self, series: &str) -> impl Iterator<Item = &str> {
        let of_it = move |line: &&str| {
            let rest = line.strip_prefix(series);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        self.0.lines().filter(of_it)
    }

    /// Returns true when such series exist.
    pub(super) fn has(&self, series: &str) -> bool {
        self.lines(series).next().is_some()
    }

    /// Returns true when the series have a label, and also with each of the given values.
    pub(super) fn has_label(&self, series: &str, label: &str, values: &[&str]) -> bool {
        let has = |text: String| self.lines(series).any(|line| line.contains(&text));
        let mut values = values.iter();
        has(format!("{label}=\"")) && values.all(|value| has(format!("{label}=\"{value}\"")))
    }

    /// Returns true when points of the series link to traces.
    pub(super) fn has_exemplars(&self, series: &str) -> bool {
        let mut lines = self.lines(series);
        lines.any(|line| line.contains(" # {trace_id="))
    }
}

fn trace() -> TraceContext {
    TraceContext::continuing(None)
}

fn ask(store: &VectorMetrics) {
    store.operation("query", None, Duration::ZERO);
    // The gRPC status code for an unavailable store.
    store.operation("query", Some(14.into()), Duration::ZERO);
}

fn app() -> String {
    let mut metrics = shortener_app::metrics::Metrics::default();
    let registry = &mut metrics.registry;
    registry.register_collector(Box::new(Dropped::default()));
    Memory::default().register(registry);
    let _storage = Storage::register(registry, Some(1));
    let _cache = CacheMetrics::register(registry);
    let publisher = PublisherMetrics::register(registry);
    ask(&VectorMetrics::register(registry));
    for refusal in [None, Some("blocked")] {
        publisher.attempt(refusal, Duration::ZERO, trace());
    }
    let overdue = vec![("crm".to_owned(), 0)];
    Overdue::register(registry).show(&mut BTreeSet::new(), overdue);
    for answered in [
        (&Method::GET, Route::REDIRECT, StatusCode::FOUND),
        (&Method::GET, Route::WITH_ARGUMENTS, StatusCode::FOUND),
        (&Method::POST, Route::JOBS, StatusCode::NOT_IMPLEMENTED),
    ] {
        metrics.ended(answered, Duration::ZERO, trace());
    }
    Format::OpenMetrics.encode(&metrics.registry).unwrap()
}

fn worker() -> String {
    let mut metrics = shortener_worker::metrics::Metrics::default();
    let registry = &mut metrics.registry;
    registry.register_collector(Box::new(Dropped::default()));
    ask(&VectorMetrics::register(registry));
    metrics.processed(&JobOutcome::Done, Duration::ZERO, trace());
    Format::OpenMetrics.encode(&metrics.registry).unwrap()
}

fn delivery() -> String {
    let receivers =
        r#"[{"name":"crm","url":"https://hooks.example.com","events":["link.created"]}]"#;
    let mut metrics = webhooks::Metrics::of(&receivers.parse().unwrap());
    let losses = Box::new(Dropped::default());
    metrics.registry.register_collector(losses);
    Format::OpenMetrics.encode(&metrics.registry).unwrap()
}
