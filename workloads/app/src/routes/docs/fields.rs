//! The fields of documents and queries, and their rules. Every invalid field is reported.

use serde_json::{Map, Value};
use shortener_common::vector::{MatchValue, Query, Shape};

use super::bodies::{DocumentRequest, QueryRequest};
use crate::{body, error::Error, faults::Faults};

/// The maximum number of results of a query.
pub(super) const MAX_LIMIT: u64 = 100;
/// The default number of results of a query.
const DEFAULT_LIMIT: u64 = 10;
/// The maximum nesting of a payload. The store's own format doubles every level, and its parser reads at most 100.
const MAX_DEPTH: usize = 16;
/// The maximum number of values in a payload, including nested ones. Each needs many times its size in the body.
const MAX_VALUES: usize = 1000;
/// The maximum number of fields in a filter.
const MAX_CONDITIONS: usize = 16;
/// The payload fields that must be strings.
const TEXTS: [(&str, &str); 2] = [("title", "payload.title"), ("category", "payload.category")];

/// The content of a document.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    /// The vector as given, in single precision.
    pub(super) vector: Vec<f32>,
    /// The JSON object. Its values would take many times the memory of their text.
    pub(super) payload: String,
}

/// Parses the body of `PUT /docs/{id}`.
pub(super) fn content(body: Map<String, Value>, shape: Shape) -> Result<Content, Error> {
    let request: DocumentRequest = body::fields(body)?;
    let mut faults = Faults::default();
    let vector = vector(request.vector, shape).map(|(given, _)| given);
    let vector = faults.value("vector", vector);
    let payload =
        payload(request.payload).unwrap_or_else(|(field, reason)| faults.add(field, reason));
    let payload = Value::Object(payload).to_string();
    faults.end(Content { vector, payload })
}

/// Parses the body of `POST /docs/query`.
pub(super) fn query(body: Map<String, Value>, shape: Shape) -> Result<Query, Error> {
    let request: QueryRequest = body::fields(body)?;
    let mut faults = Faults::default();
    let vector = vector(request.vector, shape).map(|(_, fitting)| fitting);
    let query = Query {
        vector: faults.value("vector", vector),
        limit: faults.value("limit", limit(request.limit)),
        with_payload: faults.flag("with_payload", request.with_payload),
        filter: faults.value("filter", filter(request.filter)),
    };
    faults.end(query)
}

/// Returns the vector as given, in single precision, and as the collection takes it.
fn vector(value: Option<Value>, shape: Shape) -> Result<(Vec<f32>, Vec<f32>), String> {
    let numbers = match value {
        None => return Err("is required".to_owned()),
        Some(Value::Array(numbers)) => numbers,
        Some(_) => return Err(format!("must be a list of {} numbers", shape.size)),
    };
    // A number outside the range of single precision becomes infinite.
    let single = |number: &Value| number.as_f64().map(|number| number as f32);
    let given: Option<Box<[f32]>> = numbers.iter().map(single).collect();
    let given = given.ok_or("must have only numbers")?;
    let fitting = shape.fit(&given).map_err(|unfit| unfit.to_string())?;
    Ok((given.into(), fitting))
}

fn payload(value: Option<Value>) -> Result<Map<String, Value>, (&'static str, String)> {
    let payload = match value {
        None => Map::new(),
        Some(Value::Object(payload)) => payload,
        Some(_) => return Err(("payload", "must be an object".to_owned())),
    };
    for (name, field) in TEXTS {
        if payload.get(name).is_some_and(|value| !value.is_string()) {
            return Err((field, "must be a string".to_owned()));
        }
    }
    if payload.values().any(|value| depth(value) > MAX_DEPTH) {
        let rule = format!("must not have more than {MAX_DEPTH} levels of nesting");
        return Err(("payload", rule));
    }
    if payload.values().map(count).sum::<usize>() > MAX_VALUES {
        let rule = format!(
            "must not have more than {MAX_VALUES} values, including nested ones, lists and objects: store the rest \
             elsewhere, or in a string"
        );
        return Err(("payload", rule));
    }
    Ok(payload)
}

/// Returns the number of levels of arrays and objects; the parser of the body limits them.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the number of values, including the value itself and all nested ones.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn limit(value: Option<Value>) -> Result<u64, String> {
    match value {
        None => Ok(DEFAULT_LIMIT),
        Some(value) => value
            .as_number()
            .and_then(body::whole::<u64>)
            .filter(|limit| (1..=MAX_LIMIT).contains(limit))
            .ok_or_else(|| format!("must be a whole number from 1 to {MAX_LIMIT}")),
    }
}

fn filter(value: Option<Value>) -> Result<Vec<(String, MatchValue)>, String> {
    let conditions = match value {
        None => return Ok(Vec::new()),
        Some(Value::Object(conditions)) => conditions,
        Some(_) => return Err("must be an object of payload fields and values".to_owned()),
    };
    if conditions.len() > MAX_CONDITIONS {
        return Err(format!("must not have more than {MAX_CONDITIONS} fields"));
    }
    conditions.into_iter().map(condition).collect()
}

