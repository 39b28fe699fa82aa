//! Client spans of calls to servers.
//!
//! The owner of a client also holds a [`Server`] and wraps each call: `server.call("SELECT links", query).await`
//! instead of `query.await`.

use std::{borrow::Cow, fmt::Display, future::Future, sync::Arc};

use super::{
    Attributes,
    span::{self, SpanKind},
};

/// The error type of a failure of which only the text is known.
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/>
pub(crate) const OTHER: &str = "_OTHER";

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

    /// Returns the name of the span.
    fn name(&self, operation: &'static str) -> Cow<'static, str> {
        match &self.collection {
            Some(collection) => format!("{operation} {collection}").into(),
            None => operation.into(),
        }
    }
}
