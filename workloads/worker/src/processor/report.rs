//! Log lines and span attributes of a delivery.

use std::time::Duration;

use shortener_common::{
    queue::job::{Invalid, Job},
    telemetry::span::Span,
    trace::TraceContext,
};

use super::AttemptResult;

/// Reports a message that is not a job.
pub(super) fn refuse(trace: TraceContext, invalid: &Invalid, span: &mut Span) {
    tracing::warn!(
        event = "job_invalid",
        trace_id = %trace.trace_id,
        span_id = %trace.span_id,
        error.message = %invalid,
        "job_invalid"
    );
    span.fail("invalid", &invalid.to_string());
}

/// Adds the client's names and the outcome of a job to the span.
pub(super) fn describe_end(job: &Job, end: Option<&AttemptResult>, span: &mut Span) {
    if !span.is_recording() {
        return;
    }
    span.set("job.task", job.task.clone())
        .set("job.returns", i64::from(job.returns));
    if let Some(id) = &job.client_id {
        span.set("job.client_id", id.clone());
    }
    match end {
        Some(AttemptResult::Done | AttemptResult::Duplicate) => {}
        Some(AttemptResult::Failed(reason)) => drop(span.fail("failed", reason)),
        Some(AttemptResult::Rejected(reason)) => drop(span.fail("rejected", reason)),
        None => drop(span.fail("given_back", "a backend that the job needs is down")),
    }
}

pub(super) fn log_start(job: &Job) {
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

/// Writes the log line of a processed delivery; its body is exactly `job_done` if the job is done.
pub(super) fn log_end(job: &Job, end: Option<&AttemptResult>, duration: Duration) {
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
        Some(AttemptResult::Done) => line!(info, "job_done", none),
        Some(AttemptResult::Duplicate) => line!(info, "job_duplicate", none),
        Some(AttemptResult::Failed(reason)) => line!(error, "job_failed", Some(reason.as_str())),
        Some(AttemptResult::Rejected(reason)) => {
            line!(error, "job_rejected", Some(reason.as_str()))
        }
        None => line!(warn, "job_given_back", none),
    }
}
