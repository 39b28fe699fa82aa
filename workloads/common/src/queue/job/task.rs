//! The name of a job's task, found without a copy of the job.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use super::label;

/// The field with the name of the task.
const TASK: &str = "task";

/// Returns the name of the task of a job; empty if it has none. The app and the workers find it with this function, so
/// they agree on it: of several fields with that name the last one counts, however it is spelt.
///
/// # Errors
/// Fails if the body is not a JSON object, and then no worker can read it either.
pub fn task_of(body: &[u8]) -> serde_json::Result<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let task = deserializer.deserialize_map(Object)?;
    deserializer.end()?;
    Ok(task)
}

/// The object of a job.
struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<String, A::Error> {
        let mut task = None;
        while let Some(is_task) = fields.next_key_seed(IsTask)? {
            let text = fields.next_value_seed(Anything { is_kept: is_task })?;
            if is_task {
                task = text;
            }
        }
        Ok(task.unwrap_or_default())
    }
}

/// The name of a field.
struct IsTask;

impl<'de> DeserializeSeed<'de> for IsTask {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsTask {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == TASK)
    }
}

/// Any JSON value. It is read to its end by the rules by which a worker reads it: [`serde::de::IgnoredAny`] would let
/// numbers pass that are too large, and texts that are not Unicode.
#[derive(Clone, Copy)]
struct Anything {
    /// True if the value is to be returned, if it is a text.
    is_kept: bool,
}

impl Anything {
    /// A value that is only read.
    const DROPPED: Self = Self { is_kept: false };
}

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.is_kept.then(|| label(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element_seed(Self::DROPPED)?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        while fields.next_key_seed(Self::DROPPED)?.is_some() {
            fields.next_value_seed(Self::DROPPED)?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};
    use serde_json::Value;

    use super::*;

    /// Returns the name that a reader of the whole object finds; `None` if there is no object.
    fn read(body: &[u8]) -> Option<String> {
        let Ok(Value::Object(object)) = serde_json::from_slice(body) else {
            return None;
        };
        let task = object.get(TASK).and_then(Value::as_str);
        Some(task.map(label).unwrap_or_default())
    }

    #[test]
    fn the_last_name_counts_however_its_field_is_spelt() {
        for (body, task) in [
            ("{}", ""),
            (r#"{"task":"a"}"#, "a"),
            (r#"{"task":"a","task":"b"}"#, "b"),
            (r#"{"task":"a","t\u0061sk":"wait"}"#, "wait"),
            (r#"{"task":"w\u0061it"}"#, "wait"),
            (r#"{"task":"wait","task":7}"#, ""),
            (r#"{"task":"wait","task":null}"#, ""),
            (r#"{"task":["wait"]}"#, ""),
            (r#"{"deep":{"task":"wait"},"list":[{"task":"wait"}]}"#, ""),
            (r#"{"Task":"wait","task ":"wait"}"#, ""),
            (r#" { "task" : "a\u0000b" } "#, "a\u{fffd}b"),
        ] {
            assert_eq!(task_of(body.as_bytes()).unwrap(), task, "{body}");
            assert_eq!(read(body.as_bytes()).unwrap(), task, "{body}");
        }
    }

    #[test]
    fn what_no_worker_can_read_has_no_task() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let (fits, too_deep) = (nested(120), nested(130));
        assert!(task_of(fits.as_bytes()).is_ok());
        for body in [
            "",
            "x",
            "[]",
            "1",
            "null",
            "\"{}\"",
            "{\"a\":1,}",
            "{}{}",
            "{\"a\":1e999}",
            "{\"a\":[-1e999]}",
            "{\"a\":\"\\ud800\"}",
            "{\"\\ud800\":1}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\":NaN}",
            too_deep.as_str(),
        ] {
            assert!(task_of(body.as_bytes()).is_err(), "{body}");
            assert_eq!(read(body.as_bytes()), None, "{body}");
        }
        assert!(task_of(b"{\"a\":\"\xff\"}").is_err());
        assert!(task_of(b"{\"\xff\":1}").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_have_the_task_that_a_worker_finds(body in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(task_of(&body).ok(), read(&body));
        }

        #[test]
        fn any_object_has_the_task_that_a_worker_finds(
            fields in prop::collection::vec(
                (
                    select(vec!["task", "t\\u0061sk", "Task", "id", "", "\\ud83d\\ude00"]),
                    select(vec![
                        "\"wait\"", "\"w\\u0061it\"", "\"\\ud800\"", "null", "true", "-0", "7", "1.5e300", "1e999",
                        "[1,[\"task\"]]", "{\"task\":\"x\"}", "{\"a\":1e999}", "\"\\u0000\"", "{", "",
                    ]),
                ),
                0..6,
            )
        ) {
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("\"{name}\":{value}"))
                .collect();
            let body = format!("{{{}}}", fields.join(","));
            prop_assert_eq!(task_of(body.as_bytes()).ok(), read(body.as_bytes()), "{}", body);
        }
    }
}
