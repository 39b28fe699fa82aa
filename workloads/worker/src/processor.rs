//! The processing of one delivery, from the message to its outcome. It does not use the connection to the broker.

mod report;
mod rollout;

use std::{
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use lapin::BasicProperties;
use shortener_common::{
    backoff::Backoff,
    config::PurgeArgs,
    database::{Database, StoreError},
    queue::{
        job::{self, Job},
        origin::Origin,
    },
    telemetry::{
        messaging,
        span::{Tracer, in_span},
    },
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::rollout::Rollout;
use crate::{
    ledger::Ledger,
    metrics::Metrics,
    outcome::JobOutcome,
    tasks::{Context, Limit, Outcome, Registry},
};

/// Backoff between attempts while a backend is down.
const HOLD: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
};
/// The default interval at which a worker records that its job still runs.
const RUNS_EVERY: Duration = Duration::from_secs(10 * 60);
/// The default time for which a job waits for a backend. The broker requeues a message that stays unacknowledged
/// for more than 30 minutes, which counts as a delivery before RabbitMQ 4.3; the last attempt may take its time, too.
const HOLD_AT_MOST: Duration = Duration::from_secs(20 * 60);
pub struct Processor {
    /// The job records.
    pub ledger: Ledger,
    /// The tasks by name.
    pub registry: Registry,
    /// The backends for tasks.
    pub context: Context,
    pub metrics: Arc<Metrics>,
    /// The factory of spans; by default it creates none.
    pub tracer: Tracer,
    /// The pause before the second attempt. Each further pause is twice as long, up to eight times this one.
    pub retry_pause: Duration,
    /// The interval at which it records that its job still runs.
    pub runs_every: Duration,
    /// Time limit for which a job waits for a backend before it returns to the queue.
    pub hold_at_most: Duration,
    /// The rollout during which it holds jobs for other workers. Afterwards it rejects them.
    pub rollout: Rollout,
}

impl Processor {
    /// Returns a processor with these tasks and settings, and the defaults of the others.
    pub fn new(
        database: Database,
        registry: Registry,
        metrics: Arc<Metrics>,
        time_limit: Duration,
        purge: PurgeArgs,
    ) -> Self {
        Self {
            ledger: Ledger::new(database.clone()),
            registry,
            context: Context {
                database,
                vector: None,
                purge,
                time_limit,
            },
            metrics,
            tracer: Tracer::default(),
            retry_pause: Duration::from_secs(1),
            runs_every: RUNS_EVERY,
            hold_at_most: HOLD_AT_MOST,
            rollout: Rollout::default(),
        }
    }

    /// Processes one delivery. The effects of a job that is done are durable.
    pub async fn process(
        &self,
        properties: &BasicProperties,
        body: Vec<u8>,
        stop: &CancellationToken,
    ) -> JobOutcome {
        let start = Instant::now();
        let bytes = body.len();
        let parsed = Job::parse(properties, body);
        let (trace, id) = match &parsed {
            Ok(job) => (job.trace, Some(job.id)),
            Err(_) => (job::trace_of(properties), None),
        };
        let mut span = messaging::process(&self.tracer, trace, id, bytes);
        let outcome = match parsed {
            Ok(job) => {
                if job::id_of(properties).is_none() {
                    report::log_unnamed(&job);
                }
                report::log_start(&job);
                let outcome = in_span(&span, self.hold(&job, stop)).await;
                if matches!(outcome, JobOutcome::GivenBack) {
                    // Without the database, nobody can read it either.
                    let _ = self.ledger.waits(job.id).await;
                }
                self.metrics.holding.set(0);
                report::log_end(&job, &outcome, start.elapsed());
                report::describe(&job, &mut span);
                outcome
            }
            Err(invalid) => {
                report::log_invalid(trace, &invalid);
                JobOutcome::Invalid(invalid.to_string())
            }
        };
        if let Some(reason) = outcome.reason() {
            span.fail(outcome.label(), reason);
        }
        self.metrics.processed(&outcome, start.elapsed(), trace);
        span.end();
        outcome
    }

    /// Retries while a backend is down, until the time limit or the end of the process.
    async fn hold(&self, job: &Job, stop: &CancellationToken) -> JobOutcome {
        let start = Instant::now();
        let mut failures = 0;
        loop {
            let away = match self.attempt(job).await {
                Ok(outcome) => return outcome,
                Err(away) => away,
            };
            if start.elapsed() >= self.hold_at_most {
                return JobOutcome::GivenBack;
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
            tokio::select! {
                () = sleep(HOLD.random_pause(failures)) => {}
                // Another worker can wait for the backend as well.
                () = stop.cancelled() => return JobOutcome::GivenBack,
            }
        }
    }

    /// Makes one attempt; the error is the reason why a backend is unavailable.
    async fn attempt(&self, job: &Job) -> Result<JobOutcome, String> {
        let reason = match self.try_job(job).await {
            Ok(outcome) => return Ok(outcome),
            Err(StoreError::Unavailable(reason)) => return Err(reason),
            Err(busy @ StoreError::Busy) => return Err(busy.to_string()),
            // A query that the database rejects or cuts short is a fault of the task or of the job.
            Err(StoreError::Internal(error)) => error.to_string(),
            Err(StoreError::TimedOut(reason)) => reason,
        };
        match self.ledger.fail(job.id, &internal_error(job)).await {
            // If the ledger is too slow as well, the cause is not the job.
            Err(StoreError::Unavailable(reason) | StoreError::TimedOut(reason)) => Err(reason),
            Err(busy @ StoreError::Busy) => Err(busy.to_string()),
            Ok(()) | Err(StoreError::Internal(_)) => Ok(self.failed(job, reason)),
        }
    }

    async fn try_job(&self, job: &Job) -> Result<JobOutcome, StoreError> {
        if !self.ledger.begin(job).await? {
            return Ok(JobOutcome::Duplicate);
        }
        Ok(match self.handle(job).await? {
            Outcome::Done(effect) => match self.ledger.finish(job.id, effect).await? {
                true => JobOutcome::Done,
                // Another worker finished the job first, because the message was delivered twice.
                false => JobOutcome::Duplicate,
            },
            Outcome::Retry(reason) => {
                self.ledger.fail(job.id, &reason).await?;
                self.failed(job, reason)
            }
            Outcome::Reject(reason) => {
                self.ledger.fail(job.id, &reason).await?;
                rejected(job, reason)
            }
            Outcome::Elsewhere(reason) => {
                if self.rollout.is_under_way(Instant::now()) {
                    return Err(StoreError::Unavailable(reason.to_owned()));
                }
                self.ledger.fail(job.id, reason).await?;
                JobOutcome::Rejected {
                    reason: reason.to_owned(),
                    // The app sends its own jobs again, as long as a document is due.
                    is_dead_letter: matches!(job.origin, Origin::Client(_)),
                }
            }
            Outcome::Fault(reason) => {
                self.ledger.fail(job.id, &internal_error(job)).await?;
                rejected(job, reason)
            }
        })
    }

    fn failed(&self, job: &Job, reason: String) -> JobOutcome {
        let pause = retry_pause(self.retry_pause, job.returns);
        JobOutcome::Failed { reason, pause }
    }

    /// Runs the task. A panic or a timeout counts as a failure.
    async fn handle(&self, job: &Job) -> Result<Outcome, StoreError> {
        let task = match self.registry.get(job) {
            Ok(task) => task,
            Err(elsewhere) => return Ok(elsewhere),
        };
        // Inside the future, so that a panic of the task is always caught here.
        let work = async { task.handle(job, &self.context).await };
        let work = AssertUnwindSafe(work).catch_unwind();
        let work = self.while_running(job, work);
        let limit = self.context.time_limit;
        let ended = match task.limit() {
            Limit::Attempt => timeout(limit, work).await,
            Limit::Step => Ok(work.await),
        };
        match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Ok(Outcome::Retry("the task panicked".to_owned())),
            Err(_) => {
                let limit = limit.as_secs_f64();
                Ok(Outcome::Retry(format!(
                    "the task took longer than {limit} s"
                )))
            }
        }
    }

    /// Runs an attempt, and records at intervals that it runs.
    async fn while_running<T>(&self, job: &Job, attempt: impl Future<Output = T>) -> T {
        let mut attempt = pin!(attempt);
        loop {
            match timeout(self.runs_every, &mut attempt).await {
                Ok(ended) => return ended,
                // Without the database, the next one may succeed.
                Err(_) => drop(self.ledger.runs(job.id).await),
            }
        }
    }
}

fn rejected(job: &Job, reason: String) -> JobOutcome {
    JobOutcome::Rejected {
        reason,
        // Anyone could otherwise fill the queue of dead letters, which then drops those of clients.
        is_dead_letter: job.origin != Origin::Anonymous,
    }
}

/// Returns the text for the ledger about an error of a backend. `GET /jobs/<id>` shows the ledger to every client, so
/// the text of the backend is in the log alone, beside this trace.
fn internal_error(job: &Job) -> String {
    let trace = job.trace.trace_id;
    format!("an internal error; the worker's log has it under trace {trace}")
}

/// Returns 1, 2, 4 or 8 times the unit, by the number of earlier returns to the queue.
pub fn retry_pause(unit: Duration, returns: u32) -> Duration {
    unit * (1 << returns.min(3))
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
