//! Starting to serve, and the way out: not ready, keep serving, stop accepting, finish, end.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use shortener_common::{
    database::Database,
    server::{self, Settings, listen},
};
use tokio::{net::TcpListener, sync::watch, time::sleep};

use crate::{
    code::CodeSpace,
    config::ServeArgs,
    metrics::Metrics,
    publisher::Publisher,
    router,
    state::{AppState, Queue},
    store::{
        cache::{Cache, source::Source},
        cached::CachedLinks,
        jobs::Jobs,
        postgres::Links,
    },
};

/// How long to wait for the database before serving without it.
const DATABASE_GRACE: Duration = Duration::from_secs(2);
/// Connections on the internal port: a few scrapers and the kubelet.
const INTERNAL_CONNECTIONS: usize = 64;

/// A server that has its sockets but does not serve yet.
pub struct Server {
    state: AppState,
    public: TcpListener,
    internal: TcpListener,
}

impl Server {
    /// Takes the sockets, connects to the database and the cache, and begins to connect to the broker.
    ///
    /// # Errors
    /// When an address is in use or a URL is malformed. A database, a cache or a broker that is down is no error.
    pub async fn bind(
        config: ServeArgs,
        mut metrics: Metrics,
        space: CodeSpace,
    ) -> anyhow::Result<Self> {
        let public = listen(config.listen).await?;
        let internal = listen(config.internal_listen).await?;
        let queue = config.queue.uri()?;
        let options = config.database.connect_options()?;
        let database = Database::connect(
            "shortener-app",
            options,
            config.database_max_connections,
            metrics.database_up.clone(),
        );
        // Nothing waits for the broker: links are served without it.
        let queue = queue.map(|uri| Queue {
            jobs: Jobs::new(database.clone()),
            publisher: Publisher::start(uri, metrics.with_publisher()),
        });
        let cache = cache(&config, &mut metrics)?;
        if let Some(cache) = &cache {
            cache.wait_until_up().await;
        }
        database.wait_until_up(DATABASE_GRACE).await;
        let links = CachedLinks::new(Links::new(database, space), cache.clone());
        Ok(Self {
            state: AppState::new(config, metrics, links, cache.as_ref(), queue),
            public,
            internal,
        })
    }

    /// The addresses of the public and the internal port.
    ///
    /// # Errors
    /// When the operating system does not know them.
    pub fn addresses(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        Ok((self.public.local_addr()?, self.internal.local_addr()?))
    }

    /// Serves until `stop` completes, then drains. Returns whether every request in flight was finished.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Self {
            state,
            public,
            internal,
        } = self;
        let config = &state.config;
        let settings = Settings {
            max_connections: config.max_connections as usize,
            header_timeout: config.header_timeout,
            write_timeout: config.request_timeout,
            drain_timeout: config.drain_timeout,
            open_connections: state.metrics.open_connections.clone(),
        };
        let internal_settings = Settings {
            max_connections: INTERNAL_CONNECTIONS,
            drain_timeout: Duration::from_secs(1),
            open_connections: Gauge::default(),
            ..settings.clone()
        };
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
        let complete = server::serve(public, router::public(state.clone()), settings, leave).await;
        let _ = finished.send(true);
        let _ = internal.await;
        tracing::info!(event = "stopped", complete, "stopped");
        complete
    }
}

fn cache(config: &ServeArgs, metrics: &mut Metrics) -> anyhow::Result<Option<Arc<Cache>>> {
    let source = Source::new(&config.cache)?;
    Ok(source.map(|source| {
        let metrics = metrics.with_cache();
        Arc::new(Cache::start(source, &config.cache, metrics))
    }))
}

/// Completes when the cluster has had time to send its traffic elsewhere.
async fn leave_rotation(state: &AppState, stop: impl Future<Output = ()>) {
    stop.await;
    state.start_draining();
    tracing::info!(event = "draining", "draining");
    sleep(state.config.drain_delay).await;
}
