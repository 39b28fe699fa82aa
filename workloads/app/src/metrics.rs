//! The metrics of the app.

mod auth;
mod cache;

use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family, info::Info},
    registry::{Registry, Unit},
};
use shortener_common::{
    database::AdmissionMetrics,
    metrics::{Gauge, gauge},
    trace::TraceContext,
};

use crate::route::Route;

pub use self::{auth::AuthMetrics, cache::CacheMetrics};

/// The upper bounds of the buckets in seconds: OpenTelemetry's recommendation, with finer steps below 5 ms because
/// a redirect takes less.
const BUCKETS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    10.0,
];

/// The statuses of failures of the server.
const FAILURES: [StatusCode; 2] = [
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];

/// Returns the method as a label. Unknown methods share `_OTHER`, so that clients cannot create series.
pub fn method_label(method: &Method) -> &'static str {
    let known = METHODS.iter().find(|known| **known == method.as_str());
    known.copied().unwrap_or("_OTHER")
}

/// The labels of a request. All have few values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    http_request_method: &'static str,
    http_route: &'static str,
    http_response_status_code: u16,
}

impl RequestLabels {
    fn of(method: &Method, route: Route, status: StatusCode) -> Self {
        Self {
            http_request_method: method_label(method),
            http_route: route.as_str(),
            http_response_status_code: status.as_u16(),
        }
    }
}

/// Durations by labels, with the traces of examples.
pub(crate) type Durations<L> =
    Family<L, HistogramWithExemplars<TraceContext>, fn() -> HistogramWithExemplars<TraceContext>>;

/// The metrics `http_requests_total` and `http_server_request_duration_seconds`.
#[derive(Debug)]
struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Durations<RequestLabels>,
}

impl HttpMetrics {
    fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| {
                HistogramWithExemplars::new(BUCKETS.into_iter())
            }),
        };
        // These series exist from the first scrape on: to Prometheus, the first value of a series is no increase, so alerts
        // would miss the failures before it.
        for (method, route, usual) in [
            (Method::GET, Route::REDIRECT, StatusCode::FOUND),
            (Method::POST, Route::SHORTEN, StatusCode::CREATED),
        ] {
            let usual = RequestLabels::of(&method, route, usual);
            drop(metrics.durations.get_or_create(&usual));
            drop(metrics.requests.get_or_create(&usual));
            for failure in FAILURES {
                let failure = RequestLabels::of(&method, route, failure);
                drop(metrics.requests.get_or_create(&failure));
            }
        }
        registry.register(
            "http_requests",
            "Requests, answered or given up because the client left (499)",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "http_server_request_duration",
            "Time from the end of a request's header to its response, or until its client left",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        metrics
    }

    fn count(&self, labels: &RequestLabels, duration: Duration, trace: TraceContext) {
        self.requests.get_or_create(labels).inc();
        let (seconds, now) = (duration.as_secs_f64(), SystemTime::now());
        let durations = self.durations.get_or_create(labels);
        durations.observe(seconds, Some(trace), Some(now));
    }
}

/// All metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    http: HttpMetrics,
    /// The metrics of a scrape.
    pub registry: Registry,
    /// The number of open connections on the public port.
    pub open_connections: Gauge,
    /// 1 while the database is up.
    pub database_up: Gauge,
    /// The metrics of the admission to the database.
    pub database_lanes: AdmissionMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let http = HttpMetrics::register(&mut registry);
        let database_lanes = AdmissionMetrics::register(&mut registry);
        let open_connections = gauge(
            &mut registry,
            "http_server_open_connections",
            "Open connections on the public port",
        );
        let database_up = gauge(&mut registry, "database_up", "1 while the database answers");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("shortener_build", "The version that is running", build);
        Self {
            http,
            registry,
            open_connections,
            database_up,
            database_lanes,
        }
    }
}

