//! Log lines and span attributes of a delivery.

use std::time::Duration;

use shortener_common::{
    queue::job::{Invalid, Job},
    telemetry::span::Span,
    trace::TraceContext,
};

use crate::outcome::JobOutcome;

/// Writes the log line of a message that is not a job.
pub(super) fn log_invalid(trace: TraceContext, invalid: &Invalid) {
    tracing::warn!(
        event = "job_invalid",
        trace_id = %trace.trace_id,
        span_id = %trace.span_id,
        error.message = %invalid,
        "job_invalid"
    );
}

/// Writes the log line of a job whose message has no identifier: a redelivery would repeat its effect.
pub(super) fn log_unnamed(job: &Job) {
    tracing::warn!(
        event = "job_unnamed",
        trace_id = %job.trace.trace_id,
        span_id = %job.trace.span_id,
        job.id = %job.id,
        "job_unnamed"
    );
}

/// Adds the client's names of a job to the span.
pub(super) fn describe(job: &Job, span: &mut Span) {
    if !span.is_recording() {
        return;
    }
    span.set("job.task", job.fields.task.clone())
        .set("job.returns", i64::from(job.returns));
    if let Some(id) = &job.fields.client_id {
        span.set("job.client_id", id.clone());
    }
}

pub(super) fn log_start(job: &Job) {
    tracing::info!(
        event = "job_start",
        trace_id = %job.trace.trace_id,
        span_id = %job.trace.span_id,
        job.id = %job.id,
        job.client_id = job.fields.client_id.as_deref(),
        job.task = job.fields.task,
        job.returns = job.returns,
        "job_start"
    );
}

/// Writes the log line of a processed delivery; its body is exactly `job_done` if the job is done.
pub(super) fn log_end(job: &Job, outcome: &JobOutcome, duration: Duration) {
    macro_rules! line {
        ($level:ident, $event:literal) => {
            tracing::$level!(
                event = $event,
                trace_id = %job.trace.trace_id,
                span_id = %job.trace.span_id,
                job.id = %job.id,
                job.client_id = job.fields.client_id.as_deref(),
                job.task = job.fields.task,
                duration = duration.as_secs_f64(),
                error.message = outcome.reason(),
                $event
            )
        };
    }
    match outcome {
        JobOutcome::Done => line!(info, "job_done"),
        JobOutcome::Duplicate => line!(info, "job_duplicate"),
        JobOutcome::Failed { .. } => line!(error, "job_failed"),
        JobOutcome::Rejected { .. } | JobOutcome::Invalid(_) => line!(error, "job_rejected"),
        JobOutcome::GivenBack => line!(warn, "job_given_back"),
    }
}
