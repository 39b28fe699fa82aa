//! Startup and shutdown of the worker: stop consuming, finish the job in progress, end.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::anyhow;
use prometheus_client::registry::Registry as MetricsRegistry;
use shortener_common::{
    backends::{Backends, Health},
    database::{AdmissionMetrics, Database},
    internal::{self, Process},
    server::{Background, ServerSettings, listen},
    telemetry::span::Tracer,
    vector::{VectorMetrics, VectorStore},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    config::WorkerArgs,
    consumer::Consumer,
    metrics::Metrics,
    processor::Processor,
    tasks::{Registry, Vector},
};

/// One job at a time needs one connection. The second one is available while the first is being returned to the pool, and
/// the third one is for look-ups.
const DATABASE_CONNECTIONS: u32 = 3;
/// The read and write timeout of the internal port.
const INTERNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A worker that listens on its internal port but does not consume jobs yet.
pub struct Worker {
    internal: TcpListener,
    consumer: Consumer,
    probed: Probed,
}

/// The state for probes and scrapes.
#[derive(Clone)]
struct Probed {
    metrics: Arc<Metrics>,
    consuming: Arc<AtomicBool>,
    stop: CancellationToken,
    database: Database,
    queue: Health,
    vector: Option<Vector>,
}

impl Process for Probed {
    fn unready(&self) -> Option<&'static str> {
        if self.stop.is_cancelled() {
            Some("draining")
        } else if self.consuming.load(Ordering::Acquire) {
            None
        } else {
            Some("not connected to the queue")
        }
    }

    fn registry(&self) -> &MetricsRegistry {
        &self.metrics.registry
    }

    fn backends(&self) -> Backends {
        Backends {
            database: self.database.health.state(),
            queue: Some(self.queue.state()),
            vector: self
                .vector
                .as_ref()
                .map(|vector| vector.store.store_state()),
            ..Backends::default()
        }
    }
}

impl Worker {
    /// Opens the socket and starts connecting to the database.
    ///
    /// # Errors
    /// Fails if the address is in use, a URL is malformed, a certificate cannot be read, or the broker is not configured.
    /// A database or a broker that is down is not an error.
    pub async fn bind(
        config: WorkerArgs,
        mut metrics: Metrics,
        tracer: Tracer,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let broker = config.queue.broker()?;
        let broker = broker.ok_or_else(|| {
            anyhow!(
                "no broker is configured: set QUEUE_URL, like amqp://host:5672/%2f, or QUEUE_HOST"
            )
        })?;
        let options = config.database.connect_options()?;
        let register = || VectorMetrics::register(&mut metrics.registry);
        let vector = VectorStore::new(&config.vector, register)?;
        let internal = listen(config.internal_listen)?;
        let metrics = Arc::new(metrics);
        let up = metrics.database_up.clone();
        let admission = AdmissionMetrics::default();
        let database = Database::connect(
            "shortener-worker",
            options,
            DATABASE_CONNECTIONS,
            up,
            &admission,
        );
        let vector = vector.map(|store| Vector::new(&database, store));
        let consuming = Arc::new(AtomicBool::new(false));
        let probed = Probed {
            metrics: Arc::clone(&metrics),
            consuming: Arc::clone(&consuming),
            stop: CancellationToken::new(),
            database: database.clone(),
            queue: Health::default(),
            vector: vector.clone(),
        };
        let mut processor = Processor::new(
            database,
            registry,
            metrics,
            config.job_timeout,
            config.purge,
        );
        processor.context.vector = vector;
        processor.tracer = tracer;
        Ok(Self {
            internal,
            consumer: Consumer {
                broker,
                name: format!("shortener-worker {}", config.log.host()),
                processor: Arc::new(processor),
                consuming,
                health: probed.queue.clone(),
                drain_timeout: config.drain_timeout,
            },
            probed,
        })
    }

    /// Returns the address of the internal port.
    ///
    /// # Errors
    /// Fails if the operating system does not report it.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.internal.local_addr()?)
    }

    /// Changes the settings of the processing.
    #[must_use]
    pub fn with(mut self, set: impl FnOnce(&mut Processor)) -> Self {
        // There is no other reference before the worker runs.
        Arc::get_mut(&mut self.consumer.processor).map(set);
        self
    }

    /// Processes jobs until `stop` completes. Returns true if the job in progress was finished.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Self {
            internal,
            consumer,
            probed,
        } = self;
        let settings = ServerSettings::internal(INTERNAL_TIMEOUT, INTERNAL_TIMEOUT);
        // Probes and metrics are answered until the very end.
        let internal = Background::start(internal, internal::router(probed.clone()), settings);
        // Boxed, because the compiler does not analyze a future through so many others down to the last query of a
        // job.
        let work = Box::pin(consumer.run(probed.stop.clone()));
        let ask = async {
            stop.await;
            probed.stop.cancel();
            std::future::pending::<Infallible>().await
        };
        let complete = tokio::select! {
            complete = work => complete,
            never = ask => match never {},
        };
        internal.end().await;
        tracing::info!(event = "stopped", complete, "stopped");
        complete
    }
}
