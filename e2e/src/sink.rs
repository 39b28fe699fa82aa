//! The stand-in for a telemetry backend or an external collector: it receives OTLP and returns the received records.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    Forward, GatewayClient, Space, await_condition, restricted_container,
    server::{Server, stop},
};

/// The address for OTLP over gRPC from pods in the same namespace.
pub const SINK_ENDPOINT: &str = "http://sink:4317";

const NAME: &str = "sink";
const QUESTIONS: u16 = 8080;

/// The sink of a namespace, queried through a forwarded port. It forgets its records when it is stopped.
pub struct Sink {
    http: GatewayClient,
    _forward: Forward,
}

/// A span as the sink received it.
#[derive(Clone, Debug, Deserialize)]
pub struct Span {
    /// Its id.
    pub span_id: String,
    /// The id of its parent; empty at the root of a trace.
    pub parent_span_id: String,
    /// Its name.
    pub name: String,
    /// `SERVER`, `CLIENT`, `PRODUCER` or `CONSUMER`.
    pub kind: String,
    /// The program that sent it.
    pub service: String,
    /// `UNSET`, `OK` or `ERROR`.
    pub status: String,
    /// Its attributes, by name.
    pub attributes: Value,
    /// The attributes of the process that sent it, by name.
    pub resource: Value,
    /// Its links to other spans.
    pub links: Vec<Link>,
}

/// A link to another span.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Link {
    /// The trace of that span.
    pub trace_id: String,
    /// The id of that span.
    pub span_id: String,
}

/// A log record as the sink received it.
#[derive(Clone, Debug, Deserialize)]
pub struct Record {
    /// The name of the event.
    pub body: String,
    /// The span in which it was written.
    pub span_id: String,
    /// The program that sent it.
    pub service: String,
    /// Its attributes, by name.
    pub attributes: Value,
}

/// Spans of one trace.
#[derive(Clone, Debug)]
pub struct Trace(pub Vec<Span>);

/// A client that begins a trace without the sampled flag.
pub struct Caller {
    /// The trace.
    pub trace_id: String,
    /// The caller's own span.
    pub span_id: String,
}

/// The behavior of the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkMode {
    /// It accepts everything.
    Taking,
    /// It answers every batch with an error.
    Refusing,
    /// It accepts connections and batches, and never answers.
    Frozen,
}

impl Sink {
    /// Starts the sink of a namespace unless it already runs.
    pub async fn start(space: &Space) -> Result<Self> {
        let probe = json!({"httpGet": {"path": "/livez", "port": QUESTIONS}, "periodSeconds": 1});
        let server = Server {
            name: NAME,
            ports: &[4317, QUESTIONS],
            container: restricted_container(
                &space.settings.sink_image,
                json!({"readinessProbe": probe}),
            ),
            volumes: json!([]),
        };
        server.start(space).await?;
        let forward = Forward::to(&space.stack("acme"), NAME, QUESTIONS).await?;
        let sink = Self {
            http: GatewayClient::at(format!("http://{}", forward.address), "localhost")?,
            _forward: forward,
        };
        // An earlier test may have stopped halfway and left another mode.
        sink.behave(SinkMode::Taking).await?;
        Ok(sink)
    }

    /// Stops the sink.
    pub async fn stop(self, space: &Space) -> Result<()> {
        stop(space, NAME).await
    }

    /// Sets the behavior of the sink.
    pub async fn behave(&self, mode: SinkMode) -> Result<()> {
        let mode = match mode {
            SinkMode::Taking => "taking",
            SinkMode::Refusing => "refusing",
            SinkMode::Frozen => "frozen",
        };
        let request = self.http.request(Method::PUT, &format!("/mode/{mode}"));
        let answer = self.http.send(request).await?;
        ensure!(answer.status == 204, "expected status 204, got {answer:?}");
        Ok(())
    }

    /// Returns the received spans of a trace.
    pub async fn trace(&self, trace_id: &str) -> Result<Trace> {
        Ok(Trace(self.ask(&format!("/traces/{trace_id}")).await?))
    }

    /// Waits until a trace has spans of these names.
    pub async fn trace_with(&self, trace_id: &str, names: &[&str]) -> Result<Trace> {
        let what = format!("trace {trace_id} has the spans {names:?}");
        await_condition(&what, async || {
            let trace = self.trace(trace_id).await?;
            for name in names {
                trace.span(name)?;
            }
            Ok(trace)
        })
        .await
    }

    /// Waits until a trace has log records with these bodies, and returns all its records.
    pub async fn records_with(&self, trace_id: &str, bodies: &[&str]) -> Result<Vec<Record>> {
        let what = format!("trace {trace_id} has the log records {bodies:?}");
        await_condition(&what, async || {
            let path = format!("/logs?trace_id={trace_id}");
            let records: Vec<Record> = self.ask(&path).await?;
            for body in bodies {
                let found = records.iter().any(|record| record.body == *body);
                ensure!(found, "no record {body} among {records:?}");
            }
            Ok(records)
        })
        .await
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.http.get(path).await?;
        ensure!(
            answer.status == 200,
            "{path}: expected status 200, got {answer:?}"
        );
        serde_json::from_str(&answer.body).with_context(|| format!("{path}: {answer:?}"))
    }
}

impl Trace {
    /// Returns the first span of this name.
    pub fn span(&self, name: &str) -> Result<&Span> {
        let found = self.0.iter().find(|span| span.name == name);
        found.with_context(|| format!("no span {name} among {:?}", self.names()))
    }

    /// Returns the call of this span name to a store of this system (`postgresql`, `redis`, `qdrant`).
    pub fn call(&self, system: &str, name: &str) -> Result<&Span> {
        let mut calls = self.calls(system);
        let found = calls.find(|span| span.name == name);
        found.with_context(|| format!("no span {name} of {system} among {:?}", self.names()))
    }

    /// Returns every call to stores of this system.
    pub fn calls(&self, system: &str) -> impl Iterator<Item = &Span> {
        let of_system = move |span: &&Span| span.attributes["db.system.name"] == system;
        self.0.iter().filter(of_system)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|span| span.name.as_str()).collect()
    }
}

impl Caller {
    /// Returns a caller with new random ids.
    #[must_use]
    pub fn new() -> Self {
        Self {
            trace_id: format!("{:032x}", fastrand::u128(1..)),
            span_id: format!("{:016x}", fastrand::u64(1..)),
        }
    }

    /// Returns the header `traceparent` of its requests.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-00", self.trace_id, self.span_id)
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::new()
    }
}
