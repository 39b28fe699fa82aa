//! Documents and the search for the nearest ones; both need the vector profile.

pub mod bodies;
mod fields;

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, Uri};
use shortener_common::{
    documents::{DocumentId, Version},
    queue::origin::Origin,
    trace::TraceContext,
};

use self::{
    bodies::{DocumentResponse, DocumentWritten, QueryResponse},
    fields::Content,
};
use super::{
    jobs::{sender, trace_of},
    to_the_end,
};
use crate::{
    body,
    error::Error,
    indexer::{index_job, log_refusal},
    scope::Scope,
    state::{AppState, Queue, Vector},
};

/// The maximum size of a document and of a query in bytes, as at the gateway.
pub const MAX_BODY: usize = 128 * 1024;
/// The maximum number of payloads that queries hold at the same time. It equals the maximum of one query, because
/// large payloads take half the memory.
pub const MAX_PAYLOADS: usize = fields::MAX_LIMIT as usize;

/// Stores or replaces a document, so that queries find it.
///
/// With the queue profile, a job writes it to the vector store. Without it, that is done before the response.
pub async fn put(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let Some(vector) = &state.vector else {
        return disabled(request).await;
    };
    let id = id_of(request.uri()).ok_or_else(invalid_id)?;
    let trace = trace_of(&request);
    let sender = sender(request.extensions().get(), Scope::Docs);
    let read = |body| fields::content(body, vector.store.shape());
    let (content, _share) = body::json(request, MAX_BODY, &state.memory.bodies, read).await?;
    let Content {
        vector: place,
        payload,
    } = content;
    if let Some(queue) = &state.queue {
        let (version, _) = vector.documents.put(id, &place, payload, &sender).await?;
        return Ok(enqueue(vector, queue, version, trace).await);
    }
    vector.store.ready()?;
    let (_, replaced) = vector.documents.put(id, &place, payload, &sender).await?;
    index(vector, id).await?;
    let status = if replaced {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((
        status,
        Json(DocumentWritten::new(id, "indexed", None, trace.0)),
    )
        .into_response())
}

/// Reads a document from the database.
pub async fn get(State(state): State<AppState>, uri: Uri) -> Result<Json<DocumentResponse>, Error> {
    let vector = state.vector.as_ref().ok_or(DISABLED)?;
    let id = id_of(&uri).ok_or(Error::NotFound)?;
    let document = vector.documents.find(id).await?.ok_or(Error::NotFound)?;
    Ok(Json(DocumentResponse::new(id, document)))
}

/// Deletes a document, so that queries no longer find it.
///
/// With the queue profile, a job removes it from the vector store. Without it, that is done before the response.
pub async fn delete(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let Some(vector) = &state.vector else {
        return disabled(request).await;
    };
    let id = id_of(request.uri()).ok_or(Error::NotFound)?;
    if let Some(queue) = &state.queue {
        let version = vector.documents.delete(id).await?.ok_or(Error::NotFound)?;
        return Ok(enqueue(vector, queue, version, trace_of(&request)).await);
    }
    vector.store.ready()?;
    vector.documents.delete(id).await?.ok_or(Error::NotFound)?;
    index(vector, id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Finds the documents whose vectors are nearest to a vector.
pub async fn query(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let Some(vector) = &state.vector else {
        return disabled(request).await;
    };
    let read = |body| fields::query(body, vector.store.shape());
    let (query, _share) = body::json(request, MAX_BODY, &state.memory.bodies, read).await?;
    // Held until the response is serialized.
    let _payloads = match query.with_payload {
        true => vector.payloads.acquire_many(query.limit as u32).await.ok(),
        false => None,
    };
    let hits = vector.store.query(query).await?;
    Ok(Json(QueryResponse::from(hits)).into_response())
}

/// The error without the vector profile.
const DISABLED: Error = Error::ProfileDisabled("vector");

async fn disabled(request: Request) -> Result<Response, Error> {
    // The body is read, so that the proxy can reuse the connection.
    body::discard(request, MAX_BODY).await?;
    Err(DISABLED)
}

/// Indexes a document. The work continues if the request is cancelled: interrupted halfway, it could leave an older
/// version of the document in the store, without any record of it.
async fn index(vector: &Vector, id: DocumentId) -> Result<(), Error> {
    let vector = vector.clone();
    let work = async move { vector.documents.index([id], &vector.store).await };
    to_the_end(work).await.map(drop)
}

/// Publishes a job that indexes a changed document. The document is already stored, so a queue that does not accept
/// the job only causes a delay.
async fn enqueue(
    vector: &Vector,
    queue: &Queue,
    version: Version,
    (trace, tracestate): (TraceContext, Option<String>),
) -> Response {
    let id = queue.publisher.ids.mint(&Origin::Internal);
    let job = index_job(id, version, vector, (Some(trace), tracestate));
    let answer = match queue.publisher.publish(job).await {
        Ok(()) => {
            let target = vector.store.target();
            if let Err(error) = vector.documents.queued(version, target).await {
                tracing::warn!(event = "job_not_noted", job.id = %id, error.message = %error, "job_not_noted");
            }
            DocumentWritten::new(version.id, "enqueued", Some(id), trace)
        }
        Err(refusal) => {
            log_refusal(refusal);
            DocumentWritten::new(version.id, "stored", None, trace)
        }
    };
    (StatusCode::ACCEPTED, Json(answer)).into_response()
}

/// Parses the identifier. Only its canonical decimal form is accepted, so that a document has one path.
fn id_of(uri: &Uri) -> Option<DocumentId> {
    let text = uri.path().strip_prefix("/docs/")?;
    let id: u64 = text.parse().ok()?;
    (id.to_string() == text).then(|| DocumentId::new(id))?
}

fn invalid_id() -> Error {
    let rule = format!("must be a whole number from 0 to {}", DocumentId::MAX);
    Error::invalid("id", rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_one_spelling() {
        let id = |path: &str| id_of(&path.parse().unwrap()).map(DocumentId::get);
        assert_eq!(id("/docs/0"), Some(0));
        assert_eq!(id("/docs/9223372036854775807?x=1"), Some(DocumentId::MAX));
        for path in [
            "/docs/",
            "/docs/-1",
            "/docs/+1",
            "/docs/01",
            "/docs/1.0",
            "/docs/1e3",
            "/docs/%31",
            "/docs/9223372036854775808",
            "/docs/18446744073709551616",
            "/docs/query",
        ] {
            assert_eq!(id(path), None, "{path}");
        }
    }
}
