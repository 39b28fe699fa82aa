//! Client spans of calls to servers.
//!
//! The owner of a client also holds a [`Server`] and wraps each call: `server.call("SELECT links", query).await`
//! instead of `query.await`.

use std::{borrow::Cow, fmt::Display, future::Future, sync::Arc};

use super::span::{self, KeyValue, OTHER, SpanKind, Value};

/// The server attributes of client spans; cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    attributes: Arc<[KeyValue]>,
    /// The collection that all calls are about, if there is exactly one.
    collection: Option<Arc<str>>,
}

impl Server {
    /// Describes a store of this system (`postgresql`, `redis`, `qdrant`) at this address. A port of 0 is unknown.
    pub fn database(system: &'static str, host: &str, port: u16) -> Self {
        let mut attributes = vec![KeyValue::new("db.system.name", system)];
        if !host.is_empty() {
            attributes.push(KeyValue::new("server.address", shared(host)));
        }
        if port != 0 {
            attributes.push(KeyValue::new("server.port", i64::from(port)));
        }
        Self {
            attributes: attributes.into(),
            collection: None,
        }
    }

    /// Returns a copy with one more attribute.
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let more = KeyValue::new(name, shared(value));
        Self {
            attributes: self.attributes.iter().cloned().chain([more]).collect(),
            collection: self.collection.clone(),
        }
    }

    /// Returns a copy for calls that are all about this collection.
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
        let Some(mut span) = span::child(SpanKind::Client, || self.name(operation)) else {
            return call.await;
        };
        span.set_all(&self.attributes);
        match operation.split_once(' ') {
            Some((name, collection)) => span
                .set("db.operation.name", name)
                .set("db.collection.name", collection)
                .set("db.query.summary", operation),
            None => span.set("db.operation.name", operation),
        };
        let result = call.await;
        if let Err(error) = &result {
            span.fail(OTHER, &error.to_string());
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

/// Returns a value that many spans share.
fn shared(value: &str) -> Value {
    Value::String(Arc::<str>::from(value).into())
}
