//! Calls to servers as spans.
//!
//! Whoever keeps a client keeps a [`Server`] beside it and wraps each call:
//! `server.call("SELECT links", query).await` instead of `query.await`.

use std::{borrow::Cow, fmt::Display, future::Future, sync::Arc};

use opentelemetry::KeyValue;

use super::span::{self, SpanKind};

/// A failure of which only the text is known.
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/>
const OTHER: &str = "_OTHER";

/// A server that this process calls, as the spans of the calls describe it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    attributes: Arc<[KeyValue]>,
    /// What all calls are about, where that is one and the same.
    collection: Option<Arc<str>>,
}

impl Server {
    /// A store of this system (`postgresql`, `redis`, `qdrant`) at this address. A port of 0 is unknown.
    #[must_use]
    pub fn database(system: &'static str, host: &str, port: u16) -> Self {
        Self::new("db.system.name", system, host, port)
    }

    fn new(name: &'static str, system: &'static str, host: &str, port: u16) -> Self {
        let mut attributes = vec![KeyValue::new(name, system)];
        if !host.is_empty() {
            attributes.push(KeyValue::new("server.address", Arc::<str>::from(host)));
        }
        if port != 0 {
            attributes.push(KeyValue::new("server.port", i64::from(port)));
        }
        Self {
            attributes: attributes.into(),
            collection: None,
        }
    }

    /// The same with one fact more.
    #[must_use]
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let fact = KeyValue::new(name, Arc::<str>::from(value));
        Self {
            attributes: self.attributes.iter().cloned().chain([fact]).collect(),
            collection: self.collection.clone(),
        }
    }

    /// The same for calls that are all about this collection.
    #[must_use]
    pub fn with_collection(&self, name: &str) -> Self {
        Self {
            collection: Some(Arc::from(name)),
            ..self.with("db.collection.name", name)
        }
    }

    /// Calls it, as a part of what is under way. `operation` is what is done, and to what unless that is known:
    /// `SELECT links`, `MGET`, `query`. The text of a failure must hold no secret.
    ///
    /// # Errors
    /// The call's own.
    pub async fn call<T, E: Display>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(mut span) = span::part(SpanKind::Client, || self.name(operation)) else {
            return call.await;
        };
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
        let result = call.await;
        if let (Err(error), Some(mut description)) = (&result, span.describe()) {
            description.fail(OTHER, &error.to_string());
        }
        span.end();
        result
    }

    /// What the span is called.
    fn name(&self, operation: &'static str) -> Cow<'static, str> {
        match &self.collection {
            Some(collection) => format!("{operation} {collection}").into(),
            None => operation.into(),
        }
    }
}
