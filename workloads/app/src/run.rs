//! Startup and shutdown: become unready, keep serving, stop accepting, finish requests in flight, end.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use shortener_common::{
    database::Database,
    documents::Documents,
    memory::Memory,
    server::{self, ServerSettings, listen},
    supervised::supervised,
    telemetry::span::Tracer,
    vector::VectorStore,
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    auth::Guard,
    clicks::{Clicks, FlushTask},
    code::CodeSpace,
    config::ServeArgs,
    indexer::Indexer,
    job_ids::JobIds,
    metrics::Metrics,
    publisher::{Publisher, letters::DeadLetters},
    router,
    routes::docs::MAX_PAYLOADS,
    shortcut::Shortcut,
    state::{AppState, Observed, Profiles, Queue, Vector},
    storage::Storage,
    store::{
        audit::Audit,
        cache::{Cache, source::Source},
        cached::CachedLinks,
        clicks::{ClickStore, ClickWriter},
        jobs::Jobs,
        postgres::Links,
        purge_sweeper::PurgeSweeper,
    },
    unescaped::Unescaped,
};

/// The time to wait for the database before serving without it.
const DATABASE_GRACE: Duration = Duration::from_secs(2);
/// The time to wait for the vector store before serving without it.
const VECTOR_GRACE: Duration = Duration::from_secs(1);

/// A server that listens but does not serve yet.
pub struct Server {
    state: AppState,
    public: TcpListener,
    internal: TcpListener,
    /// Background tasks, which are aborted with the server.
    background: JoinSet<()>,
    /// The task that writes clicks; `None` if they are not counted.
    clicks: Option<FlushTask>,
}

impl Server {
    /// Opens the sockets, connects to the database, the cache and the vector store, and starts connecting to the
    /// broker.
    ///
    /// # Errors
    /// Fails if an address is in use, a URL is malformed, a certificate cannot be read, or a thread cannot be started. A
    /// backend that is down is not an error.
    pub async fn bind(
        config: ServeArgs,
        observed: Observed,
        space: CodeSpace,
    ) -> anyhow::Result<Self> {
        let Observed {
            mut metrics,
            tracer,
            memory,
        } = observed;
        let public = listen(config.listen)?;
        let internal = listen(config.internal_listen)?;
        let options = config.database.connect_options()?;
        let database = Database::connect(
            "shortener-app",
            options,
            config.database_max_connections,
            metrics.database_up.clone(),
            &metrics.database_lanes,
        );
        // Startup does not wait for the broker, because links do not need it.
        let queue = queue(&config, &mut metrics, &memory, &database, &tracer)?;
        let cache = cache(&config, &mut metrics)?;
        if let Some(cache) = &cache {
            cache.connection().wait_until_up().await;
        }
        database.wait_until_up(DATABASE_GRACE).await;
        let mut background = JoinSet::new();
        let vector = vector(&config, &mut metrics, &database)?;
        if let Some(vector) = vector.clone() {
            let store = Arc::clone(&vector.store);
            let publisher = queue.as_ref().map(|queue| queue.publisher.clone());
            let indexer = Indexer::new(vector, publisher);
            background.spawn(supervised("indexer", indexer.run()));
            let _ = timeout(VECTOR_GRACE, store.up()).await;
        }
        let storage = storage(&config, &mut metrics, &database, &mut background);
        let (clicks, flush) = clicks(&config, &mut metrics, &memory, &database)?.unzip();
        let links = CachedLinks::new(Links::new(database, space), cache.clone());
        if let Some(cache) = cache.clone() {
            let sweeper = PurgeSweeper::new(links.management().clone(), cache);
            background.spawn(supervised("purge-sweeper", sweeper.run()));
        }
        let profiles = Profiles {
            storage,
            guard: guard(&config, &mut metrics, &mut background),
            cache,
            clicks,
            queue,
            vector,
        };
        let observed = Observed {
            metrics,
            tracer,
            memory,
        };
        Ok(Self {
            state: AppState::new(config, observed, links, profiles),
            public,
            internal,
            background,
            clicks: flush,
        })
    }

    /// Returns the addresses of the public and the internal port.
    ///
    /// # Errors
    /// Fails if the operating system does not report them.
    pub fn addresses(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        Ok((self.public.local_addr()?, self.internal.local_addr()?))
    }

    /// Returns the state of the handlers.
    #[must_use]
    pub fn state(&self) -> &AppState {
        &self.state
    }

