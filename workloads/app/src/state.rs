//! The state that all request handlers share.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::body::Bytes;
use prometheus_client::registry::Registry;
use shortener_common::{
    backends::Backends, documents::Documents, internal::Process, memory::Memory,
    telemetry::span::Tracer, vector::VectorStore,
};
use tokio::sync::Semaphore;

use crate::{
    auth::Guard,
    clicks::Clicks,
    config::ServeArgs,
    cors::Cors,
    destination::Destinations,
    limits::{Limits, Rates},
    metrics::Metrics,
    publisher::{Publisher, letters::DeadLetters},
    routes::openapi,
    storage::{Storage, Stores},
    store::{cache::Cache, cached::CachedLinks, jobs::Jobs},
};

/// A handle to the shared state; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<SharedState>);

impl Deref for AppState {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.0
    }
}

/// The shared state.
pub struct SharedState {
    /// The settings.
    pub config: ServeArgs,
    /// The identity of this replica.
    pub host: String,
    /// The base of short URLs, without a slash at the end.
    pub public_base: String,
    /// The destinations that links may have.
    pub destinations: Destinations,
    /// The links.
    pub links: CachedLinks,
    /// The jobs; `None` if the queue profile is off.
    pub queue: Option<Queue>,
    /// The clicks; `None` if they are not counted.
    pub clicks: Option<Clicks>,
    /// The documents; `None` if the vector profile is off.
    pub vector: Option<Vector>,
    /// The metrics.
    pub metrics: Metrics,
    /// The factory of spans.
    pub tracer: Tracer,
    /// The memory of the buffers.
    pub memory: Memory,
    /// The reserve of the database.
    pub storage: Storage,
    /// The check of keys.
    pub guard: Guard,
    /// The origins whose scripts may use the API.
    pub cors: Cors,
    /// The rate limits by client address.
    pub limits: Limits,
    /// The rate limits by the key of a client.
    pub key_limits: Limits,
    /// The OpenAPI document of this service.
    pub openapi: Bytes,
    draining: AtomicBool,
}

/// The state of the optional parts.
#[derive(Default)]
pub struct Profiles {
    /// The reserve of the database.
    pub storage: Storage,
    /// The check of keys.
    pub guard: Guard,
    /// The cache, which also holds the shared rate limits.
    pub cache: Option<Arc<Cache>>,
    /// The clicks.
    pub clicks: Option<Clicks>,
    /// The jobs.
    pub queue: Option<Queue>,
    /// The documents.
    pub vector: Option<Vector>,
}

/// The metrics, the tracer and the memory of the process.
pub struct Observed {
    /// The metrics.
    pub metrics: Metrics,
    /// The factory of spans.
    pub tracer: Tracer,
    /// The memory of the buffers.
    pub memory: Memory,
}

/// The state for jobs.
pub struct Queue {
    /// The results of jobs.
    pub jobs: Jobs,
    /// The publisher of jobs.
    pub publisher: Publisher,
    /// The jobs that were given up.
    pub letters: DeadLetters,
}

/// The state for documents.
#[derive(Clone)]
pub struct Vector {
    /// The documents in the database.
    pub documents: Documents,
    /// The vector store.
    pub store: Arc<VectorStore>,
    /// A limit on the payloads that queries hold at the same time.
    pub payloads: Arc<Semaphore>,
}

impl AppState {
    /// Builds the state.
    pub fn new(
        config: ServeArgs,
        observed: Observed,
        links: CachedLinks,
        profiles: Profiles,
    ) -> Self {
        let cache = profiles.cache.as_ref();
        Self(Arc::new(SharedState {
            host: config.log.host(),
            public_base: config.public_url.as_str().trim_end_matches('/').to_owned(),
            destinations: config
                .destinations
                .destinations(&config.public_url, config.console.console_host.as_deref()),
            cors: Cors::of(&config.cors_allow_origins),
            links,
            clicks: profiles.clicks,
            queue: profiles.queue,
            vector: profiles.vector,
            metrics: observed.metrics,
            tracer: observed.tracer,
            memory: observed.memory,
            limits: Limits::new(Rates::by_address(&config), cache),
            key_limits: Limits::new(Rates::by_key(&config), cache),
            storage: profiles.storage,
            guard: profiles.guard,
            openapi: openapi::document(&config),
            draining: AtomicBool::new(false),
            config,
        }))
    }
}

impl SharedState {
    /// Makes the replica unready, and closes connections after their next response.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Returns the target of vectors; `None` if the vector profile is off.
    pub(crate) fn vector_target(&self) -> Option<&Arc<str>> {
        self.vector.as_ref().map(|vector| vector.store.target())
    }

    /// Returns true while the replica drains.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

impl Process for AppState {
    /// Returns a reason only while draining. An outage of the database is ignored on purpose: all replicas would
    /// become unready at once, and clients would get no response instead of a clear error.
    fn unready(&self) -> Option<&'static str> {
        self.is_draining().then_some("draining")
    }

    fn registry(&self) -> &Registry {
        &self.metrics.registry
    }

    fn backends(&self) -> Backends {
        let (queue, vector) = (self.queue.as_ref(), self.vector.as_ref());
        let backends = self.links.backends();
        let stored = [
            Some(Stores::Links),
            queue.map(|_| Stores::Jobs),
            vector.map(|_| Stores::Documents),
        ];
        let stored: Vec<Stores> = stored.into_iter().flatten().collect();
        Backends {
            database: self.storage.state(backends.database, &stored),
            queue: queue.map(|queue| queue.publisher.health.state()),
            vector: vector.map(|vector| vector.store.store_state()),
            ..backends
        }
    }
}
