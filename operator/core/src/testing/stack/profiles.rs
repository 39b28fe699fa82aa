//! Stacks with profiles, each with a managed and an external variant.

use serde_json::{Value, json};

use super::resolved;
use crate::{
    api::OtlpProtocol,
    model::stack::{Draining, ValidatedStack},
};

impl ValidatedStack {
    /// Adds a managed cache.
    pub fn caching(self) -> Self {
        self.cached(json!({}))
    }

    /// Adds an external cache behind sentinels.
    pub fn external_cache(self) -> Self {
        self.cached(json!({
            "external": {
                "secretRef": {"name": "links-cache", "key": "uri"},
                "mode": "Sentinel",
                "sentinelMaster": "links",
            },
            "ttlSeconds": 60,
        }))
    }

    fn cached(mut self, cache: Value) -> Self {
        self.cache = resolved(json!({"profiles": ["caching"], "cache": cache})).cache;
        self
    }

    /// Adds a queue with a managed broker.
    pub fn queue(self) -> Self {
        self.queued(json!({}))
    }

    /// Adds a queue on an external broker.
    pub fn external_queue(self) -> Self {
        self.queued(json!({"external": {"secretRef": {"name": "links-queue", "key": "uri"}}}))
    }

    fn queued(mut self, queue: Value) -> Self {
        self.queue = resolved(json!({"profiles": ["queue"], "queue": queue})).queue;
        self
    }

    /// Drains the queue (after [`Self::queue`]), which is deleted once it is empty.
    pub fn draining(mut self) -> Self {
        if let Some(queue) = &mut self.queue {
            queue.draining = Some(Draining {
                closed: true,
                left: Some(3),
                workers: true,
            });
        }
        self
    }

    /// Adds a managed vector store.
    pub fn vector(self) -> Self {
        self.with_documents(json!({}))
    }

    /// Adds an external vector store that requires an API key.
    pub fn external_vector(self) -> Self {
        self.with_documents(json!({
            "external": {
                "secretRef": {"name": "links-vectors", "key": "uri"},
                "apiKeySecretRef": {"name": "links-vectors-key", "key": "api-key"},
            },
            "collection": "pages",
            "size": 768,
            "distance": "Euclid",
        }))
    }

    fn with_documents(mut self, vector: Value) -> Self {
        let stored = resolved(json!({"profiles": ["vector"], "vector": vector}));
        self.vector = stored.vector;
        // The default memory of the app grows with documents.
        self.app.pod.resources = stored.app.pod.resources;
        self
    }

    /// Adds a collector without a backend.
    pub fn observability(self) -> Self {
        self.collecting(json!({}))
    }

    /// Adds a collector with a managed backend.
    pub fn telemetry(self) -> Self {
        self.collecting(json!({"backend": {"managed": {}}}))
    }

    /// Adds a collector with an external backend that requires headers.
    pub fn external_backend(self, protocol: OtlpProtocol) -> Self {
        self.collecting(json!({"backend": {"external": {
            "protocol": protocol,
            "tracesEndpoint": "https://traces.test:4317",
            "logsEndpoint": "http://logs.test:4317",
            "headersSecretRef": {"name": "links-headers"},
        }}}))
    }

    /// Adds an external collector.
    pub fn external_collector(self) -> Self {
        let endpoint = "https://collector.test:4317";
        self.collecting(json!({"collector": {"external": {"endpoint": endpoint}}}))
    }

    fn collecting(mut self, observability: Value) -> Self {
        let spec = json!({"profiles": ["observability"], "observability": observability});
        let observed = resolved(spec);
        self.collector = observed.collector;
        self.monitoring = observed.monitoring;
        self
    }
}
