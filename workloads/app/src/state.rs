//! What every request handler shares.

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
    documents::Documents, internal::Process, telemetry::span::Tracer, vector::VectorStore,
};
use tokio::sync::Semaphore;

use crate::{
    config::ServeArgs,
    limits::Limit,
    metrics::Metrics,
    publisher::Publisher,
    store::{cache::Cache, cached::CachedLinks, jobs::Jobs},
    target::OwnAddress,
};

/// A handle to the shared state; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The shared state itself.
pub struct Shared {
    /// The settings.
    pub config: ServeArgs,
    /// The identity of this replica.
    pub host: String,
    /// What short URLs begin with; ends without a slash.
    pub public_base: String,
    /// The address that links must not point to.
    pub own_address: OwnAddress,
    /// The links.
    pub links: CachedLinks,
    /// The jobs; `None` while the queue profile is off.
    pub queue: Option<Queue>,
    /// The documents; `None` while the vector profile is off.
    pub vector: Option<Vector>,
    /// The metrics.
    pub metrics: Metrics,
    /// What makes spans.
    pub tracer: Tracer,
    /// The limit of `POST /shorten`.
    pub shorten_limit: Option<Limit>,
    /// The limit of every other request.
    pub requests_limit: Option<Limit>,
    /// The OpenAPI document, ready to send.
    pub openapi: Bytes,
    draining: AtomicBool,
}

/// What the profiles that are on add.
#[derive(Default)]
pub struct Profiles {
    /// The cache, where limits are counted together.
    pub cache: Option<Arc<Cache>>,
    /// The jobs.
    pub queue: Option<Queue>,
    /// The documents.
    pub vector: Option<Vector>,
}

/// What others see of the process.
pub struct Observed {
    /// The metrics.
    pub metrics: Metrics,
    /// What makes spans.
    pub tracer: Tracer,
}

/// What serving jobs needs.
pub struct Queue {
    /// What became of them.
    pub jobs: Jobs,
    /// Where they go.
    pub publisher: Publisher,
}

/// What serving documents needs.
#[derive(Clone)]
pub struct Vector {
    /// The documents themselves.
    pub documents: Documents,
    /// Where they can be found by their vectors.
    pub store: Arc<VectorStore>,
    /// How many payloads queries may still ask for.
    pub payloads: Arc<Semaphore>,
}

impl AppState {
    /// Puts the state together.
    #[must_use]
    pub fn new(
        config: ServeArgs,
        Observed { metrics, tracer }: Observed,
        links: CachedLinks,
        profiles: Profiles,
    ) -> Self {
        let cache = profiles.cache.as_ref();
        Self(Arc::new(Shared {
            host: config.log.host(),
            public_base: config.public_url.as_str().trim_end_matches('/').to_owned(),
            own_address: OwnAddress::from(&config.public_url),
            links,
            queue: profiles.queue,
            vector: profiles.vector,
            metrics,
            tracer,
            shorten_limit: Limit::new("shorten", config.shorten_rate(), cache),
            requests_limit: Limit::new("requests", config.requests_rate(), cache),
            openapi: crate::router::openapi_document(),
            draining: AtomicBool::new(false),
            config,
        }))
    }
}

impl Shared {
    /// From now on the replica reports that it is not ready and asks clients to come back on a new connection.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the replica is on its way out.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

impl Process for AppState {
    /// The database does not matter here: without it every replica would leave at once, and clients would get no
    /// answer instead of a clear one.
    fn unready(&self) -> Option<&'static str> {
        self.is_draining().then_some("draining")
    }

    fn registry(&self) -> &Registry {
        self.metrics.registry()
    }
}
