//! A worker in this process, tasks for tests, and queries of job records.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use futures::future::BoxFuture;
use shortener_app::store::migrate::migrate;
use shortener_common::{
    database::StoreError,
    queue::{
        decision::Decision,
        job::{self, Job},
        origin::Origin,
    },
    telemetry::span::Tracer,
    trace::TraceContext,
};
use shortener_testing::{
    broker::{Broker, until},
    client::get,
    metrics,
};
use shortener_worker::{
    config::WorkerArgs,
    metrics::Metrics,
    run::Worker,
    tasks::{Context, Effect, Outcome, Registry, Task},
};
use sqlx::{
    ConnectOptions, Executor, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
};
use uuid::Uuid;

/// Returns the defaults with a free port.
pub fn config(database: &PgConnectOptions, queue_url: &str) -> WorkerArgs {
    let database = database.to_url_lossy().to_string();
    WorkerArgs::parse_from([
        "worker",
        "--internal-listen=127.0.0.1:0",
        "--hostname=worker-7",
        &format!("--database-url={database}"),
        &format!("--queue-url={queue_url}"),
    ])
}

/// Creates the schema, and a table for the effects of tests.
pub async fn prepare(database: &PgConnectOptions) -> PgPool {
    migrate(database.clone(), Duration::from_secs(60))
        .await
        .unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .connect_with(database.clone())
        .await
        .unwrap();
    pool.execute("CREATE TABLE effects (message_id text NOT NULL)")
        .await
        .unwrap();
    pool
}

/// Returns a worker that is not running yet and retries quickly.
pub async fn bind(config: WorkerArgs, registry: Registry) -> Worker {
    let tracer = Tracer::default();
    Worker::bind(config, Metrics::default(), tracer, registry)
        .await
        .unwrap()
        .with(|processor| processor.retry_pause = Duration::from_millis(1))
}

/// A running worker in this process.
pub struct Running {
    pub internal: SocketAddr,
    stop: oneshot::Sender<()>,
    work: JoinHandle<bool>,
}

impl Running {
    pub async fn start(config: WorkerArgs, registry: Registry) -> Self {
        let running = Self::launch(config, registry).await;
        running.ready().await;
        running
    }

    /// Starts a worker without waiting until it is ready.
    pub async fn launch(config: WorkerArgs, registry: Registry) -> Self {
        Self::run(bind(config, registry).await)
    }

    pub fn run(worker: Worker) -> Self {
        let internal = worker.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let work = tokio::spawn(worker.run(async {
            let _ = stopped.await;
        }));
        Self {
            internal,
            stop,
            work,
        }
    }

    /// Waits until the worker consumes jobs.
    pub async fn ready(&self) {
        until("the worker to be ready", async || {
            let answer = get(self.internal, "/readyz").await;
            (answer.status == 200).then_some(()).ok_or(answer.text())
        })
        .await;
    }

    /// Starts the shutdown; the handle returns true if the job in progress was finished.
    pub fn stop(self) -> JoinHandle<bool> {
        let _ = self.stop.send(());
        self.work
    }

    /// Waits for a line of the metrics.
    pub async fn wait_for_metric(&self, line: &str) {
        metrics::wait_for(self.internal, line).await;
    }

    /// Returns the number of deliveries with this outcome.
    pub async fn processed(&self, outcome: &str) -> u64 {
        let series = format!("jobs_processed_total{{outcome=\"{outcome}\"}}");
        metrics::value(self.internal, &series).await
    }
}

/// Publishes a job as the service does and returns its identifier.
pub async fn publish(broker: &Broker, body: &str) -> Uuid {
    publish_as(broker, &Origin::Internal, body).await
}

/// Publishes a job of the service itself with this decision and returns its identifier.
pub async fn publish_decided(broker: &Broker, decision: &Decision, body: &str) -> Uuid {
    send(broker, &Origin::Internal, decision, body).await
}

/// Publishes a job of this sender and returns its identifier.
pub async fn publish_as(broker: &Broker, sender: &Origin, body: &str) -> Uuid {
    send(broker, sender, &Decision::default(), body).await
}

