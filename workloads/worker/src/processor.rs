//! One delivery, from the message to what the broker is to be told about it. Knows nothing of the broker itself.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use lapin::BasicProperties;
use shortener_common::{
    backoff::Backoff,
    database::{Database, StoreError},
    queue::job::{self, Job},
};
use tokio::time::{sleep, timeout};

use crate::{
    ledger::Ledger,
    metrics::{Metrics, Processed},
    tasks::{Context, Outcome, Registry},
};

/// Pauses between attempts while something that a job needs is away.
const HOLD: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
};
/// How long a job is kept that way. The broker takes a message back from a consumer that holds it for longer than 30
/// minutes, and that would spend a delivery; the last attempt may take its time, too.
const HOLD_AT_MOST: Duration = Duration::from_secs(20 * 60);

/// What the broker is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The message is dealt with.
    Ack,
    /// The message is to be delivered again after this time, if the broker's limit allows it.
    Retry(Duration),
    /// The message is to become a dead letter.
    DeadLetter,
    /// The message is to be kept for later, as if it had not been delivered.
    GiveBack,
}

/// Deals with deliveries.
pub struct Processor {
    /// The ledger of the jobs.
    pub ledger: Ledger,
    /// What jobs can ask for.
    pub registry: Registry,
    /// What tasks work with.
    pub context: Context,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// How long one attempt may take.
    pub job_timeout: Duration,
    /// The pause before the second attempt; each further one is twice as long, up to eight times.
    pub retry_pause: Duration,
}

/// What became of a job that could be tried.
enum End {
    Done,
    Duplicate,
    Failed(String),
    Rejected(String),
}

impl Processor {
    /// Deals with jobs by these tasks.
    #[must_use]
    pub fn new(
        database: Database,
        registry: Registry,
        metrics: Arc<Metrics>,
        job_timeout: Duration,
    ) -> Self {
        Self {
            ledger: Ledger::new(database.clone()),
            registry,
            context: Context { database },
            metrics,
            job_timeout,
            retry_pause: Duration::from_secs(1),
        }
    }

    /// Deals with one delivery. When it says that the message is dealt with, its effects are durable.
    pub async fn process(&self, properties: &BasicProperties, body: Vec<u8>) -> Verdict {
        let start = Instant::now();
        let job = match Job::parse(properties, body) {
            Ok(job) => job,
            Err(invalid) => {
                let trace = job::trace_of(properties);
                tracing::warn!(
                    event = "job_invalid",
                    trace_id = %trace.trace_id,
                    span_id = %trace.span_id,
                    error.message = %invalid,
                    "job_invalid"
                );
                self.metrics
                    .processed(Processed::Invalid, start.elapsed(), trace);
                return Verdict::DeadLetter;
            }
        };
        log_start(&job);
        let end = self.hold(&job).await;
        self.metrics.holding.set(0);
        let (processed, verdict) = match &end {
            Some(End::Done) => (Processed::Done, Verdict::Ack),
            Some(End::Duplicate) => (Processed::Duplicate, Verdict::Ack),
            Some(End::Failed(_)) => {
                let pause = retry_pause(self.retry_pause, job.returns);
                (Processed::Failed, Verdict::Retry(pause))
            }
            Some(End::Rejected(_)) => (Processed::Rejected, Verdict::DeadLetter),
            None => (Processed::GivenBack, Verdict::GiveBack),
        };
        let duration = start.elapsed();
        self.metrics.processed(processed, duration, job.trace);
        log_end(&job, end.as_ref(), duration);
        verdict
    }

    /// Tries until everything that the job needs is there; `None` when that takes too long.
    async fn hold(&self, job: &Job) -> Option<End> {
        let start = Instant::now();
        let mut failures = 0;
        loop {
            let away = match self.attempt(job).await {
                Ok(end) => return Some(end),
                Err(away) => away,
            };
            if start.elapsed() >= HOLD_AT_MOST {
                return None;
            }
            if failures == 0 {
                self.metrics.holding.set(1);
                tracing::warn!(
                    event = "job_held",
                    trace_id = %job.trace.trace_id,
                    span_id = %job.trace.span_id,
                    job.id = %job.id,
                    error.message = away,
                    "job_held"
                );
            }
            failures += 1;
            sleep(HOLD.random_pause(failures)).await;
        }
    }

