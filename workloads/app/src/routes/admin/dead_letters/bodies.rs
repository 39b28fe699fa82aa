//! The request and response bodies.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shortener_common::queue::dead_letter::DeadLetter;

use crate::publisher::letters::Page;

/// A choice of dead letters: one of the first two fields. Unknown fields are ignored, and `null` means absent.
#[derive(Debug, Deserialize)]
pub struct SweepRequest {
    /// Identifiers of 1 to 100 jobs.
    pub(super) ids: Option<Value>,
    /// True for every dead letter that is in the queue now.
    pub(super) all: Option<Value>,
    /// Reason without control characters, for the operators of the service.
    pub(super) reason: Option<Value>,
}

/// A dead letter.
#[derive(Debug, Serialize)]
pub struct DeadLetterDetails {
    /// Identifier of the job; null if the message has none.
    id: Option<String>,
    /// Name of the task; empty if the job has none.
    task: String,
    /// The client's own `id`, as a string; null if it is a list or an object.
    client_id: Option<String>,
    /// Sender: `anonymous`, `key:` and the name of the client, or `internal`.
    origin: String,
    /// Reason: `delivery_limit`, `rejected`, `expired` or `maxlen`; null if the broker does not tell it.
    reason: Option<String>,
    /// Time at which the job was given up (RFC 3339); null if the broker does not tell it.
    died_at: Option<String>,
    /// Size of the body in bytes.
    bytes: usize,
    /// Body, in the answer about one dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Encoding of the body: `text`, or `base64` if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
}

/// A page of dead letters.
#[derive(Debug, Serialize)]
pub struct DeadLetterPage {
    /// Dead letters, the oldest first.
    dead_letters: Vec<DeadLetterDetails>,
    /// Number of all dead letters.
    total: usize,
    /// The value of `skip` for the next page; null on the last one.
    next_skip: Option<usize>,
}

impl From<DeadLetter> for DeadLetterDetails {
    fn from(letter: DeadLetter) -> Self {
        Self {
            id: letter.id.map(|id| id.to_string()),
            task: letter.task,
            client_id: letter.client_id,
            origin: letter.origin.value().into_owned(),
            reason: letter.reason,
            died_at: letter.died_at.map(|time| time.to_string()),
            bytes: letter.bytes,
            body: None,
            encoding: None,
        }
    }
}

impl DeadLetterDetails {
    /// Adds the body, which lists leave out.
    #[must_use]
    pub fn with_body(self, body: Vec<u8>) -> Self {
        let (body, encoding) = match String::from_utf8(body) {
            Ok(text) => (text, "text"),
            Err(error) => (STANDARD.encode(error.as_bytes()), "base64"),
        };
        Self {
            body: Some(body),
            encoding: Some(encoding),
            ..self
        }
    }
}

impl From<Page> for DeadLetterPage {
    fn from(page: Page) -> Self {
        Self {
            dead_letters: page.letters.into_iter().map(Into::into).collect(),
            total: page.total,
            next_skip: page.next_skip,
        }
    }
}
