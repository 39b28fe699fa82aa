//! Traces: spans and log records as the sink received them, and callers that begin a trace.

use anyhow::{Context, Result};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::clients::{Answer, GatewayClient};

/// A span as the sink received it.
#[derive(Clone, Debug, Deserialize)]
pub struct Span {
    pub span_id: String,
    /// The id of its parent; empty at the root of a trace.
    pub parent_span_id: String,
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

#[derive(Clone, Debug)]
pub struct Trace(pub Vec<Span>);

/// A client that begins a trace without the sampled flag.
pub struct Caller {
    pub trace_id: String,
    /// The caller's own span.
    pub span_id: String,
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
    pub fn new() -> Self {
        Self {
            trace_id: format!("{:032x}", fastrand::u128(1..)),
            span_id: format!("{:016x}", fastrand::u64(1..)),
        }
    }

    /// Returns the header `traceparent` of its requests.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-00", self.trace_id, self.span_id)
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::new()
    }
}

impl GatewayClient {
    /// Sends a `GET` request with the `traceparent` of a caller.
    pub async fn get_traced(&self, path: &str, caller: &Caller) -> Result<Answer> {
        let request = self.request(Method::GET, path);
        let header = caller.traceparent();
        self.send(request.header("traceparent", header)).await
    }
}
