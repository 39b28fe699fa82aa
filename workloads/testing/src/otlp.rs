//! A collector that keeps the latest spans and log records in memory, and simulates failures.

mod show;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::{
            ExportLogsServiceRequest, ExportLogsServiceResponse,
            logs_service_server::{LogsService, LogsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    logs::v1::LogRecord,
    resource::v1::Resource,
    trace::v1::Span,
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tonic::{
    Request, Response, Status, async_trait,
    codec::CompressionEncoding,
    transport::{Server, server::TcpIncoming},
};

pub use self::show::hex;

/// The number of spans, and of log records, that are kept; at about a kilobyte each this bounds the memory.
const KEPT: usize = 20_000;
/// The maximum size of a batch in bytes.
const MAX_BATCH: usize = 16 * 1024 * 1024;
/// Far above every promised time: a wait this long is a bug and not a busy machine.
const GENEROUS: Duration = Duration::from_secs(30);

/// Runs exports to a collector that accepts connections, and neither answers nor closes them, until it gets a second
/// connection. The exports get the URL of the collector.
///
/// # Panics
/// All exports have used the first connection.
pub async fn until_reconnected(exports: impl AsyncFnOnce(String)) {
    let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let connections = async {
        let first = collector.accept().await.unwrap();
        let second = collector.accept().await.unwrap();
        (first, second)
    };
    tokio::select! {
        _ = connections => {}
        () = exports(endpoint) => panic!("all exports used the first connection"),
    }
}

/// The behavior of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Accepts every batch.
    Taking,
    /// Responds to every batch with an error.
    Refusing,
    /// Accepts connections and batches, and never responds.
    Frozen,
}

/// The collector; clones share its state.
#[derive(Clone)]
pub struct Sink(Arc<Shared>);

struct Shared {
    spans: Mutex<VecDeque<(Arc<Resource>, Span)>>,
    logs: Mutex<VecDeque<(Arc<Resource>, LogRecord)>>,
    spans_taken: AtomicU64,
    mode: watch::Sender<Mode>,
    arrived: watch::Sender<()>,
}

impl Default for Sink {
    fn default() -> Self {
        Self(Arc::new(Shared {
            spans: Mutex::default(),
            logs: Mutex::default(),
            spans_taken: AtomicU64::default(),
            mode: watch::Sender::new(Mode::Taking),
            arrived: watch::Sender::new(()),
        }))
    }
}

impl Sink {
    /// Starts a collector on a port of this machine; returns it and its endpoint.
    pub async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sink, address) = (Self::default(), listener.local_addr().unwrap());
        tokio::spawn(sink.clone().serve(listener));
        (sink, endpoint(address))
    }

    /// Accepts OTLP over gRPC, without end.
    pub async fn serve(self, listener: TcpListener) {
        let traces = TraceServiceServer::new(self.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(MAX_BATCH);
        let logs = LogsServiceServer::new(self)
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(MAX_BATCH);
        let server = Server::builder().add_service(traces).add_service(logs);
        let incoming = TcpIncoming::from(listener);
        server.serve_with_incoming(incoming).await.unwrap();
    }

    /// Changes the behavior for later batches.
    pub fn set(&self, mode: Mode) {
        self.0.mode.send_replace(mode);
    }

    /// Returns the spans of a trace, in the order of their arrival.
    pub fn spans(&self, trace_id: &str) -> Vec<Value> {
        let spans = self.0.spans.lock().unwrap();
        let of_trace = spans
            .iter()
            .filter(|(_, span)| show::hex(&span.trace_id) == trace_id);
        of_trace
            .map(|(resource, span)| show::span(resource, span))
            .collect()
    }

    /// Returns the number of accepted spans, including those that are no longer kept.
    pub fn spans_taken(&self) -> u64 {
        self.0.spans_taken.load(Ordering::Relaxed)
    }

    /// Returns the log records of a trace, in the order of their arrival.
    pub fn logs(&self, trace_id: &str) -> Vec<Value> {
        let logs = self.0.logs.lock().unwrap();
        let of_trace = logs
            .iter()
            .filter(|(_, record)| show::hex(&record.trace_id) == trace_id);
        of_trace
            .map(|(resource, record)| show::record(resource, record))
            .collect()
    }

    /// Returns all kept spans and log records as text.
    pub fn everything(&self) -> String {
        let (spans, logs) = (self.0.spans.lock().unwrap(), self.0.logs.lock().unwrap());
        let spans = spans
            .iter()
            .map(|(resource, span)| show::span(resource, span));
        let logs = logs
            .iter()
            .map(|(resource, record)| show::record(resource, record));
        let lines: Vec<String> = spans.chain(logs).map(|shown| shown.to_string()).collect();
        lines.join("\n")
    }

    /// Waits until `look` finds something.
    pub async fn wait_for<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut arrived = self.0.arrived.subscribe();
        let found = async {
            loop {
                if let Some(found) = look(self) {
                    return found;
                }
                arrived.changed().await.unwrap();
            }
        };
        let found = timeout(GENEROUS, found).await;
        found.unwrap_or_else(|_| panic!("timed out waiting for {what}:\n{}", self.everything()))
    }

    /// Waits for the span of this name in a trace.
    pub async fn span(&self, trace_id: &str, name: &str) -> Value {
        self.wait_for(name, |sink| {
            let mut spans = sink.spans(trace_id).into_iter();
            spans.find(|span| span["name"] == name)
        })
        .await
    }

    /// Waits for the log record with this body in a trace.
    pub async fn log(&self, trace_id: &str, body: &str) -> Value {
        self.wait_for(body, |sink| {
            let mut logs = sink.logs(trace_id).into_iter();
            logs.find(|record| record["body"] == body)
        })
        .await
    }

    /// Applies the behavior to one batch: succeeds, fails or never completes.
    async fn permission(&self) -> Result<(), Status> {
        let mode = *self.0.mode.borrow();
        match mode {
            Mode::Taking => Ok(()),
            Mode::Refusing => Err(Status::unavailable("refused by the test")),
            Mode::Frozen => std::future::pending().await,
        }
    }
}

/// Returns an endpoint without a listener.
pub async fn closed_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    endpoint(listener.local_addr().unwrap())
}

fn endpoint(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn keep<T>(kept: &Mutex<VecDeque<T>>, new: impl Iterator<Item = T>) {
    let mut kept = kept.lock().unwrap();
    for item in new {
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(item);
    }
}

#[async_trait]
impl TraceService for Sink {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.permission().await?;
        for group in request.into_inner().resource_spans {
            let resource = Arc::new(group.resource.unwrap_or_default());
            let spans: Vec<_> = group
                .scope_spans
                .into_iter()
                .flat_map(|scope| scope.spans)
                .collect();
            self.0
                .spans_taken
                .fetch_add(spans.len() as u64, Ordering::Relaxed);
            keep(
                &self.0.spans,
                spans.into_iter().map(|span| (Arc::clone(&resource), span)),
            );
        }
        self.0.arrived.send_replace(());
        Ok(Response::new(Default::default()))
    }
}

#[async_trait]
impl LogsService for Sink {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.permission().await?;
        for group in request.into_inner().resource_logs {
            let resource = Arc::new(group.resource.unwrap_or_default());
            let records = group
                .scope_logs
                .into_iter()
                .flat_map(|scope| scope.log_records);
            keep(
                &self.0.logs,
                records.map(|record| (Arc::clone(&resource), record)),
            );
        }
        self.0.arrived.send_replace(());
        Ok(Response::new(Default::default()))
    }
}
