//! Publishing jobs: a job is accepted once the broker has confirmed it, and refused in every other case.
//!
//! One task maintains the connection. A publication only checks that there is one, so that it fails at once during
//! an outage. Each channel of the connection has one batch of jobs in flight: what waited when the one before was confirmed.

mod channel;
mod connection;
pub mod letters;
pub mod metrics;

use std::time::{Duration, Instant};

use axum::body::Bytes;
use lapin::ConnectionStatus;
use shortener_common::{
    backends::Health,
    budget::{Budget, Share},
    queue::{Broker, decision::Decision, origin::Origin},
    supervised::supervised,
    telemetry::{messaging, span::Tracer},
    trace::TraceContext,
};
use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    time::timeout,
};
use uuid::Uuid;

use crate::{
    job_ids::JobIds,
    publisher::{connection::ConnectionTask, metrics::PublisherMetrics},
};

/// The time limit for the broker to confirm a job.
const CONFIRM: Duration = Duration::from_secs(5);
/// The maximum number of jobs that wait to be sent.
const WAITING: usize = 1024;
/// The number of channels, each with one batch of jobs in flight.
const CHANNELS: usize = 4;
/// The number of copies of a job: the library has its own until the broker confirms it.
const COPIES: usize = 2;

/// A job to be published.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The identifier, from [`Publisher::ids`].
    pub id: Uuid,
    pub origin: Origin,
    pub decision: Decision,
    /// The JSON object of the client.
    pub body: Bytes,
    /// The trace context of the request, the parent of the publication; without it, the publication starts a trace.
    pub request: Option<TraceContext>,
    /// The `tracestate` of the request.
    pub tracestate: Option<String>,
}

/// The reason why a job was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no connection, or it was lost before the confirmation.
    #[error("there is no connection to the broker")]
    NotConnected,
    /// The broker is low on memory or disk space and has blocked publishing.
    #[error("the broker has blocked publishing, because it is low on memory or disk space")]
    Blocked,
    /// Jobs arrive faster than the broker accepts them.
    #[error("too many jobs wait to be published")]
    Busy,
    /// The queue is full.
    #[error("the broker rejected the job: the queue is full")]
    Rejected,
    /// The queue did not exist. It has been declared again.
    #[error("the queue did not exist and has been declared again")]
    Unroutable,
    /// The broker did not confirm in time.
    #[error("the broker did not confirm the job in time")]
    Timeout,
}

impl Refusal {
    /// Returns the value of the metric label.
    fn label(self) -> &'static str {
        match self {
            Self::NotConnected => "away",
            Self::Blocked => "blocked",
            Self::Busy => "busy",
            Self::Rejected => "rejected",
            Self::Unroutable => "unroutable",
            Self::Timeout => "timeout",
        }
    }
}

/// A handle to the publisher; cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    /// The identifiers of its jobs.
    pub ids: JobIds,
    waiting: mpsc::Sender<Pending>,
    budget: Budget,
    state: watch::Receiver<State>,
    /// The state of the broker, for the operator.
    pub health: Health,
    metrics: PublisherMetrics,
    tracer: Tracer,
}

/// The status of the connection; `None` while there is none.
type State = Option<ConnectionStatus>;

/// A job that waits to be sent.
#[derive(Debug)]
struct Pending {
    job: NewJob,
    /// The trace context of its publication, which the processing continues.
    publication: TraceContext,
    /// The caller that waits for the result, unless it has given up.
    result: oneshot::Sender<Result<(), Refusal>>,
    /// The share of the memory for jobs, free again after the confirmation.
    _share: Share,
}

impl Publisher {
    /// Starts the task that connects, without a limit on attempts. It ends when the last handle is dropped. Jobs that
    /// wait to be sent or to be confirmed fit into the budget.
    pub fn start(
        broker: Broker,
        ids: JobIds,
        budget: Budget,
        metrics: PublisherMetrics,
        tracer: Tracer,
    ) -> Self {
        let (waiting, jobs) = mpsc::channel(WAITING);
        let (publish, state) = watch::channel(None);
        let health = Health::default();
        let task = ConnectionTask {
            broker,
            jobs: Mutex::new(jobs),
            publish,
            metrics: metrics.clone(),
            health: health.clone(),
        };
        tokio::spawn(supervised("publisher", task.run()));
        Self {
            ids,
            waiting,
            budget,
            state,
            health,
            metrics,
            tracer,
        }
    }

    /// Completes once there is a connection to the broker.
    pub async fn connected(&self) {
        // Without the task that connects there is nothing to wait for.
        let _ = self.state.clone().wait_for(Option::is_some).await;
    }

    /// Publishes one job. On success, the broker has stored the job durably.
    ///
    /// # Errors
    /// Fails if that is not certain. The job may be in the queue nevertheless.
    pub async fn publish(&self, job: NewJob) -> Result<(), Refusal> {
        let start = Instant::now();
        let mut span = messaging::publish(&self.tracer, job.request, job.id, job.body.len());
        let result = self.try_publish(job, span.trace()).await;
        if let Err(refusal) = result {
            span.fail(refusal.label(), &refusal.to_string());
        }
        let error = result.err().map(Refusal::label);
        self.metrics.attempt(error, start.elapsed(), span.trace());
        span.end();
        result
    }

    async fn try_publish(&self, job: NewJob, publication: TraceContext) -> Result<(), Refusal> {
        match &*self.state.borrow() {
            None => return Err(Refusal::NotConnected),
            Some(status) if status.blocked() => return Err(Refusal::Blocked),
            Some(_) => {}
        }
        let bytes = job.body.len() * COPIES;
        let share = self.budget.take(bytes).ok_or(Refusal::Busy)?;
        let (result, answer) = oneshot::channel();
        let pending = Pending {
            job,
            publication,
            result,
            _share: share,
        };
        self.waiting.try_send(pending).map_err(|_| Refusal::Busy)?;
        match timeout(CONFIRM, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Refusal::NotConnected),
            Err(_) => Err(Refusal::Timeout),
        }
    }
}
