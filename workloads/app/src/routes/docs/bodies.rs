//! The bodies of requests and responses, as the OpenAPI document shows them.

use serde::Serialize;
use serde_json::{Map, Value};
use shortener_common::{
    documents::{Document, DocumentId},
    trace::TraceContext,
    vector::Hit,
};
use utoipa::ToSchema;
use uuid::Uuid;

/// A document to be stored. Unknown fields are ignored.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "documents the request; the fields are read one by one to report every fault"
)]
pub struct DocumentRequest {
    /// As many numbers as the collection has.
    #[schema(example = json!([0.1, 0.9, 0.2, 0.4]))]
    vector: Vec<f32>,
    /// Whatever belongs to the document, at most 1,000 values, 16 deep; `title` and `category` are strings.
    #[schema(example = json!({"title": "A guide", "category": "howto"}))]
    payload: Option<Map<String, Value>>,
}

/// The document was stored or deleted, and the vector store knows or will hear of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentWritten {
    /// The document.
    id: u64,
    /// `indexed`: queries find it. `enqueued`: a job brings it to the vector store. `stored`: the queue did not take the
    /// job now, and will get it later without anybody's doing.
    #[schema(example = "enqueued")]
    status: &'static str,
    /// The job, whose state `GET /jobs/{id}` tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    job_id: Option<String>,
    /// The trace of the request, which the job continues.
    trace_id: String,
}

/// A document as it was stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentResponse {
    /// The document.
    id: u64,
    /// Its vector, in single precision.
    vector: Vec<f32>,
    /// Its payload.
    #[schema(value_type = Object)]
    payload: Map<String, Value>,
    /// When it was written (RFC 3339).
    #[schema(format = DateTime)]
    changed_at: String,
    /// When the vector store took it as it is (RFC 3339); null until then.
    #[schema(format = DateTime)]
    indexed_at: Option<String>,
}

/// A question for the nearest documents. Unknown fields are ignored, and `null` means absent.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "documents the request; the fields are read one by one to report every fault"
)]
pub struct QueryRequest {
    /// As many numbers as the collection has.
    #[schema(example = json!([0.1, 0.9, 0.2, 0.4]))]
    vector: Vec<f32>,
    /// The most results; 10 when absent.
    #[schema(minimum = 1, maximum = 100)]
    limit: Option<u64>,
    /// Whether results come with their payloads; they do not when absent.
    with_payload: Option<bool>,
    /// Only documents whose payload has exactly these values: strings, whole numbers, true or false.
    #[schema(example = json!({"category": "howto"}))]
    filter: Option<Map<String, Value>>,
}

/// The nearest documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryResponse {
    /// Nearest first: by descending score, for `Euclid` by ascending distance.
    result: Vec<QueryResult>,
}

/// One of the nearest documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryResult {
    /// The document.
    id: u64,
    /// How near it is by the collection's distance.
    score: f32,
    /// Its payload, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    payload: Option<Map<String, Value>>,
}

impl DocumentWritten {
    pub(super) fn new(
        id: DocumentId,
        status: &'static str,
        job: Option<Uuid>,
        trace: TraceContext,
    ) -> Self {
        Self {
            id: id.get(),
            status,
            job_id: job.map(|id| id.to_string()),
            trace_id: trace.trace_id.to_string(),
        }
    }
}

impl DocumentResponse {
    pub(super) fn new(id: DocumentId, document: Document) -> Self {
        Self {
            id: id.get(),
            vector: document.vector,
            payload: document.payload,
            changed_at: document.changed_at.to_string(),
            indexed_at: document.indexed_at.map(|time| time.to_string()),
        }
    }
}

impl From<Vec<Hit>> for QueryResponse {
    fn from(hits: Vec<Hit>) -> Self {
        let result = hits.into_iter().map(|hit| QueryResult {
            id: hit.id,
            score: hit.score,
            payload: hit.payload,
        });
        Self {
            result: result.collect(),
        }
    }
}
