//! A job as a message: the body is the JSON object of the client, unchanged; everything else is in the properties.

mod fields;
mod rules;

use jiff::Timestamp;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString},
};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use self::{
    fields::Fields,
    rules::{BUILT_IN, FieldError, INDEX, REINDEX, needs_vector_store},
};
use super::{
    decision::Decision,
    origin::{ORIGIN, Origin},
};
use crate::trace::{TRACEPARENT, TRACESTATE, TraceContext};

/// The broker's count of returns to the queue; absent at the first delivery.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// The delivery mode of messages that are written to disk.
const PERSISTENT: u8 = 2;
/// The maximum length of a task name and of the client's identifier, in characters.
const MAX_LABEL: usize = 256;

/// Builds the properties of the message for the job with this identifier and sender, published in this trace.
pub fn properties(
    id: Uuid,
    origin: &Origin,
    decision: &Decision,
    trace: TraceContext,
    tracestate: Option<&str>,
) -> BasicProperties {
    let mut headers = FieldTable::default();
    insert(&mut headers, ORIGIN, origin.value().into_owned());
    insert(&mut headers, TRACEPARENT.as_str(), trace.traceparent());
    if let Some(tracestate) = tracestate {
        insert(&mut headers, TRACESTATE.as_str(), tracestate);
    }
    decision.write(&mut headers);
    BasicProperties::default()
        .with_content_type("application/json".into())
        .with_message_id(id.to_string().into())
        .with_timestamp(Timestamp::now().as_second().unsigned_abs())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
}

/// Adds a header with a text.
pub(super) fn insert(headers: &mut FieldTable, name: &str, value: impl Into<LongString>) {
    headers.insert(name.into(), AMQPValue::LongString(value.into()));
}

/// A job as a worker receives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The identifier, assigned when the job was accepted; a new one if the message has none.
    pub id: Uuid,
    pub origin: Origin,
    pub decision: Decision,
    pub fields: Fields,
    /// The object exactly as the client wrote it.
    pub text: String,
    /// The trace context of the processing, a child of the publication.
    pub trace: TraceContext,
    /// The number of times the message returned to the queue before this delivery.
    pub returns: u32,
}

/// A message that can never become a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not a JSON object")]
pub struct Invalid;

impl Job {
    /// Parses a message.
    ///
    /// # Errors
    /// Fails if the message is not a job. Such a message never becomes one.
    pub fn parse(properties: &BasicProperties, body: Vec<u8>) -> Result<Self, Invalid> {
        let fields = Fields::read(&body).map_err(|_| Invalid)?;
        Ok(Self {
            id: id_of(properties).unwrap_or_else(Uuid::now_v7),
            origin: Origin::of(header(properties, ORIGIN)),
            decision: Decision::read(properties),
            fields,
            text: String::from_utf8(body).map_err(|_| Invalid)?,
            trace: trace_of(properties),
            returns: returns(properties),
        })
    }
}

/// Returns the identifier of the job in a message; `None` if it has none. Messages of other senders may have one of another
/// form: a UUID is made of it, the same one at every delivery.
pub fn id_of(properties: &BasicProperties) -> Option<Uuid> {
    let text = properties.message_id().as_ref()?.as_str();
    (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| hashed(text)))
}

