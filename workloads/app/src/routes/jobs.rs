//! Background jobs, which need the queue profile.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, Uri};
use jiff::Timestamp;
use serde::Serialize;
use shortener_common::{
    queue::{
        decision::Decision,
        job::{Fields, needs_vector_store},
        origin::Origin,
    },
    trace::{TRACESTATE, TraceContext},
};
use uuid::Uuid;

use crate::{
    auth::Client,
    body,
    error::Error,
    idempotency::idempotency_key,
    job_ids::Unrecorded,
    publisher::NewJob,
    scope::Scope,
    state::{AppState, Queue, SharedState},
    store::jobs::{Claim, JobStatus, Jobs},
};

/// The maximum size of a job in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// The maximum length of a `tracestate` that is forwarded, in bytes; every tracing system must accept this length.
const MAX_TRACESTATE: usize = 512;

/// The job was accepted. It may not have started yet, and it may still fail.
#[derive(Debug, Serialize)]
pub struct Enqueued {
    /// Always `enqueued`.
    status: &'static str,
    /// Identifier of the job, for `GET /jobs/{id}`.
    id: String,
    /// Trace identifier of the request, which the job continues.
    trace_id: String,
}

/// Accepts a background job if the queue profile is enabled.
///
/// The body is any JSON object: `task` is the name of the task, `id` is the client's own identifier. The response
/// is sent once the broker has confirmed the job. Without `Idempotency-Key`, every request creates a job. Some tasks
/// need a key even where other jobs need none.
pub async fn enqueue(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let Some(queue) = &state.queue else {
        // The body is read, so that the proxy can reuse the connection.
        body::discard(request, MAX_BODY).await?;
        return Err(Error::ProfileDisabled("queue"));
    };
    let key = idempotency_key(&request)?;
    let (trace, tracestate) = trace_of(&request);
    let client: Option<Client> = request.extensions().get().cloned();
    let origin = sender(client.as_ref(), Scope::Jobs);
    let (text, share) = body::json_text(request, MAX_BODY, &state.memory.bodies).await?;
    let fields = Fields::read(&text).map_err(body::malformed)?;
    let decision = Decision::new(&fields.task, state.vector_target());
    let admitted = admit(&state, client.as_ref(), &origin, &fields);
    let new = || queue.publisher.ids.mint(&origin);
    let id = match claim(&queue.jobs, key.as_deref(), &text, admitted.map(|()| new())).await? {
        Claim::OtherBody => return Err(Error::KeyReused),
        Claim::Enqueued(id) => id,
        // In case of doubt it is published again with the same identifier, and the workers discard the second message as a
        // duplicate.
        Claim::ToPublish(id) => {
            // The publisher has memory for it: while the broker is slow, others need that of bodies.
            drop(share);
            let job = NewJob {
                id,
                origin,
                decision,
                body: text.into(),
                request: Some(trace),
                tracestate,
            };
            queue.publisher.publish(job).await?;
            note(queue, key.as_deref(), id).await;
            id
        }
    };
    let answer = Enqueued {
        status: "enqueued",
        id: id.to_string(),
        trace_id: trace.trace_id.to_string(),
    };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Returns the sender of a request with this scope. A key for something else counts as little as none.
pub(super) fn sender(client: Option<&Client>, scope: Scope) -> Origin {
    match client {
        Some(client) if client.scopes.contains(scope) => Origin::Client(Arc::clone(&client.name)),
        _ => Origin::Anonymous,
    }
}

/// Returns the job that the request stands for; a new one has the identifier with which it is admitted. A job that was accepted stays accepted, even if the settings have changed
/// since.
async fn claim(
    jobs: &Jobs,
    key: Option<&str>,
    text: &[u8],
    admitted: Result<Uuid, Error>,
) -> Result<Claim, Error> {
    match (key, admitted) {
        (Some(key), Ok(new)) => Ok(jobs.claim(key, text, new).await?),
        (None, Ok(new)) => Ok(Claim::ToPublish(new)),
        (Some(key), Err(refusal)) => match jobs.claimed(key, text).await? {
            None | Some(Claim::ToPublish(_)) => Err(refusal),
            Some(claim) => Ok(claim),
        },
        (None, Err(refusal)) => Err(refusal),
    }
}

/// Decides whether to accept a job. The workers do not decide it again.
fn admit(
    state: &SharedState,
    client: Option<&Client>,
    origin: &Origin,
    fields: &Fields,
) -> Result<(), Error> {
    if *origin == Origin::Anonymous && !state.config.public_tasks.contains(&fields.task) {
        let refusal = state.guard.refusal(Scope::Jobs, client);
        return Err(refusal.unwrap_or(Error::TaskNotPublic));
    }
    if needs_vector_store(&fields.task) && state.vector.is_none() {
        return Err(Error::ProfileDisabled("vector"));
    }
    let checked = fields.check();
    checked.map_err(|error| Error::invalid(error.field, error.rule))
}

/// Notes that the job of a key is published.
async fn note(queue: &Queue, key: Option<&str>, id: Uuid) {
    if let Some(key) = key
        && let Err(error) = queue.jobs.enqueued(key, id).await
    {
        tracing::warn!(event = "key_not_noted", job.id = %id, error.message = %error, "key_not_noted");
    }
}

/// Returns the state of a job.
///
/// A job that no worker has received yet is `enqueued`. Its identifier shows that it was accepted, for as long as
/// finished jobs are kept.
pub async fn job(State(state): State<AppState>, uri: Uri) -> Result<Json<JobStatus>, Error> {
    let Some(queue) = &state.queue else {
        return Err(Error::ProfileDisabled("queue"));
    };
    let id = uri.path().strip_prefix("/jobs/").unwrap_or_default();
    let id: Uuid = id.parse().map_err(|_| Error::NotFound)?;
    if let Some(job) = queue.jobs.find(id).await? {
        return Ok(Json(job));
    }
    let waits = match queue.publisher.ids.unrecorded(id, Timestamp::now()) {
        Some(Unrecorded::Waits) => true,
        Some(Unrecorded::WaitsOrRemoved) => !queue.jobs.is_overtaken(id).await?,
        None => false,
    };
    match waits {
        true => Ok(Json(JobStatus::enqueued(id))),
        false => Err(Error::NotFound),
    }
}

/// Returns the trace context that the job continues, and the `tracestate` of the request.
pub(super) fn trace_of(request: &Request) -> (TraceContext, Option<String>) {
    let headers = request.headers();
    let trace = request.extensions().get().copied();
    let trace: TraceContext = trace.unwrap_or_else(|| TraceContext::from_headers(headers));
    let lines: Vec<&str> = headers
        .get_all(TRACESTATE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    let tracestate = lines.join(",");
    // Without the caller's `traceparent`, or in a trace that is not the caller's, the `tracestate` is meaningless.
    let meaningful = trace.parent.is_some() && (1..=MAX_TRACESTATE).contains(&tracestate.len());
    (trace, meaningful.then_some(tracestate))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::HeaderName;
    use shortener_common::trace::TRACEPARENT;

    use super::*;

    fn request(headers: &[(HeaderName, &str)]) -> Request {
        let mut request = Request::new(Body::empty());
        for (name, value) in headers {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request
    }

    #[test]
    fn tracestate_is_passed_on_only_together_with_its_traceparent() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let state = |headers: &[(HeaderName, &str)]| trace_of(&request(headers)).1;
        assert_eq!(
            state(&[
                (TRACEPARENT, parent),
                (TRACESTATE, "a=1"),
                (TRACESTATE, "b=2")
            ])
            .unwrap(),
            "a=1,b=2"
        );
        let mut untrusted = request(&[(TRACEPARENT, parent), (TRACESTATE, "a=1")]);
        untrusted.extensions_mut().insert(TraceContext::root());
        assert_eq!(trace_of(&untrusted).1, None);
        assert_eq!(state(&[(TRACEPARENT, parent)]), None);
        assert_eq!(state(&[(TRACESTATE, "a=1")]), None);
        let long = format!("a={}", "x".repeat(512));
        assert_eq!(state(&[(TRACEPARENT, parent), (TRACESTATE, &long)]), None);
    }
}
