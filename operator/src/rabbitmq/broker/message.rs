//! A message in the form in which the management API returns and accepts it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A message of a queue. Its body stays encoded, so that it is published again byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// AMQP properties by name, including `headers`.
    #[serde(default)]
    pub properties: Properties,
    /// Body, as text or in Base64.
    #[serde(default)]
    pub payload: String,
    /// Encoding of the body: `string` or `base64`.
    #[serde(default)]
    pub payload_encoding: String,
    /// Size of the body in bytes.
    #[serde(default)]
    pub payload_bytes: u64,
    /// Number of messages behind it in the queue.
    #[serde(default, skip_serializing)]
    pub message_count: usize,
}

/// AMQP properties by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Properties(#[serde(deserialize_with = "empty_as_list")] pub Map<String, Value>);

/// Reads the properties; RabbitMQ writes an empty Erlang proplist as an empty list.
fn empty_as_list<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(map) => map,
        _ => Map::new(),
    })
}

/// Header that names the operation which made a copy of a dead letter.
const COPIED_BY: &str = "shortener-copied-by";
/// Prefixes of the headers that are added when a message is dead-lettered, redelivered or copied.
const ADDED: [&str; 5] = [
    "x-death",
    "x-first-death-",
    "x-last-death-",
    "x-delivery-count",
    COPIED_BY,
];
/// Header with the sender of a job, as the app writes it.
const ORIGIN: &str = "shortener-origin";
/// Its value for a sender without a key, from whom the workers refuse some tasks.
const ANONYMOUS: &str = "anonymous";

impl Message {
    /// Returns the id that the app gave the job.
    pub fn id(&self) -> Option<&str> {
        self.properties.0.get("message_id")?.as_str()
    }

    /// Returns the reason for which the job was dead-lettered: `delivery_limit`, `rejected`, `expired` or `maxlen`.
    pub fn reason(&self) -> Option<&str> {
        let headers = self.properties.0.get("headers")?;
        let first = headers.get("x-first-death-reason").and_then(Value::as_str);
        first.or_else(|| headers.pointer("/x-death/0/reason")?.as_str())
    }

    /// Returns the time at which the job was dead-lettered, in seconds since 1970.
    pub fn died_at(&self) -> Option<i64> {
        self.properties
            .0
            .get("headers")?
            .pointer("/x-death/0/time")?
            .as_i64()
    }

    /// Returns the task of the job, if its body names one.
    pub fn task(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.payload).ok()?;
        Some(body.get("task")?.as_str()?.to_owned())
    }

    /// Returns the job as if it had never failed: same id, same body, same trace. If it came without a key, the
    /// administrator who replays it answers for it: the workers would otherwise refuse a task that is not public.
    #[must_use]
    pub fn for_replay(&self) -> Self {
        self.without_headers(|header, value| {
            let is_anonymous = header == ORIGIN && value.as_str() == Some(ANONYMOUS);
            is_anonymous || ADDED.iter().any(|name| header.starts_with(name))
        })
    }

    /// Returns the dead letter for the end of its queue, without its delivery count.
    #[must_use]
    pub fn for_requeue(&self) -> Self {
        self.without_headers(|header, _| header == "x-delivery-count")
    }

    /// Returns the message with the name of the operation that copies it.
    #[must_use]
    pub fn copied_by(mut self, operation: &str) -> Self {
        let headers = self.properties.0.entry("headers").or_insert(Value::Null);
        // RabbitMQ writes an empty table as an empty list.
        if !headers.is_object() {
            *headers = Value::Object(Map::new());
        }
        headers[COPIED_BY] = operation.into();
        self
    }

    /// Returns true for a copy that this operation made.
    pub fn is_copy_by(&self, operation: &str) -> bool {
        let headers = self.properties.0.get("headers");
        let by = headers.and_then(|headers| headers.get(COPIED_BY)?.as_str());
        by == Some(operation)
    }

    fn without_headers(&self, unwanted: impl Fn(&str, &Value) -> bool) -> Self {
        let mut message = self.clone();
        if let Some(Value::Object(headers)) = message.properties.0.get_mut("headers") {
            headers.retain(|name, value| !unwanted(name, value));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a dead letter in the form that RabbitMQ sends.
    fn dead_letter() -> Message {
        serde_json::from_value(json!({
            "payload_bytes": 12, "redelivered": true, "exchange": "jobs.dlx", "routing_key": "jobs", "message_count": 0,
            "properties": {
                "timestamp": 1_764_000_000, "message_id": "m1", "delivery_mode": 2, "content_type": "application/json",
                "headers": {
                    "traceparent": "00-abc", "x-delivery-count": 1,
                    "x-death": [{"count": 1, "queue": "jobs", "reason": "delivery_limit", "time": 1_795_254_292}],
                    "x-first-death-queue": "jobs", "x-first-death-reason": "delivery_limit",
                },
            },
            "payload": "{\"task\":\"x\"}", "payload_encoding": "string",
        }))
        .unwrap()
    }

    #[test]
    fn a_dead_letter_tells_what_it_is_and_why_it_died() {
        let letter = dead_letter();
        assert_eq!(letter.id(), Some("m1"));
        assert_eq!(letter.reason(), Some("delivery_limit"));
        assert_eq!(letter.died_at(), Some(1_795_254_292));
        assert_eq!(letter.task().as_deref(), Some("x"));
    }

    #[test]
    fn a_job_afresh_keeps_id_body_and_trace_and_forgets_its_death() {
        let job = dead_letter().copied_by("a").for_replay();
        assert_eq!(
            (job.id(), &job.payload),
            (Some("m1"), &dead_letter().payload)
        );
        assert_eq!(
            job.properties.0["headers"],
            json!({"traceparent": "00-abc"})
        );
    }

    #[test]
    fn whoever_replays_a_job_answers_for_a_sender_without_a_key() {
        for (sender, stays) in [("anonymous", false), ("key:shop", true), ("internal", true)] {
            let mut letter = dead_letter();
            let sender = Value::from(sender);
            letter.properties.0["headers"][ORIGIN] = sender.clone();
            let sender_of = |message: Message| message.properties.0["headers"].get(ORIGIN).cloned();
            assert_eq!(sender_of(letter.for_requeue()), Some(sender.clone()));
            assert_eq!(sender_of(letter.for_replay()), stays.then_some(sender));
        }
    }

    #[test]
    fn a_dead_letter_that_goes_to_the_end_still_tells_why_it_died() {
        let requeued = dead_letter().for_requeue();
        assert_eq!(requeued.reason(), Some("delivery_limit"));
        assert!(
            requeued.properties.0["headers"]
                .get("x-delivery-count")
                .is_none()
        );
    }

    #[test]
    fn a_copy_is_known_by_the_operation_that_made_it() {
        let empty: Message =
            serde_json::from_value(json!({"properties": {"headers": []}})).unwrap();
        for original in [dead_letter(), empty, Message::default()] {
            assert!(!original.is_copy_by("a"));
            let copy = original.copied_by("b").copied_by("a");
            assert!(copy.is_copy_by("a") && !copy.is_copy_by("b"));
        }
    }

    #[test]
    fn a_message_without_any_property_can_be_read() {
        let bare: Message = serde_json::from_value(
            json!({"properties": [], "payload": "AP8=", "payload_encoding": "base64"}),
        )
        .unwrap();
        assert_eq!((bare.id(), bare.reason(), bare.task()), (None, None, None));
    }
}
