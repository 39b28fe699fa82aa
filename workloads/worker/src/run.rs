//! Putting the worker together, and its way out: take nothing more, finish the job in progress, end.

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
use prometheus_client::{metrics::gauge::Gauge, registry::Registry as MetricsRegistry};
use shortener_common::{
    database::Database,
    internal::{self, Process},
    server::{self, Settings, listen},
    telemetry::span::Tracer,
    vector::VectorStore,
};
use tokio::{net::TcpListener, sync::watch};

use crate::{
    config::WorkerArgs,
    consumer::Consumer,
    metrics::Metrics,
    processor::Processor,
    tasks::{Registry, Vector},
};

/// One job at a time needs one connection; the other is there while the first is being given back.
const DATABASE_CONNECTIONS: u32 = 2;
/// Connections on the internal port: a few scrapers and the kubelet.
const INTERNAL_CONNECTIONS: usize = 64;
/// How long a scraper may take for anything.
const INTERNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A worker that has its socket but takes no jobs yet.
pub struct Worker {
    internal: TcpListener,
    consumer: Consumer,
    probed: Probed,
}

/// What probes and scrapers see.
#[derive(Clone)]
struct Probed {
    metrics: Arc<Metrics>,
    consuming: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
}

impl Process for Probed {
    fn unready(&self) -> Option<&'static str> {
        if *self.stop.borrow() {
            Some("draining")
        } else if self.consuming.load(Ordering::Acquire) {
            None
        } else {
            Some("not connected to the queue")
        }
    }

    fn registry(&self) -> &MetricsRegistry {
        self.metrics.registry()
    }
}

impl Worker {
    /// Takes the socket and begins to connect to the database.
    ///
    /// # Errors
    /// When the address is in use, a URL is malformed or there is none for the queue. A database or a broker that is
    /// down is no error.
    pub async fn bind(
        config: WorkerArgs,
        mut metrics: Metrics,
        tracer: Tracer,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let uri = config.queue.uri()?;
        let uri = uri.ok_or_else(|| anyhow!("QUEUE_URL is required, like amqp://host:5672/%2f"))?;
        let options = config.database.connect_options()?;
        let vector = VectorStore::new(&config.vector, || metrics.with_vector())?;
        let internal = listen(config.internal_listen)?;
        let metrics = Arc::new(metrics);
        let up = metrics.database_up.clone();
        let database = Database::connect("shortener-worker", options, DATABASE_CONNECTIONS, up);
        let vector = vector.map(|store| Vector::new(&database, store));
        let mut processor =
            Processor::new(database, registry, Arc::clone(&metrics), config.job_timeout);
        processor.context.vector = vector;
        processor.tracer = tracer;
        let consuming = Arc::new(AtomicBool::new(false));
        Ok(Self {
            internal,
            consumer: Consumer {
                uri,
                name: format!("shortener-worker {}", config.log.host()),
                processor: Arc::new(processor),
                consuming: Arc::clone(&consuming),
                drain_timeout: config.drain_timeout,
            },
            probed: Probed {
                metrics,
                consuming,
                stop: watch::Sender::new(false),
            },
        })
    }

    /// The address of the internal port.
    ///
    /// # Errors
    /// When the operating system does not know it.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.internal.local_addr()?)
    }

    /// How long to wait before the second attempt at a job; one second unless set.
    #[must_use]
    pub fn with_retry_pause(self, pause: Duration) -> Self {
        self.with(|processor| processor.retry_pause = pause)
    }

    /// How long to keep a job while something that it needs is away; twenty minutes unless set.
    #[must_use]
    pub fn with_hold_at_most(self, time: Duration) -> Self {
        self.with(|processor| processor.hold_at_most = time)
    }

    /// How long a worker without the vector profile may expect to be replaced by one with it; two minutes unless set.
    #[must_use]
    pub fn with_replaced_within(self, time: Duration) -> Self {
        self.with(|processor| processor.context.disabled.replaced_within = time)
    }

    fn with(mut self, set: impl FnOnce(&mut Processor)) -> Self {
        // Nobody else has it before the worker runs.
        Arc::get_mut(&mut self.consumer.processor).map(set);
        self
    }

    /// Processes jobs until `stop` completes. Returns whether the job in progress was finished.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Self {
            internal,
            consumer,
            probed,
        } = self;
        let settings = Settings {
            max_connections: INTERNAL_CONNECTIONS,
            header_timeout: INTERNAL_TIMEOUT,
            write_timeout: INTERNAL_TIMEOUT,
            drain_timeout: Duration::from_secs(1),
            open_connections: Gauge::default(),
        };
        // Probes and metrics are answered until the very end.
        let (finished, mut wait_finished) = watch::channel(false);
        let server = server::serve(
            internal,
            internal::router(probed.clone()),
            settings,
            async move {
                let _ = wait_finished.wait_for(|finished| *finished).await;
            },
        );
        let server = tokio::spawn(server);
        // In a box, because the compiler does not follow a future through so many others to the last query of a job.
        let work = Box::pin(consumer.run(probed.stop.subscribe()));
        let ask = async {
            stop.await;
            probed.stop.send_replace(true);
            std::future::pending::<Infallible>().await
        };
        let complete = tokio::select! {
            complete = work => complete,
            never = ask => match never {},
        };
        let _ = finished.send(true);
        let _ = server.await;
        tracing::info!(event = "stopped", complete, "stopped");
        complete
    }
}
