//! The fields of a job that the service reads, found without a copy of the job.

use std::{collections::HashMap, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use super::label;

/// The fields of a job that the service reads. Of several fields with one name the last one counts, however it is spelt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The client's name of the task, at most 256 characters; empty if there is none.
    pub task: String,
    /// The client's identifier of the job, at most 256 characters: a string as it is, and any other value as the client
    /// wrote it. It is stored as data and never used as an identifier.
    pub client_id: Option<String>,
    /// `id`, if it is an unsigned integer.
    pub(super) id: Option<u64>,
    /// `ms`, if it is an unsigned integer.
    pub(super) ms: Option<u64>,
}

impl Fields {
    /// Reads the body of a job. The app and the workers use this function, so they agree on the fields.
    ///
    /// # Errors
    /// Fails if the body is not a JSON object.
    pub fn read(body: &[u8]) -> serde_json::Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let Values { task, id, ms } = deserializer.deserialize_map(Object)?;
        deserializer.end()?;
        Ok(Self {
            task: task.as_str().map(label).unwrap_or_default(),
            client_id: client_id(&id, body),
            id: id.as_u64(),
            ms: ms.as_u64(),
        })
    }
}

/// Returns the client's identifier of the job with this body.
fn client_id(id: &Value, body: &[u8]) -> Option<String> {
    match id {
        Value::Null => None,
        Value::String(id) => Some(label(id)),
        Value::Bool(id) => Some(id.to_string()),
        Value::Number(id) if !id.is_f64() => Some(id.to_string()),
        // A number that is read as a float may lose digits.
        Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let texts: HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
            texts.get("id").map(|text| label(text.get()))
        }
    }
}

/// The values of the fields; null for one that is missing.
#[derive(Default)]
struct Values {
    task: Value,
    id: Value,
    ms: Value,
}

/// The object of a job.
struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Values;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Values, A::Error> {
        let mut values = Values::default();
        while let Some(field) = fields.next_key_seed(FieldName)? {
            let is_kept = !matches!(field, Field::Other);
            let value = fields.next_value_seed(Anything { is_kept })?;
            match field {
                Field::Task => values.task = value,
                Field::Id => values.id = value,
                Field::Ms => values.ms = value,
                Field::Other => {}
            }
        }
        Ok(values)
    }
}

/// A field of a job.
enum Field {
    Task,
    Id,
    Ms,
    Other,
}

struct FieldName;

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Field;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Field, E> {
        Ok(match name {
            "task" => Field::Task,
            "id" => Field::Id,
            "ms" => Field::Ms,
            _ => Field::Other,
        })
    }
}

/// Any JSON value. It is read to its end by the rules by which a worker reads it: [`serde::de::IgnoredAny`] would let
/// numbers pass that are too large, and texts that are not Unicode.
#[derive(Clone, Copy)]
struct Anything {
    /// True if the value is to be returned. A list or an object is returned empty, because it may be as large as the job.
    is_kept: bool,
}

impl Anything {
    /// A value that is only read.
    const DROPPED: Self = Self { is_kept: false };

    fn kept<E>(self, value: impl Into<Value>) -> Result<Value, E> {
        Ok(match self.is_kept {
            true => value.into(),
            false => Value::Null,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        self.kept(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        self.kept(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        self.kept(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        self.kept(value)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        self.kept(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element_seed(Self::DROPPED)?.is_some() {}
        self.kept(Vec::<Value>::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        while fields.next_key_seed(Self::DROPPED)?.is_some() {
            fields.next_value_seed(Self::DROPPED)?;
        }
        self.kept(Map::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{prelude::*, sample::select};

    fn task_of(body: &[u8]) -> serde_json::Result<String> {
        Fields::read(body).map(|fields| fields.task)
    }

    /// Returns the name that a reader of the whole object finds; `None` if there is no object.
    fn read(body: &[u8]) -> Option<String> {
        let Ok(Value::Object(object)) = serde_json::from_slice(body) else {
            return None;
        };
        let task = object.get("task").and_then(Value::as_str);
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
    fn the_identifier_is_a_string_or_what_the_client_wrote() {
        let long = "x".repeat(300);
        let (text, list) = (format!("\"{long}\""), format!("[\"{long}\"]"));
        for (id, expected) in [
            ("null", None),
            (r#""b\u0000""#, Some("b\u{fffd}")),
            (&text, Some(&long[..256])),
            ("true", Some("true")),
            ("-7", Some("-7")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("18446744073709551617", Some("18446744073709551617")),
            ("-9223372036854775809", Some("-9223372036854775809")),
            ("1.0", Some("1.0")),
            (
                "0.10000000000000000000001",
                Some("0.10000000000000000000001"),
            ),
            ("-0", Some("-0")),
            ("1E3", Some("1E3")),
            (r#"{ "a":[true] }"#, Some(r#"{ "a":[true] }"#)),
            (&list, Some(&list[..256])),
        ] {
            let body = format!(r#"{{"id":1,"deep":{{"id":2}},"i\u0064":{id}}}"#);
            let fields = Fields::read(body.as_bytes()).unwrap();
            assert_eq!(fields.client_id.as_deref(), expected, "{body}");
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