async fn send(broker: &Broker, sender: &Origin, decision: &Decision, body: &str) -> Uuid {
    let (id, trace) = (Uuid::now_v7(), TraceContext::continuing(None));
    let properties = job::properties(id, sender, decision, trace, None);
    broker.publish(properties, body.as_bytes()).await;
    id
}

/// A job record: state, attempts, error.
pub type Row = (String, i32, Option<String>);

pub async fn row(pool: &PgPool, id: Uuid) -> Option<Row> {
    sqlx::query_as("SELECT state, attempts, error FROM jobs WHERE message_id = $1::uuid")
        .bind(id.to_string())
        .fetch_optional(pool)
        .await
        .unwrap()
}

/// Waits until a job is in this state, and returns its attempts.
pub async fn wait_until(pool: &PgPool, id: Uuid, state: &str) -> i32 {
    until(state, async || match row(pool, id).await {
        Some((now, attempts, _)) if now == state => Ok(attempts),
        other => Err(format!("{other:?}")),
    })
    .await
}

/// Returns the number of effects of this job.
pub async fn effects(pool: &PgPool, id: Uuid) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM effects WHERE message_id = $1")
        .bind(id.to_string())
        .fetch_one(pool)
        .await
        .unwrap()
}

async fn leave_effect(connection: &mut PgConnection, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO effects (message_id) VALUES ($1)")
        .bind(id.to_string())
        .execute(connection)
        .await
        .map(drop)
}

/// Returns the effect of a job, which is not idempotent by itself.
pub fn effect_of(job: &Job) -> Effect {
    let id = job.id;
    Box::new(move |connection| Box::pin(leave_effect(connection, id)))
}

/// A task from a function.
pub struct Act<F>(F);

pub fn act<F>(act: F) -> Act<F>
where
    F: for<'a> Fn(&'a Job, &'a Context) -> BoxFuture<'a, Result<Outcome, StoreError>> + Send + Sync,
{
    Act(act)
}

impl<F> Task for Act<F>
where
    F: for<'a> Fn(&'a Job, &'a Context) -> BoxFuture<'a, Result<Outcome, StoreError>> + Send + Sync,
{
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        (self.0)(job, context)
    }
}

/// A task that applies its effect at once.
pub struct Count;

impl Task for Count {
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move { Ok(Outcome::Done(effect_of(job))) })
    }
}

/// A task that reports its start, and applies its effect once the gate is open.
pub struct Gate {
    begun: mpsc::UnboundedSender<Uuid>,
    open: Arc<Semaphore>,
}

/// The control of a [`Gate`].
pub struct Keeper {
    pub begun: mpsc::UnboundedReceiver<Uuid>,
    open: Arc<Semaphore>,
}

impl Keeper {
    /// Returns a factory of gates, one for each of several workers, and their control.
    pub fn new() -> (impl Fn() -> Gate, Self) {
        let (tell, begun) = mpsc::unbounded_channel();
        let open = Arc::new(Semaphore::new(0));
        let keeper = Self {
            begun,
            open: Arc::clone(&open),
        };
        let gate = move || Gate {
            begun: tell.clone(),
            open: Arc::clone(&open),
        };
        (gate, keeper)
    }

    pub async fn close(&self) {
        let left = self.open.available_permits();
        let permits = u32::try_from(left).unwrap();
        self.open.acquire_many(permits).await.unwrap().forget();
    }

    /// Lets this many jobs pass.
    pub fn let_through(&self, jobs: usize) {
        self.open.add_permits(jobs);
    }
}

impl Task for Gate {
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move {
            self.begun.send(job.id).unwrap();
            self.open.acquire().await.unwrap().forget();
            Ok(Outcome::Done(effect_of(job)))
        })
    }
}

/// A task that fails this many times, then succeeds.
pub struct Flaky(AtomicU32);

impl Flaky {
    pub fn new(failures: u32) -> Self {
        Self(AtomicU32::new(failures))
    }
}

impl Task for Flaky {
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move {
            let left = self.0.load(Ordering::SeqCst);
            if left == 0 {
                return Ok(Outcome::Done(effect_of(job)));
            }
            self.0.store(left - 1, Ordering::SeqCst);
            Ok(Outcome::Retry(format!("{left} failures to come")))
        })
    }
}