fn hashed(text: &str) -> Uuid {
    let digest: [u8; 32] = Sha256::digest(text).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Returns the trace context of the processing, for jobs and for invalid messages.
pub fn trace_of(properties: &BasicProperties) -> TraceContext {
    let traceparent = header(properties, TRACEPARENT.as_str());
    TraceContext::continuing(traceparent.and_then(text_of))
}

/// Returns the trace context of the publication, of which another publication of the same job is a part; `None` if the
/// message does not tell it.
pub fn publication_of(properties: &BasicProperties) -> Option<TraceContext> {
    let processing = trace_of(properties);
    processing.parent.map(|publication| TraceContext {
        span_id: publication,
        parent: None,
        ..processing
    })
}

/// Returns the `tracestate` of a message.
pub fn tracestate_of(properties: &BasicProperties) -> Option<String> {
    header(properties, TRACESTATE.as_str()).and_then(string_of)
}

/// Reads the count of returns. The broker may encode the number in any width.
fn returns(properties: &BasicProperties) -> u32 {
    let count = match header(properties, DELIVERY_COUNT) {
        Some(AMQPValue::LongLongInt(count)) => *count,
        Some(AMQPValue::LongInt(count)) => i64::from(*count),
        Some(AMQPValue::LongUInt(count)) => i64::from(*count),
        Some(AMQPValue::ShortInt(count)) => i64::from(*count),
        Some(AMQPValue::ShortUInt(count)) => i64::from(*count),
        Some(AMQPValue::ShortShortInt(count)) => i64::from(*count),
        Some(AMQPValue::ShortShortUInt(count)) => i64::from(*count),
        _ => 0,
    };
    count.max(0).try_into().unwrap_or(u32::MAX)
}

pub(super) fn header<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a AMQPValue> {
    properties.headers().as_ref()?.inner().get(name)
}

/// Returns the bytes of a text, which has two forms.
pub(super) fn text_of(value: &AMQPValue) -> Option<&[u8]> {
    match value {
        AMQPValue::LongString(value) => Some(value.as_bytes()),
        AMQPValue::ShortString(value) => Some(value.as_str().as_bytes()),
        _ => None,
    }
}

/// Returns a text; `None` if it is not Unicode.
pub(super) fn string_of(value: &AMQPValue) -> Option<String> {
    String::from_utf8(text_of(value)?.to_vec()).ok()
}

/// Shortens a text for log lines, and replaces the one character that PostgreSQL cannot store.
pub(super) fn label(text: &str) -> String {
    // Nearly every text is fine as it is.
    if text.len() <= MAX_LABEL && !text.contains('\0') {
        return text.to_owned();
    }
    text.chars()
        .take(MAX_LABEL)
        .map(|character| {
            if character == '\0' {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn published() -> (Uuid, TraceContext, BasicProperties) {
        let (id, trace) = (Uuid::now_v7(), TraceContext::continuing(None));
        let properties = properties(
            id,
            &Origin::Internal,
            &Decision::new("index", Some(&"store".into())),
            trace,
            Some("vendor=1"),
        );
        (id, trace, properties)
    }

    fn parsed(body: &str) -> Result<Job, Invalid> {
        Job::parse(&published().2, body.as_bytes().to_vec())
    }

    fn with_header(name: &str, value: AMQPValue) -> BasicProperties {
        let mut headers = FieldTable::default();
        headers.insert(name.into(), value);
        published().2.with_headers(headers)
    }

    #[test]
    fn what_was_published_is_what_a_worker_receives() {
        let (id, trace, properties) = published();
        let body = r#"{ "task":"email", "id":1 }"#;
        let job = Job::parse(&properties, body.as_bytes().to_vec()).unwrap();
        assert_eq!((job.id, job.fields.task.as_str()), (id, "email"));
        assert_eq!(job.fields.client_id.as_deref(), Some("1"));
        assert_eq!(job.text, body);
        assert_eq!(job.trace.trace_id, trace.trace_id);
        assert_eq!(job.trace.parent, Some(trace.span_id));
        assert_eq!(job.returns, 0);
    }

    #[test]
    fn what_was_decided_is_what_a_worker_reads() {
        let (id, trace, _) = published();
        let target: Arc<str> = "store:6334/docs".into();
        let is_default = |task| (task, Some("default"), None);
        for (task, handler, expected) in [
            is_default("email"),
            is_default(""),
            is_default("default"),
            is_default("Index"),
            ("wait", Some("wait"), None),
            ("purge_expired", Some("purge_expired"), None),
            ("index", Some("index"), Some(&target)),
            ("reindex", Some("reindex"), Some(&target)),
        ] {
            let decision = Decision::new(task, Some(&target));
            let properties = properties(id, &Origin::Internal, &decision, trace, None);
            let job = Job::parse(&properties, b"{}".to_vec()).unwrap();
            assert_eq!(job.decision, decision);
            assert_eq!(decision.handler.as_deref(), handler);
            assert_eq!(decision.target.as_ref(), expected);
            let replayed = Decision::of_replay(&properties);
            assert_eq!(
                (replayed.handler, replayed.target),
                (decision.handler, None)
            );
        }
        let nothing = Decision::new("index", None);
        assert_eq!(nothing.target, None);
        let bare = Job::parse(&BasicProperties::default(), b"{}".to_vec()).unwrap();
        assert_eq!(bare.decision, Decision::default());
    }

    #[test]
    fn a_message_says_what_it_is_and_survives_a_restart_of_the_broker() {
        let (id, trace, properties) = published();
        assert_eq!(
            properties.content_type().as_ref().unwrap().as_str(),
            "application/json"
        );
        assert_eq!(
            properties.message_id().as_ref().unwrap().as_str(),
            id.to_string()
        );
        assert_eq!(*properties.delivery_mode(), Some(2));
        assert!(properties.timestamp().unwrap() > 1_700_000_000);
        let headers = properties.headers().as_ref().unwrap().inner();
        let text = |name: &str| match &headers[name] {
            AMQPValue::LongString(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("traceparent"), trace.traceparent());
        assert_eq!(text("tracestate"), "vendor=1");
        assert_eq!(text("shortener-origin"), "internal");
    }

    #[test]
    fn a_worker_knows_who_sent_a_job() {
        let parse = |properties: BasicProperties| Job::parse(&properties, b"{}".to_vec()).unwrap();
        let client = Origin::Client("shop".into());
        let (id, trace, _) = published();
        let sent = parse(properties(id, &client, &Decision::default(), trace, None));
        assert_eq!(sent.origin, client);
        // A job that an administrator of the broker sent.
        let sent = parse(published().2.with_headers(FieldTable::default()));
        assert_eq!(sent.origin, Origin::Internal);
    }

    #[test]
    fn only_a_json_object_can_be_a_job() {
        for bad in ["", "x", "[]", "1", "null", "\"{}\"", "{\"a\":1,}", "{}{}"] {
            assert_eq!(parsed(bad).unwrap_err(), Invalid, "{bad}");
        }
        assert_eq!(
            Job::parse(&published().2, b"{\"a\":\"\xff\"}".to_vec()).unwrap_err(),
            Invalid
        );
        assert!(parsed("{}").is_ok());
    }

    #[test]
    fn a_message_without_a_uuid_is_a_job() {
        let id = |id: &str| {
            let properties = BasicProperties::default().with_message_id(id.into());
            Job::parse(&properties, b"{}".to_vec()).unwrap().id
        };
        assert_eq!(id("m-1"), id("m-1"));
        assert_eq!(id("m-1").get_version_num(), 8);
        assert_ne!(id("m-1"), id("m-2"));
        for properties in [
            BasicProperties::default(),
            BasicProperties::default().with_message_id("".into()),
        ] {
            assert_eq!(id_of(&properties), None);
            let parse = || Job::parse(&properties, b"{}".to_vec()).unwrap().id;
            assert_ne!(parse(), parse());
        }
    }

    #[test]
    fn long_names_are_cut_and_have_no_character_that_the_database_cannot_store() {
        let long = "x".repeat(300);
        let job = parsed(&format!(r#"{{"task":"{long}","id":"{long}"}}"#)).unwrap();
        assert_eq!(job.fields.task, long[..256]);
        assert_eq!(job.fields.client_id.as_deref(), Some(&long[..256]));
        let job = parsed(r#"{"task":"a\u0000b","id":"\u0000"}"#).unwrap();
        assert_eq!(job.fields.task, "a\u{fffd}b");
        assert_eq!(job.fields.client_id.as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn the_broker_s_count_of_returns_is_read_in_every_width() {
        for (value, returns) in [
            (AMQPValue::LongLongInt(3), 3),
            (AMQPValue::LongInt(3), 3),
            (AMQPValue::ShortShortUInt(3), 3),
            (AMQPValue::LongLongInt(-1), 0),
            (AMQPValue::LongLongInt(i64::MAX), u32::MAX),
            (AMQPValue::Boolean(true), 0),
        ] {
            let properties = with_header("x-delivery-count", value.clone());
            let job = Job::parse(&properties, b"{}".to_vec()).unwrap();
            assert_eq!(job.returns, returns, "{value:?}");
        }
    }

    #[test]
    fn a_malformed_trace_context_starts_a_new_trace() {
        for value in [AMQPValue::Void, AMQPValue::LongString("00-x".into())] {
            let properties = with_header("traceparent", value);
            assert_eq!(trace_of(&properties).parent, None);
            assert_eq!(publication_of(&properties), None);
            assert_eq!(tracestate_of(&properties), None);
        }
    }

    #[test]
    fn another_publication_of_a_job_is_a_part_of_the_first_one() {
        let (_, trace, properties) = published();
        let first = publication_of(&properties).unwrap();
        assert_eq!(
            (first.trace_id, first.span_id),
            (trace.trace_id, trace.span_id)
        );
        assert_eq!(tracestate_of(&properties).as_deref(), Some("vendor=1"));
    }

    proptest! {
        #[test]
        fn any_body_is_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Job::parse(&published().2, body);
        }
    }
}
