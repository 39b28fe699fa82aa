//! The export of traces and logs to a collector, with OTLP over gRPC, for the operator and the workloads.
//!
//! The SDK of OpenTelemetry makes the spans and the log records, keeps them in bounded queues and sends them in batches
//! from threads of its own, so neither a request nor a reconcile ever waits for the collector. Here are the decisions
//! about it: the identifiers of spans ([`span`]), the form of log records ([`LogRecords`]), and the sizes and time limits.
//! Nothing of this runs without an endpoint.

mod export;
mod records;
pub mod span;
pub mod trace;

use std::time::Duration;

use opentelemetry::{
    InstrumentationScope, KeyValue, logs::LoggerProvider as _, trace::TracerProvider as _,
};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, SpanExporter, WithExportConfig, WithTonicConfig,
};
use opentelemetry_sdk::{
    Resource,
    logs::SdkLoggerProvider,
    trace::{Sampler, SdkTracerProvider, SpanProcessor},
};
use tokio::task::spawn_blocking;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

pub use self::{
    export::Queue,
    records::{LogRecords, implied_trace},
};
use self::{
    export::{log_processor, span_processor},
    span::{Given, Tracer},
};

/// The timeout of one attempt to send a batch, and the time after which a batch is not sent again.
const EXPORT: Duration = Duration::from_secs(5);
/// The timeout of connecting to the collector.
const CONNECT: Duration = Duration::from_secs(2);
/// The interval of HTTP/2 keep-alive pings, and the timeout of their acknowledgement. Pings are sent during an export only,
/// as gRPC servers want it, so both together must be shorter than [`EXPORT`]: otherwise a connection to a machine that
/// vanished is used until TCP gives up, a quarter of an hour later.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(2));

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
    #[error("cannot set up the export, check the variables OTEL_EXPORTER_OTLP_*: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// The identity of the exporting process.
#[derive(Clone, Copy, Debug)]
pub struct Service<'a> {
    /// Name of the program.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Identity of this replica.
    pub host: &'a str,
}

/// The export of one process, from its start to its last batch. Dropping it ends the export at once.
#[derive(Debug, Default)]
pub struct Telemetry {
    tracer: Tracer,
    records: Option<LogRecords>,
    tracers: Option<SdkTracerProvider>,
    loggers: Option<SdkLoggerProvider>,
}

impl Telemetry {
    /// Starts the export of this share of all traces to this endpoint, and that of log records if they have a queue. Has to
    /// run on the runtime, which has the connection to the collector.
    ///
    /// # Errors
    /// Fails if the endpoint or a variable is malformed. A collector that is down is not an error.
    pub fn start(
        endpoint: &str,
        service: Service<'_>,
        ratio: f64,
        spans: Queue,
        records: Option<Queue>,
    ) -> Result<Self, TelemetryError> {
        let (channel, resource) = (channel(endpoint)?, resource(service));
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(channel.clone())
            .with_timeout(EXPORT)
            .build()?;
        let spans = span_processor(exporter, spans);
        let mut telemetry = Self::traces(spans, service, ratio, resource.clone());
        if let Some(queue) = records {
            let exporter = LogExporter::builder()
                .with_tonic()
                .with_channel(channel)
                .with_timeout(EXPORT)
                .build()?;
            let loggers = SdkLoggerProvider::builder()
                .with_resource(resource)
                .with_log_processor(log_processor(exporter, queue))
                .build();
            let logger = loggers.logger(service.name);
            telemetry.records = Some(LogRecords::new(logger, service.host));
            telemetry.loggers = Some(loggers);
        }
        Ok(telemetry)
    }

    /// Starts the export of this share of all traces to a processor of spans that ended.
    pub fn to(spans: impl SpanProcessor + 'static, service: Service<'_>, ratio: f64) -> Self {
        Self::traces(spans, service, ratio, resource(service))
    }

    fn traces(
        spans: impl SpanProcessor + 'static,
        service: Service<'_>,
        ratio: f64,
        resource: Resource,
    ) -> Self {
        // The parts of a trace follow the decision about its first span.
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio)));
        let tracers = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(sampler)
            .with_id_generator(Given)
            .with_span_processor(spans)
            .build();
        let scope = InstrumentationScope::builder(service.name)
            .with_version(service.version)
            .build();
        Self {
            tracer: Tracer::new(tracers.tracer_with_scope(scope)),
            records: None,
            tracers: Some(tracers),
            loggers: None,
        }
    }

    /// Returns the tracer of this process.
    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Returns the log layer that exports the events of this process.
    pub fn log_records(&self) -> Option<LogRecords> {
        self.records.clone()
    }

    /// Sends the remaining items, for at most this time: a silent collector must not delay the end of the process. What was
    /// not sent in time is lost, which traces may be.
    pub async fn shutdown(mut self, limit: Duration) {
        let (tracers, loggers) = (self.tracers.take(), self.loggers.take());
        // Each waits for its thread.
        let tracers = spawn_blocking(move || tracers.map(|all| all.shutdown_with_timeout(limit)));
        let loggers = spawn_blocking(move || loggers.map(|all| all.shutdown_with_timeout(limit)));
        let _ = (tracers.await, loggers.await);
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        // Otherwise the last one that has a tracer waits for the collector, for seconds.
        if let Some(tracers) = &self.tracers {
            let _ = tracers.shutdown_with_timeout(Duration::ZERO);
        }
        if let Some(loggers) = &self.loggers {
            let _ = loggers.shutdown_with_timeout(Duration::ZERO);
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

/// Describes the process: the attributes of `OTEL_RESOURCE_ATTRIBUTES`, the program and its replica.
fn resource(service: Service<'_>) -> Resource {
    Resource::builder()
        .with_service_name(service.name)
        .with_attributes([
            KeyValue::new("service.version", service.version),
            KeyValue::new("service.instance.id", service.host.to_owned()),
        ])
        .build()
}

#[cfg(test)]
mod tests;
