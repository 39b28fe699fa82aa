//! The part of JSON Schema that the OpenAPI document of the app uses.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{LazyLock, Mutex},
};

use regex::Regex;
use serde_json::{Map, Number, Value, json};

/// The keywords that [`Schemas::fits`] checks.
const CHECKED: [&str; 21] = [
    "$ref",
    "type",
    "const",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "items",
    "minItems",
    "maxItems",
    "required",
    "properties",
    "additionalProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "anyOf",
    "allOf",
    "not",
];
/// The keywords that bind no value here.
const FREE: [&str; 3] = ["format", "description", "examples"];

/// The schemas of a document.
#[derive(Clone, Copy)]
pub struct Schemas<'a> {
    pub document: &'a Value,
    /// True if an object whose fields are described has no others.
    pub is_closed: bool,
}

impl<'a> Schemas<'a> {
    /// Returns the part of the document to which a reference leads, or the value itself if it is none.
    pub fn resolved(self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(place) => self
                .document
                .pointer(place.trim_start_matches('#'))
                .unwrap(),
            None => value,
        }
    }

    /// Returns true if a schema describes a value, apart from its format.
    pub fn fits(self, schema: &'a Value, value: &Value) -> bool {
        let schema = self.resolved(schema);
        let Some(rules) = schema.as_object() else {
            return schema.as_bool().unwrap_or(true);
        };
        let is_known =
            |name: &String| CHECKED.contains(&name.as_str()) || FREE.contains(&name.as_str());
        assert!(rules.keys().all(is_known), "a new keyword: {schema}");
        self.fits_type(schema, value)
            && rules.get("const").is_none_or(|only| only == value)
            && rules
                .get("enum")
                .is_none_or(|_| list(schema, "enum").any(|one| one == value))
            && rules
                .get("anyOf")
                .is_none_or(|_| list(schema, "anyOf").any(|one| self.fits(one, value)))
            && rules
                .get("allOf")
                .is_none_or(|_| list(schema, "allOf").all(|one| self.fits(one, value)))
            && rules.get("not").is_none_or(|not| !self.fits(not, value))
    }

    fn fits_type(self, schema: &'a Value, value: &Value) -> bool {
        let types = types(schema);
        let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let is_of_type = types.is_empty()
            || types.contains(type_of(value))
            || types.contains("integer") && is_whole;
        is_of_type
            && match value {
                Value::String(text) => is_text(schema, text),
                Value::Number(number) => is_between(schema, number),
                Value::Array(values) => {
                    is_counted(schema, "Items", values.len())
                        && values.iter().all(|one| self.fits(&schema["items"], one))
                }
                Value::Object(fields) => self.is_object(schema, fields),
                Value::Null | Value::Bool(_) => true,
            }
    }

    fn is_object(self, schema: &'a Value, fields: &Map<String, Value>) -> bool {
        let mut required = list(schema, "required").filter_map(Value::as_str);
        required.all(|name| fields.contains_key(name))
            && is_counted(schema, "Properties", fields.len())
            && fields.iter().all(|(name, value)| {
                let is_name = self.fits(&schema["propertyNames"], &json!(name));
                is_name
                    && match schema["properties"].get(name) {
                        Some(known) => self.fits(known, value),
                        None if self.is_closed && schema["properties"].is_object() => false,
                        None => self.fits(&schema["additionalProperties"], value),
                    }
            })
    }
}

/// Returns the types of a schema; none if it takes any.
pub fn types(schema: &Value) -> BTreeSet<&str> {
    match &schema["type"] {
        Value::String(one) => BTreeSet::from([one.as_str()]),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the values of a keyword that has a list; none without the keyword.
pub fn list<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema[name].as_array().into_iter().flatten()
}

fn is_counted(schema: &Value, what: &str, count: usize) -> bool {
    let bound = |side: &str| schema[format!("{side}{what}")].as_u64();
    let count = count as u64;
    bound("min").is_none_or(|least| count >= least) && bound("max").is_none_or(|most| count <= most)
}

fn is_text(schema: &Value, text: &str) -> bool {
    let pattern = schema["pattern"].as_str();
    is_counted(schema, "Length", text.chars().count())
        && pattern.is_none_or(|pattern| is_match(pattern, text))
}

/// Returns true if a text has a pattern. Compiling one costs more than all other checks, so each is compiled once.
fn is_match(pattern: &str, text: &str) -> bool {
    static PATTERNS: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let compiled = || Regex::new(pattern).unwrap();
    let mut patterns = PATTERNS.lock().unwrap();
    patterns
        .entry(pattern.to_owned())
        .or_insert_with(compiled)
        .is_match(text)
}

fn is_between(schema: &Value, number: &Number) -> bool {
    let bound = |name: &str| schema[name].as_number();
    match (exact(number), bound("minimum"), bound("maximum")) {
        (Some(number), least, most) if is_exact(least) && is_exact(most) => {
            least.and_then(exact).is_none_or(|least| number >= least)
                && most.and_then(exact).is_none_or(|most| number <= most)
        }
        (_, least, most) => {
            let number = number.as_f64();
            least.is_none_or(|least| number >= least.as_f64())
                && most.is_none_or(|most| number <= most.as_f64())
        }
    }
}

fn is_exact(bound: Option<&Number>) -> bool {
    bound.is_none_or(|bound| exact(bound).is_some())
}

/// Returns a number without a fraction, unless it is far larger than any identifier.
pub fn exact(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    let integer = signed.or_else(|| number.as_u64().map(i128::from));
    integer.or_else(|| {
        let number = number.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 1e19).then_some(number as i128)
    })
}
