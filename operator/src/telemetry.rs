//! The export of the operator's traces to a collector.

pub mod http;

use std::time::Duration;

use prometheus::IntCounter;
use shortener_telemetry::{Queue, Service};
pub use shortener_telemetry::{Telemetry, TelemetryError, span};

/// Maximum number of spans that wait: those of about a hundred new stacks, in 4 MiB of memory.
const WAITING: usize = 4096;
/// Time limit of the last batches at the end of the process.
pub const FLUSH: Duration = Duration::from_secs(1);

/// Starts the export of this share of all traces. With an empty endpoint nothing is exported. `instance` is the name of the
/// pod, and `dropped` counts the spans that the collector did not take.
///
/// # Errors
/// The endpoint is malformed. A collector that is down is not an error.
pub fn start(
    endpoint: &str,
    ratio: f64,
    instance: &str,
    dropped: IntCounter,
) -> Result<Telemetry, TelemetryError> {
    if endpoint.is_empty() {
        return Ok(Telemetry::default());
    }
    let spans = Queue::new(WAITING, move |count| dropped.inc_by(count));
    Telemetry::start(endpoint, service(instance), ratio, spans, None)
}

/// Returns the program in its traces.
pub(crate) fn service(instance: &str) -> Service<'_> {
    Service {
        name: "shortener-operator",
        version: env!("CARGO_PKG_VERSION"),
        host: instance,
    }
}

#[cfg(test)]
mod tests {
    use shortener_testing::otlp::Sink;

    use super::*;

    #[tokio::test]
    async fn a_collector_gets_the_spans_and_the_name_of_the_program() {
        let (sink, endpoint) = Sink::start().await;
        let dropped = IntCounter::new("dropped", "Spans that were dropped.").unwrap();
        let telemetry = start(&endpoint, 1.0, "op-0", dropped.clone()).unwrap();
        let span = telemetry.tracer().root("work").unwrap();
        let trace = span.trace().trace_id.to_string();
        span.end();
        telemetry.shutdown(FLUSH).await;
        let sent = sink.span(&trace, "work").await;
        assert_eq!(sent["service"], "shortener-operator");
        assert_eq!(sent["resource"]["service.instance.id"], "op-0");
        assert_eq!(dropped.get(), 0);
    }

    #[tokio::test]
    async fn without_an_endpoint_nothing_is_exported() {
        let dropped = IntCounter::new("dropped", "Spans that were dropped.").unwrap();
        let telemetry = start("", 1.0, "op-0", dropped).unwrap();
        assert!(!telemetry.tracer().is_on());
    }
}
