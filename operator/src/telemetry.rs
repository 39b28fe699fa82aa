//! The export of traces to a collector, with OTLP over gRPC.
//!
//! A span enters a bounded queue, or is dropped and counted if the queue is full, so no reconcile ever waits for the
//! collector. Nothing of this runs without an endpoint. The provider of the SDK is not used: its queue drops without
//! counting, and its shutdown can block for 5 s.

mod export;
pub mod http;
pub mod span;

use std::time::Duration;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::{Resource, trace::SpanExporter as Exporter};
use prometheus::IntCounter;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use export::{EXPORT, Queue};
use span::Tracer;

/// Name of the program in its traces.
const SERVICE: &str = "shortener-operator";
/// Version of the program in its traces.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Time limit of connecting to the collector.
const CONNECT: Duration = Duration::from_secs(2);
/// Interval of HTTP/2 keep-alive pings, and the time limit of their acknowledgement. Pings are sent during an export only,
/// as gRPC servers want it, so both together must be shorter than [`EXPORT`]: otherwise a connection to a machine that
/// vanished is used until TCP gives up, a quarter of an hour later.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(2));
/// Time limit of the last batches at the end of the process.
const FLUSH: Duration = Duration::from_secs(1);

/// An error in the settings of the export.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The endpoint is not an address.
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT is invalid: `{0}` must be like http://host:4317")]
    Endpoint(String),
    /// TLS cannot be set up.
    #[error("cannot set up TLS for OTEL_EXPORTER_OTLP_ENDPOINT: {0}")]
    Tls(#[source] tonic::transport::Error),
    /// A variable of the exporter is invalid.
    #[error("cannot set up the export of traces, check the variables OTEL_EXPORTER_OTLP_*: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The export of one process, from its start to its last batch. Dropping it ends the export at once.
#[derive(Default)]
pub struct Telemetry {
    tracer: Tracer,
    end: CancellationToken,
    export: Option<AbortOnDropHandle<()>>,
}

impl Telemetry {
    /// Starts the export of this share of all traces. With an empty endpoint nothing is exported. `instance` is the name
    /// of the pod, and `dropped` counts the spans that the collector did not take.
    ///
    /// # Errors
    /// The endpoint is malformed. A collector that is down is not an error.
    pub fn start(
        endpoint: &str,
        ratio: f64,
        instance: &str,
        dropped: IntCounter,
    ) -> Result<Self, TelemetryError> {
        if endpoint.is_empty() {
            return Ok(Self::default());
        }
        let builder = SpanExporter::builder()
            .with_tonic()
            .with_channel(channel(endpoint)?);
        let mut exporter = builder.with_timeout(EXPORT).build()?;
        exporter.set_resource(&resource(instance));
        Ok(Self::to(exporter, ratio, dropped))
    }

    /// Starts the export to an exporter.
    pub(crate) fn to<E: Exporter + 'static>(exporter: E, ratio: f64, dropped: IntCounter) -> Self {
        let end = CancellationToken::new();
        let (spans, work) = Queue::start(exporter, dropped, end.clone());
        let scope = InstrumentationScope::builder(SERVICE)
            .with_version(VERSION)
            .build();
        Self {
            tracer: Tracer::new(spans, scope, ratio),
            end,
            export: Some(AbortOnDropHandle::new(tokio::spawn(work))),
        }
    }

    /// Returns the tracer of this process.
    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Sends the remaining spans, for at most 1 s: a silent collector must not delay the end of the process.
    pub async fn shutdown(self) {
        self.end.cancel();
        if let Some(export) = self.export {
            // What was not sent in time is lost, which traces may be.
            let _ = timeout(FLUSH, export).await;
        }
    }
}

/// Returns the channel to the collector, which connects on first use.
fn channel(endpoint: &str) -> Result<Channel, TelemetryError> {
    let invalid = || TelemetryError::Endpoint(endpoint.to_owned());
    let address = Endpoint::from_shared(endpoint.to_owned()).map_err(|_| invalid())?;
    let address = match address.uri().scheme_str() {
        Some("http") => address,
        Some("https") => address
            .tls_config(ClientTlsConfig::new().with_enabled_roots())
            .map_err(TelemetryError::Tls)?,
        _ => return Err(invalid()),
    };
    Ok(address
        .connect_timeout(CONNECT)
        .timeout(EXPORT)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .connect_lazy())
}

/// Describes the process: the attributes of `OTEL_RESOURCE_ATTRIBUTES`, the program and its pod.
fn resource(instance: &str) -> Resource {
    Resource::builder()
        .with_service_name(SERVICE)
        .with_attributes([
            KeyValue::new("service.version", VERSION),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ])
        .build()
}

#[cfg(test)]
mod tests {
    use shortener_testing::otlp::{Sink, until_reconnected};

    use super::*;

    fn counter() -> IntCounter {
        IntCounter::new("dropped", "Spans that were dropped.").unwrap()
    }

    #[tokio::test]
    async fn without_an_endpoint_nothing_is_exported() {
        let telemetry = Telemetry::start("", 1.0, "op-0", counter()).unwrap();
        assert!(!telemetry.tracer().is_on());
        telemetry.shutdown().await;
    }

    #[tokio::test]
    async fn a_malformed_endpoint_is_refused_by_the_name_of_its_setting() {
        for bad in ["collector:4317", "ftp://collector", "http://", "a b"] {
            let error = Telemetry::start(bad, 1.0, "op-0", counter()).err().unwrap();
            let message = error.to_string();
            assert!(message.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{message}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_may_be_reached_over_tls() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for good in ["http://collector:4317", "https://collector.example"] {
            let telemetry = Telemetry::start(good, 1.0, "op-0", counter()).unwrap();
            assert!(telemetry.tracer().is_on());
        }
    }

    #[tokio::test]
    async fn a_connection_that_answers_nothing_is_replaced() {
        until_reconnected(async |endpoint| {
            let builder = SpanExporter::builder()
                .with_tonic()
                .with_channel(channel(&endpoint).unwrap());
            let exporter = builder.with_timeout(EXPORT).build().unwrap();
            for _ in 0..2 {
                let _ = timeout(EXPORT, exporter.export(Vec::new())).await;
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_collector_gets_the_spans_and_the_name_of_the_program() {
        let (sink, endpoint) = Sink::start().await;
        let dropped = counter();
        let telemetry = Telemetry::start(&endpoint, 1.0, "op-0", dropped.clone()).unwrap();
        let mut span = telemetry.tracer().root("work").unwrap();
        span.set("k8s.namespace.name", "links");
        let place = span::in_span(&span, async { span::current() }).await;
        span.end();
        let sent = sink.span(&place.unwrap().trace.to_string(), "work").await;
        telemetry.shutdown().await;
        assert_eq!(sent["service"], SERVICE);
        assert_eq!(sent["resource"]["service.instance.id"], "op-0");
        assert_eq!(sent["attributes"]["k8s.namespace.name"], "links");
        assert_eq!(dropped.get(), 0);
    }
}
