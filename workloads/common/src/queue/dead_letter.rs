//! A dead letter: the message of a job that was given up. The broker keeps the message as it was, and adds the reason.

use jiff::Timestamp;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use uuid::Uuid;

use super::{
    job::{Fields, header, id_of, label, text_of},
    origin::{ORIGIN, Origin},
};

/// The broker's list of the deaths of a message, the last one first.
const DEATHS: &str = "x-death";

/// What a list of dead letters shows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The identifier of the job; `None` if the message has none.
    pub id: Option<Uuid>,
    /// The client's name of the task; empty if there is none.
    pub task: String,
    /// The client's name of the job.
    pub client_id: Option<String>,
    pub origin: Origin,
    /// The broker's word for the reason: `delivery_limit`, `rejected`, `expired` or `maxlen`.
    pub reason: Option<String>,
    /// The time at which the job was given up, in whole seconds.
    pub died_at: Option<Timestamp>,
    /// The size of the body in bytes.
    pub bytes: usize,
}

impl DeadLetter {
    /// Reads a message of the dead-letter queue. Its values are not kept, so that a large job takes no more memory.
    pub fn read(properties: &BasicProperties, body: &[u8]) -> Self {
        let fields = Fields::read(body).unwrap_or_default();
        let death = last_death(properties);
        let of_death = |name: &str| death.and_then(|death| death.inner().get(name));
        let reason = of_death("reason").and_then(text_of);
        Self {
            id: id_of(properties),
            task: fields.task,
            client_id: fields.client_id,
            origin: Origin::of(header(properties, ORIGIN)),
            reason: reason.map(|reason| label(&String::from_utf8_lossy(reason))),
            died_at: of_death("time").and_then(time),
            bytes: body.len(),
        }
    }
}

fn last_death(properties: &BasicProperties) -> Option<&FieldTable> {
    match header(properties, DEATHS)? {
        AMQPValue::FieldArray(deaths) => match deaths.as_slice().first()? {
            AMQPValue::FieldTable(death) => Some(death),
            _ => None,
        },
        _ => None,
    }
}

fn time(value: &AMQPValue) -> Option<Timestamp> {
    match value {
        AMQPValue::Timestamp(seconds) => Timestamp::from_second(i64::try_from(*seconds).ok()?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        queue::{decision::Decision, job},
        trace::TraceContext,
    };

    const ID: &str = "0197f2a4-8c1e-7b54-9d7b-2f6f0a7f3c11";

    fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in entries {
            table.insert((*name).into(), value.clone());
        }
        table
    }

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn death(reason: &str, seconds: u64) -> AMQPValue {
        AMQPValue::FieldTable(table(&[
            ("count", AMQPValue::LongLongInt(1)),
            ("reason", text(reason)),
            ("queue", text("jobs")),
            ("time", AMQPValue::Timestamp(seconds)),
        ]))
    }

    /// Returns the message of a job by `shop` that RabbitMQ has dead-lettered twice, with these changes of its headers.
    fn message(changes: &[(&str, AMQPValue)]) -> BasicProperties {
        let origin = Origin::Client("shop".into());
        let (id, decision) = (ID.parse().unwrap(), Decision::default());
        let published = job::properties(id, &origin, &decision, TraceContext::root(), None);
        let mut headers = published.headers().clone().unwrap();
        let deaths = vec![
            death("delivery_limit", 1_795_254_292),
            death("rejected", 1_795_000_000),
        ];
        headers.insert(DEATHS.into(), AMQPValue::FieldArray(deaths.into()));
        for (name, value) in changes {
            headers.insert((*name).into(), value.clone());
        }
        published.with_headers(headers)
    }

    #[test]
    fn a_dead_letter_tells_what_it_is_and_why_it_died() {
        let body = br#"{"task":"email","id":7,"to":[1,2]}"#;
        assert_eq!(
            DeadLetter::read(&message(&[]), body),
            DeadLetter {
                id: Some(ID.parse().unwrap()),
                task: "email".to_owned(),
                client_id: Some("7".to_owned()),
                origin: Origin::Client("shop".into()),
                reason: Some("delivery_limit".to_owned()),
                died_at: Some("2026-11-21T09:44:52Z".parse().unwrap()),
                bytes: 34,
            }
        );
    }

    #[test]
    fn a_message_that_never_was_a_job_is_shown_as_far_as_it_goes() {
        let bare = DeadLetter::read(&BasicProperties::default(), b"\xff");
        assert_eq!((bare.id, bare.task.as_str(), bare.bytes), (None, "", 1));
        assert_eq!(
            (bare.client_id, bare.reason, bare.died_at),
            (None, None, None)
        );
        let empty = Vec::<AMQPValue>::new();
        for deaths in [
            AMQPValue::Void,
            AMQPValue::FieldArray(empty.into()),
            AMQPValue::FieldArray(vec![AMQPValue::Void].into()),
            AMQPValue::FieldArray(vec![death("", u64::MAX)].into()),
        ] {
            let letter = DeadLetter::read(&message(&[(DEATHS, deaths)]), b"{}");
            assert_eq!(letter.died_at, None);
        }
    }

    #[test]
    fn the_client_s_own_name_of_a_job_is_shown_as_a_worker_finds_it() {
        for (body, expected) in [
            ("{}", None),
            (
                r#"{"id":18446744073709551617}"#,
                Some("18446744073709551617"),
            ),
            (r#"{"id":[1,[2]],"task":"a"}"#, Some("[1,[2]]")),
            (r#"{"id":1"#, None),
            ("[1]", None),
        ] {
            let letter = DeadLetter::read(&message(&[]), body.as_bytes());
            assert_eq!(letter.client_id.as_deref(), expected, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_body_is_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(DeadLetter::read(&message(&[]), &body).bytes, body.len());
        }
    }
}
