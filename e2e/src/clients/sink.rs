//! The stand-in for a telemetry backend or an external collector: it receives OTLP and returns the received records.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    clients::{GatewayClient, Record, Trace},
    harness::{
        Forward, Space, await_condition, restricted_container,
        server::{Server, stop},
    },
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
            http: GatewayClient::through(&forward)?,
            _forward: forward,
        };
        // An earlier test may have stopped halfway and left another mode.
        sink.behave(SinkMode::Taking).await?;
        Ok(sink)
    }

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
