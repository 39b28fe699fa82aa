//! Client spans of calls to servers.
//!
//! The owner of a client also holds a [`Server`] and wraps each call: `server.call("SELECT links", query).await`
//! instead of `query.await`.

use std::{borrow::Cow, fmt::Display, future::Future, sync::Arc};

use super::{
    Attributes,
    span::{self, Span, SpanKind},
};

/// The error type of a failure of which only the text is known.
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/>
const OTHER: &str = "_OTHER";

/// The server attributes of client spans; cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    attributes: Attributes,
    /// The collection that all calls are about, if there is exactly one.
    collection: Option<Arc<str>>,
}

impl Server {
    /// Describes a store of this system (`postgresql`, `redis`, `qdrant`) at this address. A port of 0 is unknown.
    #[must_use]
    pub fn database(system: &'static str, host: &str, port: u16) -> Self {
        Self::new("db.system.name", system, host, port)
    }

    fn new(name: &'static str, system: &'static str, host: &str, port: u16) -> Self {
        let mut attributes = Attributes::default().with(name, system);
        if !host.is_empty() {
            attributes = attributes.with("server.address", host);
        }
        if port != 0 {
            attributes = attributes.with("server.port", i64::from(port));
        }
        Self {
            attributes,
            collection: None,
        }
    }

    /// Returns a copy with one more attribute.
    #[must_use]
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        Self {
            attributes: self.attributes.with(name, value),
            collection: self.collection.clone(),
        }
    }

    /// Returns a copy for calls that are all about this collection.
    #[must_use]
    pub fn with_collection(&self, name: &str) -> Self {
        Self {
            collection: Some(Arc::from(name)),
            ..self.with("db.collection.name", name)
        }
    }

    /// Runs a call in a client span, as a child of the current span. `operation` is the verb, followed by the
    /// collection unless it is fixed: `SELECT links`, `MGET`, `query`. The text of an error must not contain a
    /// secret.
    ///
    /// # Errors
    /// Returns the error of the call.
    pub async fn call<T, E: Display>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(span) = self.begin(operation) else {
            return call.await;
        };
        let result = call.await;
        end(span, result.as_ref().err());
        result
    }

    /// Runs a call that this request may have in common with others, like [`call`](Self::call). Beside its result, it
    /// returns the number of requests that it is made for. Each of them has a span of its own.
    ///
    /// # Errors
    /// Returns the error of the call.
    pub async fn call_in_batch<T, E: Display>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<(T, usize), E>>,
    ) -> Result<T, E> {
        let Some(mut span) = self.begin(operation) else {
            return call.await.map(|(value, _)| value);
        };
        let result = call.await;
        // By the conventions one request is no batch.
        if let (Ok((_, size @ 2..)), Some(mut description)) = (&result, span.describe()) {
            let size = i64::try_from(*size).unwrap_or(i64::MAX);
            description.set("db.operation.batch.size", size);
        }
        end(span, result.as_ref().err());
        result.map(|(value, _)| value)
    }

    /// Starts the span of a call; `None` without a current span or an exporter.
    fn begin(&self, operation: &'static str) -> Option<Span> {
        let mut span = span::part(SpanKind::Client, || self.name(operation))?;
        if let Some(mut description) = span.describe() {
            description.set_all(&self.attributes);
            match operation.split_once(' ') {
                Some((name, collection)) => description
                    .set("db.operation.name", name)
                    .set("db.collection.name", collection)
                    .set("db.query.summary", operation),
                None => description.set("db.operation.name", operation),
            };
        }
        Some(span)
    }

    /// Returns the name of the span.
    fn name(&self, operation: &'static str) -> Cow<'static, str> {
        match &self.collection {
            Some(collection) => format!("{operation} {collection}").into(),
            None => operation.into(),
        }
    }
}

/// Ends the span of a call, with its error.
fn end(mut span: Span, error: Option<&impl Display>) {
    if let (Some(error), Some(mut description)) = (error, span.describe()) {
        description.fail(OTHER, &error.to_string());
    }
    span.end();
}
