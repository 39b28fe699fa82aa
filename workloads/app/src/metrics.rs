//! The metrics of the app.
//!
//! A request costs two array lookups, one atomic increment and one short critical section of its own series. Series
//! are created on first use and found by position afterwards, without hashing their labels. Few requests become exemplars.

mod answered;
mod auth;
mod cache;
mod schedule;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::{Method, StatusCode};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{
        MetricType, counter::Counter, exemplar::HistogramWithExemplars, gauge::Gauge, info::Info,
    },
    registry::{Registry, Unit},
};
use shortener_common::{
    database::LaneMetrics, purge::PurgeMetrics, trace::TraceContext, vector::VectorMetrics,
};
use tokio::time::Instant;

use crate::{
    publisher::metrics::PublisherMetrics,
    route::{ROUTES, Route},
};

pub use self::{
    answered::Answered, auth::AuthMetrics, cache::CacheMetrics, schedule::ScheduleMetrics,
};

/// The upper bounds of the buckets in seconds: OpenTelemetry's recommendation, with finer steps below 5 ms because
/// a redirect takes less.
const BUCKETS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    10.0,
];

/// The time for which a bucket keeps its exemplar. A scraper sees the last one only, so replacing it more often would only
/// cost time.
const EXEMPLAR: Duration = Duration::from_millis(100);

const METHODS: [&str; 10] = [
    "_OTHER", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];

/// Returns the method as a label. Unknown methods share `_OTHER`, so that clients cannot create series.
#[must_use]
pub fn method_label(method: &Method) -> &'static str {
    METHODS[method_index(method)]
}

fn method_index(method: &Method) -> usize {
    METHODS
        .iter()
        .position(|known| *known == method.as_str())
        .unwrap_or(0)
}

/// One series of the request metrics.
#[derive(Debug)]
struct Child {
    requests: Counter,
    duration: HistogramWithExemplars<TraceContext>,
    /// The turn in which each bucket got its exemplar, and the one for longer requests; 0 before the first.
    turns: [AtomicU64; BUCKETS.len() + 1],
}

impl Default for Child {
    fn default() -> Self {
        Self {
            requests: Counter::default(),
            duration: HistogramWithExemplars::new(BUCKETS.into_iter()),
            turns: Default::default(),
        }
    }
}

impl Child {
    /// Counts a request in this turn. The first one of its bucket and turn becomes the exemplar.
    fn count(&self, turn: u64, duration: Duration, trace: TraceContext) {
        let seconds = duration.as_secs_f64();
        let bucket = BUCKETS.iter().position(|bound| seconds <= *bound);
        let last = &self.turns[bucket.unwrap_or(BUCKETS.len())];
        let is_first = last.load(Ordering::Relaxed) != turn;
        if is_first {
            last.store(turn, Ordering::Relaxed);
        }
        let exemplar = is_first.then_some(trace);
        let time = is_first.then(SystemTime::now);
        self.requests.inc();
        self.duration.observe(seconds, exemplar, time);
    }
}

/// One slot for each status from 100 to 599.
type Statuses = Box<[OnceLock<Child>]>;

/// The metrics `http_requests_total` and `http_server_request_duration_seconds`.
#[derive(Debug)]
struct HttpMetrics {
    /// The series by route and method, then by status.
    series: [[OnceLock<Statuses>; METHODS.len()]; ROUTES.len()],
}

