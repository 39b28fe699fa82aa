//! Publishing jobs: a job is accepted when the broker has confirmed it, and refused in every other case.
//!
//! One task keeps the connection; whoever publishes asks only whether there is one, so that a broker that is away
//! costs nothing but a clear answer. Jobs are published in batches: everything that waits goes out at once, and the
//! next batch starts when all of it is confirmed. The library pairs a returned message with whichever confirmation
//! comes next, so only a complete batch tells for certain which of its messages were returned.

mod keeper;
mod lane;
pub mod metrics;

use std::time::{Duration, Instant};

use axum::body::Bytes;
use lapin::{ConnectionStatus, uri::AMQPUri};
use shortener_common::{
    telemetry::{messaging, span::Tracer},
    trace::TraceContext,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use uuid::Uuid;

use crate::publisher::{keeper::Keeper, metrics::PublisherMetrics};

/// How long the broker may take to confirm a job.
const CONFIRM: Duration = Duration::from_secs(5);
/// The most jobs that wait to be sent: at 64 KiB each that bounds the memory.
const WAITING: usize = 1024;

/// A job to be published.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Its identity.
    pub id: Uuid,
    /// The client's JSON object.
    pub body: Bytes,
    /// The request that brought it, of which the publication is a part; without one it begins a trace.
    pub request: Option<TraceContext>,
    /// What tracing systems added to the request's trace context.
    pub tracestate: Option<String>,
}

/// Why a job was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no connection, or it was lost before the confirmation.
    #[error("the broker is away")]
    Away,
    /// The broker is short of memory or disk space and takes nothing.
    #[error("the broker is blocked by an alarm")]
    Blocked,
    /// The broker is too slow for what is asked of it.
    #[error("too many jobs wait to be published")]
    Busy,
    /// The queue is full.
    #[error("the broker refused the job: the queue is full")]
    Rejected,
    /// The queue did not exist. It does again when this is reported.
    #[error("the queue was missing")]
    Unroutable,
    /// The broker said nothing.
    #[error("the broker did not confirm the job in time")]
    Timeout,
}

impl Refusal {
    /// The word for metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Blocked => "blocked",
            Self::Busy => "busy",
            Self::Rejected => "rejected",
            Self::Unroutable => "unroutable",
            Self::Timeout => "timeout",
        }
    }
}

/// Publishes jobs; cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    waiting: mpsc::Sender<Pending>,
    state: watch::Receiver<State>,
    metrics: PublisherMetrics,
    tracer: Tracer,
}

/// The connection's status; `None` while there is no connection.
type State = Option<ConnectionStatus>;

/// A job with somebody who waits for its fate.
#[derive(Debug)]
struct Pending {
    job: NewJob,
    /// Its publication, which the work on it continues.
    publication: TraceContext,
    fate: oneshot::Sender<Result<(), Refusal>>,
}

impl Publisher {
    /// Begins to connect, for ever. Ends when the last handle is dropped.
    #[must_use]
    pub fn start(uri: AMQPUri, metrics: PublisherMetrics, tracer: Tracer) -> Self {
        let (waiting, jobs) = mpsc::channel(WAITING);
        let (publish, state) = watch::channel(None);
        let keeper = Keeper::new(uri, jobs, publish, metrics.clone());
        tokio::spawn(keeper.run());
        Self {
            waiting,
            state,
            metrics,
            tracer,
        }
    }

    /// Publishes one job. When it returns without an error, the job is safe with the broker.
    ///
    /// # Errors
    /// When that is not certain. The job may then be in the queue all the same.
    pub async fn publish(&self, job: NewJob) -> Result<(), Refusal> {
        let start = Instant::now();
        let mut span = messaging::publish(&self.tracer, job.request, job.id, job.body.len());
        let result = self.try_publish(job, span.trace()).await;
        if let (Err(refusal), Some(mut description)) = (result, span.describe()) {
            description.fail(refusal.label(), &refusal.to_string());
        }
        let error = result.err().map(Refusal::label);
        self.metrics.attempt(error, start.elapsed(), span.trace());
        span.end();
        result
    }

    async fn try_publish(&self, job: NewJob, publication: TraceContext) -> Result<(), Refusal> {
        match &*self.state.borrow() {
            None => return Err(Refusal::Away),
            Some(status) if status.blocked() => return Err(Refusal::Blocked),
            Some(_) => {}
        }
        let (fate, told) = oneshot::channel();
        let pending = Pending {
            job,
            publication,
            fate,
        };
        self.waiting.try_send(pending).map_err(|_| Refusal::Busy)?;
        match timeout(CONFIRM, told).await {
            Ok(Ok(fate)) => fate,
            Ok(Err(_)) => Err(Refusal::Away),
            Err(_) => Err(Refusal::Timeout),
        }
    }
}