impl Metrics {
    /// Counts a request that ended with this status after this time. Its trace becomes the exemplar of its bucket.
    pub fn ended(
        &self,
        (method, route, status): (&Method, Route, StatusCode),
        duration: Duration,
        trace: TraceContext,
    ) {
        let labels = RequestLabels::of(method, route, status);
        self.http.count(&labels, duration, trace);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use shortener_common::{exposition::Format, memory::Memory};

    use super::*;
    use crate::{clicks::ClickMetrics, publisher::metrics::PublisherMetrics, storage::Storage};

    fn observed() -> (Metrics, TraceContext) {
        let metrics = Metrics::default();
        let trace = TraceContext::from_headers(&HeaderMap::new());
        let brew = Method::from_bytes(b"BREW").unwrap();
        for method in [Method::GET, brew] {
            redirect(&metrics, &method, trace);
        }
        (metrics, trace)
    }

    /// Counts a redirect that took 2 ms.
    fn redirect(metrics: &Metrics, method: &Method, trace: TraceContext) {
        let what = (method, Route::REDIRECT, StatusCode::FOUND);
        metrics.ended(what, Duration::from_millis(2), trace);
    }

    #[test]
    fn series_carry_the_template_and_a_bounded_method() {
        let text = Format::Classic.encode(&observed().0.registry).unwrap();
        for line in [
            "# TYPE http_requests_total counter",
            "http_requests_total{http_request_method=\"GET\",http_route=\"/{code}\",http_response_status_code=\"302\"} 1",
            "http_requests_total{http_request_method=\"_OTHER\",http_route=\"/{code}\",http_response_status_code=\"302\"} 1",
            "http_requests_total{http_request_method=\"POST\",http_route=\"/shorten\",http_response_status_code=\"201\"} 0",
            "http_requests_total{http_request_method=\"POST\",http_route=\"/shorten\",http_response_status_code=\"503\"} 0",
            "http_requests_total{http_request_method=\"GET\",http_route=\"/{code}\",http_response_status_code=\"500\"} 0",
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
        let text = Format::OpenMetrics.encode(&metrics.registry).unwrap();
        let exemplar = format!(
            "# {{trace_id=\"{}\",span_id=\"{}\"}} 0.002 ",
            trace.trace_id, trace.span_id
        );
        assert!(text.contains(&exemplar), "{exemplar} is missing in\n{text}");
        assert!(text.contains("# UNIT http_server_request_duration_seconds seconds"));
    }

    #[test]
    fn every_request_is_counted_and_the_last_one_is_the_exemplar() {
        let metrics = Metrics::default();
        let traces: [TraceContext; 3] = std::array::from_fn(|_| TraceContext::root());
        for trace in traces {
            redirect(&metrics, &Method::GET, trace);
        }
        let text = Format::OpenMetrics.encode(&metrics.registry).unwrap();
        let shown = traces.map(|trace| text.contains(&trace.trace_id.to_string()));
        assert_eq!(shown, [false, false, true]);
        let count = "http_server_request_duration_seconds_count{http_request_method=\"GET\",http_route=\"/{code}\",http_response_status_code=\"302\"} 3";
        assert!(text.lines().any(|line| line == count), "{text}");
    }

    #[test]
    fn every_metric_is_documented() {
        let (mut metrics, _) = observed();
        let _storage = Storage::register(&mut metrics.registry, Some(1));
        let _auth = AuthMetrics::register(&mut metrics.registry);
        let _cache = CacheMetrics::register(&mut metrics.registry);
        let _clicks = ClickMetrics::register(&mut metrics.registry);
        let _publisher = PublisherMetrics::register(&mut metrics.registry);
        Memory::default().register(&mut metrics.registry);
        let text = Format::Classic.encode(&metrics.registry).unwrap();
        let undocumented = shortener_testing::metrics::undocumented(&text);
        assert_eq!(undocumented, Vec::<&str>::new());
    }
}
