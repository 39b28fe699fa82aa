//! The request and response bodies.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shortener_common::{
    documents::{Document, DocumentId},
    trace::TraceContext,
    vector::Hit,
};
use uuid::Uuid;

/// A document to be stored. Unknown fields are ignored.
// The parser accepts any value in a field, so that it can report every invalid one.
#[derive(Debug, Deserialize)]
pub struct DocumentRequest {
    /// Vector with the dimensions of the collection.
    pub(super) vector: Option<Value>,
    /// Any JSON object of at most 1,000 values and 16 levels; `title` and `category` are strings.
    pub(super) payload: Option<Value>,
}

/// The result of a change: the document was stored or deleted, and the vector store is or will be up to date.
#[derive(Debug, Serialize)]
pub struct DocumentWritten {
    /// Identifier of the document.
    id: u64,
    /// `indexed`: queries find it. `enqueued`: a job writes it to the vector store. `stored`: the queue did not
    /// accept the job now, and gets it later without further action.
    status: &'static str,
    /// Identifier of the job, for `GET /jobs/{id}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<String>,
    /// Trace identifier of the request, which the job continues.
    trace_id: String,
}

/// A document as stored.
#[derive(Debug, Serialize)]
pub struct DocumentResponse {
    /// Identifier of the document.
    id: u64,
    /// Vector in single precision.
    vector: Vec<f32>,
    /// Payload of the document.
    payload: Map<String, Value>,
    /// Time of the last write (RFC 3339).
    changed_at: String,
    /// Time at which the vector store accepted this version (RFC 3339); null until then.
    indexed_at: Option<String>,
}

/// A query for the nearest documents. Unknown fields are ignored, and `null` means absent.
// The parser accepts any value in a field, so that it can report every invalid one.
#[derive(Debug, Deserialize)]
pub struct QueryRequest {
    /// Vector with the dimensions of the collection.
    pub(super) vector: Option<Value>,
    /// Maximum number of results; 10 by default.
    pub(super) limit: Option<Value>,
    /// Includes the payloads in the results if true; false by default.
    pub(super) with_payload: Option<Value>,
    /// Payload fields and their required values: strings, whole numbers, true or false.
    pub(super) filter: Option<Value>,
}

/// The nearest documents.
#[derive(Debug, Serialize)]
pub struct QueryResponse {
    /// Results, nearest first: by descending score, or by ascending distance for `Euclid`.
    result: Vec<QueryResult>,
}

/// One of the nearest documents.
#[derive(Debug, Serialize)]
pub struct QueryResult {
    /// Identifier of the document.
    id: u64,
    /// Score or distance, by the distance function of the collection.
    score: f32,
    /// Payload, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
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