impl HttpMetrics {
    fn new() -> Self {
        Self {
            series: std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new())),
        }
    }

    fn child(&self, route: Route, method: usize, status: StatusCode) -> &Child {
        let statuses = self.series[route.index()][method]
            .get_or_init(|| std::iter::repeat_with(OnceLock::new).take(500).collect());
        let slot = usize::from(status.as_u16().clamp(100, 599) - 100);
        statuses[slot].get_or_init(Child::default)
    }

    fn each(
        &self,
        encoder: &mut MetricEncoder<'_>,
        metric: impl Fn(&Child) -> &dyn EncodeMetric,
    ) -> Result<(), fmt::Error> {
        for (route, methods) in ROUTES.iter().zip(&self.series) {
            for (method, statuses) in METHODS.iter().zip(methods) {
                let slots = statuses.get().into_iter().flatten().enumerate();
                for (slot, child) in slots.filter_map(|(slot, child)| Some((slot, child.get()?))) {
                    let status = (slot + 100).to_string();
                    let labels = [
                        ("http_request_method", *method),
                        ("http_route", route.template),
                        ("http_response_status_code", status.as_str()),
                    ];
                    metric(child).encode(encoder.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

/// A collector that exposes the series without a second copy of them.
#[derive(Debug)]
struct HttpCollector(Arc<HttpMetrics>);

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut requests = encoder.encode_descriptor(
            "http_requests",
            "Answered requests",
            None,
            MetricType::Counter,
        )?;
        self.0.each(&mut requests, |child| &child.requests)?;
        let mut duration = encoder.encode_descriptor(
            "http_server_request_duration",
            "Time from the end of a request's header to its response",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        self.0.each(&mut duration, |child| &child.duration)
    }
}

/// All metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    http: Arc<HttpMetrics>,
    /// The time from which turns are counted.
    start: Instant,
    registry: Registry,
    /// The number of open connections on the public port.
    pub open_connections: Gauge<u32, AtomicU32>,
    /// 1 while the database is up.
    pub database_up: Gauge<u32, AtomicU32>,
    /// The metrics of the admission to the database.
    pub database_lanes: LaneMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let http = Arc::new(HttpMetrics::new());
        // The two series that alerts use exist from the first scrape on.
        http.child(Route::from_template(Some("/{code}")), 1, StatusCode::FOUND);
        http.child(
            Route::from_template(Some("/shorten")),
            3,
            StatusCode::CREATED,
        );
        let mut registry = Registry::default();
        registry.register_collector(Box::new(HttpCollector(Arc::clone(&http))));
        let metrics = Self {
            http,
            start: Instant::now(),
            open_connections: Gauge::default(),
            database_up: Gauge::default(),
            database_lanes: LaneMetrics::register(&mut registry),
            registry,
        };
        metrics.register_gauges()
    }
}

impl Metrics {
    fn register_gauges(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register(
            "http_server_open_connections",
            "Open connections on the public port",
            self.open_connections.clone(),
        );
        registry.register(
            "database_up",
            "1 while the database answers",
            self.database_up.clone(),
        );
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("shortener_build", "The version that is running", build);
        self
    }

    pub fn request(&self, request: &Answered<'_>) {
        let method = method_index(request.method);
        let child = self.http.child(request.route, method, request.status);
        let age = request.start.saturating_duration_since(self.start) + request.duration;
        let turn = 1 + age.as_millis() as u64 / EXEMPLAR.as_millis() as u64;
        child.count(turn, request.duration, request.trace);
    }

    /// Registers the metrics of another part of the process.
    pub fn register(&mut self, collector: Box<dyn Collector>) {
        self.registry.register_collector(collector);
    }

    /// Registers the metrics of keys, which exist only if clients can have keys.
    pub fn with_auth(&mut self) -> AuthMetrics {
        AuthMetrics::register(&mut self.registry)
    }

    /// Registers the metrics of the cache, which exist only with a cache.
    pub fn with_cache(&mut self) -> CacheMetrics {
        CacheMetrics::register(&mut self.registry)
    }

    /// Registers the metrics of the purge, which exist only if it has a schedule.
    pub fn with_purge(&mut self) -> (PurgeMetrics, ScheduleMetrics) {
        let registry = &mut self.registry;
        (
            PurgeMetrics::register(registry),
            ScheduleMetrics::register(registry),
        )
    }

    /// Registers the metrics of the publisher, which exist only with the queue profile.
    pub fn with_publisher(&mut self) -> PublisherMetrics {
        PublisherMetrics::register(&mut self.registry)
    }

    /// Registers the metrics of the vector store, which exist only with the vector profile.
    pub fn with_vector(&mut self) -> VectorMetrics {
        VectorMetrics::register(&mut self.registry)
    }

    /// Returns the registry that a scrape encodes.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use shortener_common::{exposition::Format, memory::Memory};

    use super::*;

    fn observed() -> (Metrics, TraceContext) {
        let metrics = Metrics::default();
        let trace = TraceContext::from_headers(&HeaderMap::new());
        let brew = Method::from_bytes(b"BREW").unwrap();
        let get = Method::GET;
        metrics.request(&redirect(&metrics, &get, trace));
        metrics.request(&Answered {
            duration: Duration::ZERO,
            ..redirect(&metrics, &brew, trace)
        });
        (metrics, trace)
    }

    /// Returns a redirect that began with the process and took 2 ms.
    fn redirect<'a>(metrics: &Metrics, method: &'a Method, trace: TraceContext) -> Answered<'a> {
        Answered {
            route: Route::from_template(Some("/{code}")),
            method,
            status: StatusCode::FOUND,
            trace,
            start: metrics.start,
            duration: Duration::from_millis(2),
        }
    }

    #[test]
    fn series_carry_the_template_and_a_bounded_method() {
        let text = Format::Classic.encode(observed().0.registry()).unwrap();
        for line in [
            "# TYPE http_requests_total counter",
            "http_requests_total{http_request_method=\"GET\",http_route=\"/{code}\",http_response_status_code=\"302\"} 1",
            "http_requests_total{http_request_method=\"_OTHER\",http_route=\"/{code}\",http_response_status_code=\"302\"} 1",
            "http_requests_total{http_request_method=\"POST\",http_route=\"/shorten\",http_response_status_code=\"201\"} 0",
            "# TYPE http_server_request_duration_seconds histogram",
            concat!(
                "shortener_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
    }

    #[test]
    fn exemplars_lead_from_a_bucket_to_its_trace() {
        let (metrics, trace) = observed();
        let text = Format::OpenMetrics.encode(metrics.registry()).unwrap();
        let exemplar = format!(
            "# {{trace_id=\"{}\",span_id=\"{}\"}} 0.002 ",
            trace.trace_id, trace.span_id
        );
        assert!(text.contains(&exemplar), "{exemplar} is missing in\n{text}");
        assert!(text.contains("# UNIT http_server_request_duration_seconds seconds"));
    }

    #[test]
    fn every_request_is_counted_and_the_first_of_each_turn_is_the_exemplar() {
        let (metrics, get) = (Metrics::default(), Method::GET);
        let traces: [TraceContext; 5] = std::array::from_fn(|_| TraceContext::root());
        let mut shown = Vec::new();
        for (trace, turns) in traces.into_iter().zip([0, 0, 1, 3, 2]) {
            let request = redirect(&metrics, &get, trace);
            metrics.request(&Answered {
                start: request.start + EXEMPLAR * turns,
                ..request
            });
            let text = Format::OpenMetrics.encode(metrics.registry()).unwrap();
            let is_shown = |trace: &TraceContext| text.contains(&trace.trace_id.to_string());
            shown.push(traces.iter().position(is_shown));
        }
        assert_eq!(shown, [0, 0, 2, 3, 4].map(Some));
        let text = Format::OpenMetrics.encode(metrics.registry()).unwrap();
        let count = "http_server_request_duration_seconds_count{http_request_method=\"GET\",http_route=\"/{code}\",http_response_status_code=\"302\"} 5";
        assert!(text.lines().any(|line| line == count), "{text}");
    }

    #[test]
    fn every_metric_is_documented() {
        let (mut metrics, _) = observed();
        let _auth = metrics.with_auth();
        let _cache = metrics.with_cache();
        let _publisher = metrics.with_publisher();
        let _purge = metrics.with_purge();
        metrics.register(Memory::default().metrics());
        let text = Format::Classic.encode(metrics.registry()).unwrap();
        let undocumented = shortener_testing::metrics::undocumented(&text);
        assert_eq!(undocumented, Vec::<&str>::new());
    }
}