    /// One attempt; the error says what was away.
    async fn attempt(&self, job: &Job) -> Result<End, String> {
        let reason = match self.try_job(job).await {
            Ok(end) => return Ok(end),
            Err(StoreError::Unavailable(reason)) => return Err(reason),
            // A question that the database refuses is a fault of the task or of the job.
            Err(StoreError::Internal(error)) => error.to_string(),
        };
        match self.ledger.fail(job.id, &reason).await {
            Err(StoreError::Unavailable(reason)) => Err(reason),
            Ok(()) | Err(StoreError::Internal(_)) => Ok(End::Failed(reason)),
        }
    }

    async fn try_job(&self, job: &Job) -> Result<End, StoreError> {
        if !self.ledger.begin(job).await? {
            return Ok(End::Duplicate);
        }
        Ok(match self.handle(job).await? {
            Outcome::Done(effect) => match self.ledger.finish(job.id, effect).await? {
                true => End::Done,
                // Somebody else was faster, because the message was delivered a second time meanwhile.
                false => End::Duplicate,
            },
            Outcome::Retry(reason) => {
                self.ledger.fail(job.id, &reason).await?;
                End::Failed(reason)
            }
            Outcome::Reject(reason) => {
                self.ledger.fail(job.id, &reason).await?;
                End::Rejected(reason)
            }
        })
    }

    /// Runs the task; one that panics or takes too long has failed like any other.
    async fn handle(&self, job: &Job) -> Result<Outcome, StoreError> {
        let task = self.registry.get(&job.task);
        // Inside, so that nothing that the task does can panic anywhere else.
        let work = async { task.handle(job, &self.context).await };
        match timeout(self.job_timeout, AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Ok(Outcome::Retry("the task panicked".to_owned())),
            Err(_) => {
                let limit = self.job_timeout.as_secs_f64();
                Ok(Outcome::Retry(format!(
                    "the task took longer than {limit} s"
                )))
            }
        }
    }
}

/// 1, 2, 4 and 8 times the unit, by how often the message came back before.
#[must_use]
pub fn retry_pause(unit: Duration, returns: u32) -> Duration {
    unit * (1 << returns.min(3))
}

fn log_start(job: &Job) {
    tracing::info!(
        event = "job_start",
        trace_id = %job.trace.trace_id,
        span_id = %job.trace.span_id,
        job.id = %job.id,
        job.client_id = job.client_id.as_deref(),
        job.task = job.task,
        job.returns = job.returns,
        "job_start"
    );
}

/// One line per delivery; a job that is done says exactly `job_done`.
fn log_end(job: &Job, end: Option<&End>, duration: Duration) {
    macro_rules! line {
        ($level:ident, $event:literal, $reason:expr) => {
            tracing::$level!(
                event = $event,
                trace_id = %job.trace.trace_id,
                span_id = %job.trace.span_id,
                job.id = %job.id,
                job.client_id = job.client_id.as_deref(),
                job.task = job.task,
                duration = duration.as_secs_f64(),
                error.message = $reason,
                $event
            )
        };
    }
    let none = None::<&str>;
    match end {
        Some(End::Done) => line!(info, "job_done", none),
        Some(End::Duplicate) => line!(info, "job_duplicate", none),
        Some(End::Failed(reason)) => line!(error, "job_failed", Some(reason.as_str())),
        Some(End::Rejected(reason)) => line!(error, "job_rejected", Some(reason.as_str())),
        None => line!(warn, "job_given_back", none),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_before_further_attempts_double_up_to_eight_times_the_first() {
        let pauses = [0, 1, 2, 3, 4, u32::MAX]
            .map(|returns| retry_pause(Duration::from_secs(1), returns).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 8, 8]);
    }
}