    /// Serves until `stop` completes, then drains. Returns true if every request in flight was finished.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Self {
            state,
            public,
            internal,
            background: _background,
            clicks,
        } = self;
        let config = &state.config;
        let settings = ServerSettings {
            max_connections: config.connections(&state.memory),
            header_timeout: config.header_timeout,
            write_timeout: config.request_timeout,
            drain_timeout: config.drain_timeout,
            open_connections: state.metrics.open_connections.clone(),
        };
        let internal_settings =
            ServerSettings::internal(config.header_timeout, config.request_timeout);
        // Probes and metrics are answered until the very end.
        let (finished, mut wait_finished) = watch::channel(false);
        let internal = tokio::spawn(server::serve(
            internal,
            router::internal(state.clone()),
            internal_settings,
            async move {
                let _ = wait_finished.wait_for(|finished| *finished).await;
            },
        ));
        let leave = leave_rotation(&state, stop);
        let handler = Shortcut::new(state.clone(), router::public(state.clone()));
        let handler = Unescaped(handler);
        let complete = server::serve(public, handler, settings, leave).await;
        if let Some(clicks) = clicks {
            clicks.end().await;
        }
        let _ = finished.send(true);
        let _ = internal.await;
        tracing::info!(event = "stopped", complete, "stopped");
        complete
    }
}

/// Returns the state for jobs; `None` without a broker.
fn queue(
    config: &ServeArgs,
    metrics: &mut Metrics,
    memory: &Memory,
    database: &Database,
    tracer: &Tracer,
) -> anyhow::Result<Option<Queue>> {
    let broker = config.queue.broker()?;
    let retention_days = config.purge.purge_retention_days;
    Ok(broker.map(|broker| {
        let publisher = Publisher::start(
            broker.clone(),
            JobIds::new(config.job_id_key.as_deref(), retention_days),
            memory.jobs.clone(),
            metrics.with_publisher(),
            tracer.clone(),
        );
        Queue {
            jobs: Jobs::new(database.clone()),
            letters: DeadLetters::new(broker, publisher.clone(), Audit::new(database.clone())),
            publisher,
        }
    }))
}

/// Returns the reserve of the database, and follows its size in the background.
fn storage(
    config: &ServeArgs,
    metrics: &mut Metrics,
    database: &Database,
    background: &mut JoinSet<()>,
) -> Storage {
    let storage = metrics.with_storage(config.database_capacity_bytes);
    let follow = storage.clone().follow(database.clone());
    background.spawn(supervised("storage", follow));
    storage
}

/// Returns the clicks and the task that writes them; `None` if they are not counted.
fn clicks(
    config: &ServeArgs,
    metrics: &mut Metrics,
    memory: &Memory,
    database: &Database,
) -> anyhow::Result<Option<(Clicks, FlushTask)>> {
    if !config.clicks_enabled {
        return Ok(None);
    }
    let store = ClickStore::new(database.clone());
    let writer = ClickWriter::new(config.database.connect_options()?);
    let clicks = Clicks::start(memory.clicks, store, writer, metrics.with_clicks());
    Ok(Some(clicks))
}

/// Returns the check of keys, and follows their folders in the background.
fn guard(config: &ServeArgs, metrics: &mut Metrics, background: &mut JoinSet<()>) -> Guard {
    let folders = config.auth.auth_keys_directory.clone();
    if folders.is_empty() {
        return Guard::without_keys(&config.public_url);
    }
    let (guard, watcher) = Guard::with_keys(
        &config.public_url,
        config.auth.auth_protect,
        folders,
        metrics.with_auth(),
    );
    background.spawn(supervised("keys", watcher.run()));
    guard
}

fn cache(config: &ServeArgs, metrics: &mut Metrics) -> anyhow::Result<Option<Arc<Cache>>> {
    let source = Source::new(&config.cache)?;
    Ok(source.map(|source| {
        let metrics = metrics.with_cache();
        Arc::new(Cache::start(source, &config.cache, metrics))
    }))
}

fn vector(
    config: &ServeArgs,
    metrics: &mut Metrics,
    database: &Database,
) -> anyhow::Result<Option<Vector>> {
    let store = VectorStore::new(&config.vector, || metrics.with_vector())?;
    Ok(store.map(|store| Vector {
        documents: Documents::new(database.clone()),
        store: Arc::new(store),
        payloads: Arc::new(Semaphore::new(MAX_PAYLOADS)),
    }))
}

/// Completes once the cluster has had time to send its traffic to other replicas.
async fn leave_rotation(state: &AppState, stop: impl Future<Output = ()>) {
    stop.await;
    state.start_draining();
    tracing::info!(event = "draining", "draining");
    sleep(state.config.drain_delay).await;
}