fn condition((field, value): (String, Value)) -> Result<(String, MatchValue), String> {
    // Other characters have a special meaning in the store's field paths.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if field.is_empty() || !field.bytes().all(plain) {
        return Err("must have only field names of A-Z, a-z, 0-9, '_' and '-'".to_owned());
    }
    let wanted = match value {
        Value::String(text) => Some(MatchValue::from(text)),
        Value::Bool(flag) => Some(MatchValue::from(flag)),
        Value::Number(number) => body::whole::<i64>(&number).map(MatchValue::from),
        _ => None,
    };
    wanted.map(|wanted| (field, wanted)).ok_or_else(|| {
        "must have only values that are strings, whole numbers, true or false".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use shortener_common::vector::Distance;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn faults<T: std::fmt::Debug>(result: Result<T, Error>) -> Vec<&'static str> {
        match result {
            Err(Error::InvalidFields(faults)) => faults.iter().map(|fault| fault.field).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn of_size(size: u32) -> Shape {
        let distance = Distance::Euclid;
        Shape { size, distance }
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn a_document_is_a_vector_of_the_right_length_and_an_object() {
        let document = json!({"vector": [1, -0.5, 2e-3, 0], "payload": {"title": "a", "category": "b", "n": [1]}, "other": 1});
        let content_of = content(object(document.clone()), of_size(4)).unwrap();
        assert_eq!(content_of.vector, [1.0, -0.5, 0.002, 0.0]);
        let payload: Value = serde_json::from_str(&content_of.payload).unwrap();
        assert_eq!(payload, document["payload"]);
        for payload in [json!({}), json!(null)] {
            let document = json!({"vector": [1, 2], "payload": payload});
            assert_eq!(content(object(document), of_size(2)).unwrap().payload, "{}");
        }
    }

    #[test]
    fn every_fault_of_a_document_is_named() {
        for (document, fields) in [
            (json!({}), vec!["vector"]),
            (json!({"vector": null}), vec!["vector"]),
            (json!({"vector": "1,2"}), vec!["vector"]),
            (json!({"vector": []}), vec!["vector"]),
            (json!({"vector": [1]}), vec!["vector"]),
            (json!({"vector": [1, 2, 3]}), vec!["vector"]),
            (json!({"vector": [1, "2"]}), vec!["vector"]),
            (json!({"vector": [1, null]}), vec!["vector"]),
            (json!({"vector": [1, 1e39]}), vec!["vector"]),
            (json!({"vector": [1, 2], "payload": []}), vec!["payload"]),
            (
                json!({"vector": [1, 2], "payload": {"a": nested(17)}}),
                vec!["payload"],
            ),
            (
                json!({"vector": [1], "payload": {"category": 1}}),
                vec!["vector", "payload.category"],
            ),
            (
                json!({"vector": [1, 2], "payload": {"title": null}}),
                vec!["payload.title"],
            ),
        ] {
            assert_eq!(
                faults(content(object(document.clone()), of_size(2))),
                fields,
                "{document}"
            );
        }
        let deep = json!({"vector": [1, 2], "payload": {"a": nested(16)}});
        assert!(content(object(deep), of_size(2)).is_ok());
    }

    #[test]
    fn a_payload_holds_a_thousand_values_however_they_are_nested() {
        for (payload, values) in [
            (json!({"a": vec![1; 999]}), 1000),
            (json!({"a": vec![1; 1000]}), 1001),
            (json!({"a": vec![[1]; 499], "b": null}), 1000),
            (json!({"a": vec![[1]; 500]}), 1001),
            (json!({"a": {"b": vec![json!({}); 997]}, "c": "d"}), 1000),
            (json!({"a": {"b": vec![json!({}); 998]}, "c": "d"}), 1001),
        ] {
            let counted: usize = payload.as_object().unwrap().values().map(count).sum();
            assert_eq!(counted, values);
            let document = object(json!({"vector": [1], "payload": payload}));
            match values {
                1000 => assert!(content(document, of_size(1)).is_ok()),
                _ => assert_eq!(faults(content(document, of_size(1))), ["payload"]),
            }
        }
    }

    #[test]
    fn a_query_has_ten_results_without_payload_and_no_filter_unless_it_says_so() {
        let plain = query(
            object(json!({"vector": [1, 2], "filter": null})),
            of_size(2),
        )
        .unwrap();
        assert_eq!((plain.limit, plain.with_payload), (10, false));
        assert_eq!(plain.filter, []);
        let full = json!({"vector": [1, 2], "limit": 100, "with_payload": true, "filter": {"a-b": "x", "n": -1, "f": true}});
        let full = query(object(full), of_size(2)).unwrap();
        assert_eq!((full.limit, full.with_payload), (100, true));
        assert_eq!(
            full.filter,
            [
                ("a-b".to_owned(), MatchValue::from("x".to_owned())),
                ("f".to_owned(), MatchValue::from(true)),
                ("n".to_owned(), MatchValue::from(-1)),
            ]
        );
    }

    #[test]
    fn every_fault_of_a_query_is_named() {
        for (fields, expected) in [
            (json!({"limit": 0}), "limit"),
            (json!({"limit": 101}), "limit"),
            (json!({"limit": 1.5}), "limit"),
            (json!({"limit": -1}), "limit"),
            (json!({"limit": "1"}), "limit"),
            (json!({"with_payload": 1}), "with_payload"),
            (json!({"filter": []}), "filter"),
            (json!({"filter": {"a.b": 1}}), "filter"),
            (json!({"filter": {"": 1}}), "filter"),
            (json!({"filter": {"a": 1.5}}), "filter"),
            (json!({"filter": {"a": {"any": ["x"]}}}), "filter"),
            (json!({"filter": {"a": null}}), "filter"),
        ] {
            let mut body = object(fields.clone());
            assert_eq!(
                faults(query(body.clone(), of_size(2))),
                ["vector", expected],
                "{fields}"
            );
            body.insert("vector".to_owned(), json!([1, 2]));
            assert_eq!(faults(query(body, of_size(2))), [expected], "{fields}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_is_finite_and_of_the_right_length(numbers in proptest::collection::vec(any::<f64>(), 0..4)) {
            if let Ok(content) = content(object(json!({"vector": numbers})), of_size(2)) {
                prop_assert_eq!(content.vector.len(), 2);
                prop_assert!(content.vector.iter().all(|number| number.is_finite()));
            }
        }
    }
}
