//! The export of traces and logs to a collector, with OTLP over gRPC.
//!
//! A span or a log record enters a bounded queue, or is dropped and counted if the queue is full. One task per
//! queue sends batches, so no request ever waits for the collector. Nothing of this runs without an endpoint. The
//! providers of the SDK are not used: their queues drop without counting, and their shutdown can block for 5 s.
//! They also assign span identifiers themselves, but these must be known in advance: log lines, exemplars and
//! responses contain them with or without an exporter. Its exporters are not used either, because they build each message
//! three times before they send it; here it is written once ([`wire`]).

pub mod call;
mod dropped;
mod export;
mod log;
pub mod messaging;
mod otlp;
mod queue;
mod resource;
pub mod span;
mod wire;

use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

pub(crate) use self::log::implied_trace;
pub use self::{dropped::Dropped, log::LogRecords, otlp::Attributes};
use self::{
    export::{Exporter, Signal},
    queue::Queue,
    resource::resource,
    span::Tracer,
};
use crate::memory::{Buffer, Memory};

/// The timeout of one batch, including attempts to connect.
const EXPORT: Duration = Duration::from_secs(5);
/// The timeout of connecting to the collector.
const CONNECT: Duration = Duration::from_secs(2);
/// The interval of HTTP/2 keep-alive pings, and the timeout of their acknowledgement. Pings are sent during an export only,
/// as gRPC servers want it, so both together must be shorter than [`EXPORT`]: otherwise a connection to a machine that
/// vanished is used until TCP gives up, a quarter of an hour later.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(2));
/// The time limit for the last batches at shutdown. A termination grace period has to include it.
const FLUSH: Duration = Duration::from_secs(2);

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

/// The export of one process, from its start to its last batch.
#[derive(Debug)]
pub struct Telemetry {
    tracer: Tracer,
    log_records: Option<LogRecords>,
    dropped: Dropped,
    /// True once the process ends.
    end: watch::Sender<bool>,
    exports: JoinSet<()>,
}

impl Telemetry {
    /// Starts the export to this endpoint, with queues that fit into this memory. Without an endpoint nothing is
    /// exported.
    ///
    /// # Errors
    /// Fails if the endpoint is malformed. A collector that is down is not an error.
    pub fn start(
        endpoint: Option<&str>,
        service: Service<'_>,
        memory: &Memory,
    ) -> anyhow::Result<Self> {
        let mut telemetry = Self {
            tracer: Tracer::default(),
            log_records: None,
            dropped: Dropped::default(),
            end: watch::Sender::new(false),
            exports: JoinSet::new(),
        };
        let Some(endpoint) = endpoint else {
            return Ok(telemetry);
        };
        let channel = channel(endpoint)?;
        let resource = resource(service);
        let end = || telemetry.end.subscribe();

        let (spans, work) = Queue::start(
            Exporter::new(
                Signal::Traces,
                channel.clone(),
                resource.clone(),
                service.version,
            ),
            memory.budget(Buffer::Spans),
            telemetry.dropped.traces.clone(),
            end(),
        );
        telemetry.exports.spawn(work);
        let (records, work) = Queue::start(
            Exporter::new(Signal::Logs, channel, resource, ""),
            memory.budget(Buffer::LogRecords),
            telemetry.dropped.logs.clone(),
            end(),
        );
        telemetry.exports.spawn(work);

        telemetry.tracer = Tracer::new(spans, service.name);
        telemetry.log_records = Some(LogRecords::new(records, service.host));
        Ok(telemetry)
    }

    /// Returns the tracer of this process.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Returns the log layer that exports the events of this process.
    #[must_use]
    pub fn log_records(&self) -> Option<LogRecords> {
        self.log_records.clone()
    }

    /// Returns the metric of dropped items; `None` if nothing is exported.
    #[must_use]
    pub fn dropped(&self) -> Option<Dropped> {
        let exports = !self.exports.is_empty();
        exports.then(|| self.dropped.clone())
    }

    /// Sends the remaining items, for at most 2 s: a silent collector must not delay the end of the process.
    pub async fn shutdown(mut self) {
        self.end.send_replace(true);
        let sent = async { while self.exports.join_next().await.is_some() {} };
        let _ = timeout(FLUSH, sent).await;
    }
}

/// Returns the channel to the collector, which connects on first use.
fn channel(endpoint: &str) -> anyhow::Result<Channel> {
    let like = || "OTEL_EXPORTER_OTLP_ENDPOINT is invalid: it must be like http://host:4317";
    let endpoint = Endpoint::from_shared(endpoint.to_owned()).with_context(like)?;
    let endpoint = match endpoint.uri().scheme_str() {
        Some("http") => endpoint,
        Some("https") => endpoint
            .tls_config(ClientTlsConfig::new().with_enabled_roots())
            .context("cannot set up TLS for OTEL_EXPORTER_OTLP_ENDPOINT")?,
        _ => return Err(anyhow!(like())),
    };
    Ok(endpoint
        .connect_timeout(CONNECT)
        .timeout(EXPORT)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .connect_lazy())
}

#[cfg(test)]
mod tests {
    use shortener_testing::otlp::until_reconnected;

    use super::{queue::Export, *};

    const SERVICE: Service<'_> = Service {
        name: "app",
        version: "1.2.3",
        host: "replica-7",
    };

    #[tokio::test]
    async fn without_an_endpoint_nothing_is_exported() {
        let telemetry = Telemetry::start(None, SERVICE, &Memory::default()).unwrap();
        assert!(telemetry.log_records().is_none() && telemetry.dropped().is_none());
        assert!(!telemetry.tracer().is_on());
        telemetry.shutdown().await;
    }

    #[tokio::test]
    async fn a_malformed_endpoint_is_refused_by_the_name_of_its_setting() {
        for bad in ["collector:4317", "ftp://collector", "http://", "a b", ""] {
            let error = Telemetry::start(Some(bad), SERVICE, &Memory::default()).unwrap_err();
            let message = format!("{error:#}");
            assert!(message.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{message}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_may_be_reached_over_tls() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for good in ["http://collector:4317", "https://collector.example"] {
            assert!(
                Telemetry::start(Some(good), SERVICE, &Memory::default())
                    .unwrap()
                    .tracer()
                    .is_on()
            );
        }
    }

    #[tokio::test]
    async fn a_connection_that_answers_nothing_is_replaced() {
        until_reconnected(async |endpoint| {
            let channel = channel(&endpoint).unwrap();
            let exporter = Exporter::new(Signal::Traces, channel, resource(SERVICE), "");
            for _ in 0..2 {
                let _ = exporter.export(Vec::new()).await;
            }
        })
        .await;
    }
}
