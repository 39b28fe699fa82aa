//! Startup and shutdown: become unready, keep serving, stop accepting, finish requests in flight, end.

mod parts;

use std::{future::Future, iter, net::SocketAddr, sync::Arc, time::Duration};

use futures::future::join_all;
use shortener_common::{
    server::{self, Background, ServerSettings, listen},
    supervised::supervised,
};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    auth::ManagementKey,
    clicks::FlushTask,
    code::CodeSpace,
    config::ServeArgs,
    indexer::Indexer,
    router,
    shortcut::Shortcut,
    state::{AppState, Observed, Profiles},
    store::{cached::CachedLinks, postgres::Links, purge_sweeper::PurgeSweeper},
    unescaped::Unescaped,
};

/// The time to wait for the database before serving without it.
const DATABASE_GRACE: Duration = Duration::from_secs(2);
/// The time to wait for the vector store before serving without it.
const VECTOR_GRACE: Duration = Duration::from_secs(1);
/// The maximum number of connections to the management port. The operator sends one request at a time, and its next leader
/// may begin before the last one has ended. Each request holds the rows of a hundred links at most.
const MANAGEMENT_CONNECTIONS: usize = 4;

/// A server that listens but does not serve yet.
pub struct Server {
    state: AppState,
    public: TcpListener,
    internal: TcpListener,
    /// The management port and its key; `None` without a key.
    management: Option<(TcpListener, ManagementKey)>,
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
        let management = parts::management(&config.management)?;
        let (database, replica) = parts::database(&config, &mut metrics, space)?;
        // Startup does not wait for the broker, because links do not need it.
        let queue = parts::queue(&config, &mut metrics, &memory, &database, &tracer)?;
        let cache = parts::cache(&config, &mut metrics)?;
        if let Some(cache) = &cache {
            cache.connection().wait_until_up().await;
        }
        database.wait_until_up(DATABASE_GRACE).await;
        let mut background = JoinSet::new();
        let vector = parts::vector(&config, &mut metrics, &database)?;
        if let Some(vector) = vector.clone() {
            let store = Arc::clone(&vector.store);
            let publisher = queue.as_ref().map(|queue| queue.publisher.clone());
            background.spawn(supervised("indexer", Indexer::new(vector, publisher).run()));
            let _ = timeout(VECTOR_GRACE, store.up()).await;
        }
        let storage = parts::storage(&config, &mut metrics, &database, &mut background);
        parts::webhooks(&mut metrics, &database, &mut background);
        let (clicks, flush) = parts::clicks(&config, &mut metrics, &memory, &database)?.unzip();
        let links = CachedLinks::new(Links::new(database, space), replica, cache.clone());
        if let Some(cache) = cache.clone() {
            let sweeper = PurgeSweeper::new(links.management().clone(), cache);
            background.spawn(supervised("purge-sweeper", sweeper.run()));
        }
        let profiles = Profiles {
            storage,
            guard: parts::guard(&config, &mut metrics, &mut background),
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
            management,
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

    /// Returns the address of the management port; `None` if it is closed.
    ///
    /// # Errors
    /// Fails if the operating system does not report it.
    pub fn management_address(&self) -> anyhow::Result<Option<SocketAddr>> {
        let address = self.management.as_ref();
        let address = address.map(|(listener, _)| listener.local_addr());
        Ok(address.transpose()?)
    }

    /// Returns the state of the handlers.
    pub fn state(&self) -> &AppState {
        &self.state
    }

    /// Serves until `stop` completes, then drains. Returns true if every request in flight was finished.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Self {
            state,
            public,
            internal,
            management,
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
        // Probes, metrics and the operator are answered until the very end.
        let router = router::internal(state.clone());
        let internal = Background::start(internal, router, internal_settings.clone());
        let management = management.map(|(listener, key)| {
            let settings = ServerSettings {
                max_connections: MANAGEMENT_CONNECTIONS,
                ..internal_settings
            };
            let router = router::management(state.clone(), key);
            Background::start(listener, router, settings)
        });
        let leave = leave_rotation(&state, stop);
        let handler = Shortcut::new(state.clone(), router::public(state.clone()));
        let handler = Unescaped(handler);
        let complete = server::serve(public, handler, settings, leave).await;
        if let Some(clicks) = clicks {
            clicks.end().await;
        }
        let beside = iter::once(internal).chain(management);
        join_all(beside.map(Background::end)).await;
        tracing::info!(event = "stopped", complete, "stopped");
        complete
    }
}

/// Completes once the cluster has had time to send its traffic to other replicas.
async fn leave_rotation(state: &AppState, stop: impl Future<Output = ()>) {
    stop.await;
    state.start_draining();
    tracing::info!(event = "draining", "draining");
    sleep(state.config.drain_delay).await;
}
