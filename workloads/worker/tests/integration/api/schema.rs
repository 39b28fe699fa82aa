//! The part of JSON Schema that the document uses: a check of values, and values on both sides of every bound.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Number, Value, json};

/// The keywords that [`Schemas::fits`] checks.
const CHECKED: [&str; 22] = [
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
    "oneOf",
    "allOf",
    "not",
];
/// The keywords that bind no value. Formats are known to [`Samples`].
const FREE: [&str; 4] = ["format", "description", "example", "title"];

/// Values of formats.
pub struct Samples {
    /// The identifier of a job.
    pub uuid: String,
    /// A time at which a link may end.
    pub date_time: String,
}

/// The schemas of a document.
#[derive(Clone, Copy)]
pub struct Schemas<'a>(pub &'a Value);

impl<'a> Schemas<'a> {
    /// Returns the part of the document to which a reference leads, or the value itself if it is none.
    pub fn resolved(self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(place) => self.0.pointer(place.trim_start_matches('#')).unwrap(),
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
        let count = |name: &str| {
            let fitting = list(schema, name).filter(|&of| self.fits(of, value));
            rules.contains_key(name).then(|| fitting.count())
        };
        self.fits_type(schema, value)
            && rules.get("const").is_none_or(|only| only == value)
            && rules
                .get("enum")
                .is_none_or(|_| list(schema, "enum").any(|one| one == value))
            && count("allOf").is_none_or(|fitting| fitting == list(schema, "allOf").count())
            && count("anyOf").is_none_or(|fitting| fitting > 0)
            && count("oneOf").is_none_or(|fitting| fitting == 1)
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
                let known = schema["properties"].get(name);
                self.fits(known.unwrap_or(&schema["additionalProperties"]), value)
                    && self.fits(&schema["propertyNames"], &json!(name))
            })
    }

    /// Returns values of a schema, and others beside them; [`Schemas::fits`] tells them apart. The first one has the type
    /// of the schema.
    pub fn values(self, schema: &'a Value, samples: &Samples) -> Vec<Value> {
        let schema = self.resolved(schema);
        let types = types(schema);
        let mut values = Vec::new();
        if types.contains("string") {
            values.extend(texts(schema, samples));
        }
        if types.contains("integer") {
            values.extend(whole_numbers(schema));
        }
        if types.contains("number") {
            values.extend(numbers(schema));
        }
        if types.contains("boolean") {
            values.push(json!(true));
        }
        if types.contains("array") {
            values.extend(self.arrays(schema, samples));
        }
        if types.contains("object") {
            values.extend(self.objects(schema, samples));
        }
        values.extend([json!(null), json!("a b"), json!(0.5)]);
        if !types.contains("array") {
            values.push(json!([]));
        }
        values
    }

    /// Returns arrays at the bounds of their length and beside them, and with each value of the items. Items that are
    /// objects are not varied, because operations judge those one by one.
    fn arrays(self, schema: &'a Value, samples: &Samples) -> Vec<Value> {
        let items = self.values(&schema["items"], samples);
        let of = |count: usize| vec![items[0].clone(); count];
        let bound = |name: &str| schema[name].as_u64().map(|count| count as usize);
        let least = bound("minItems").unwrap_or(1);
        let mut arrays = vec![of(least), of(least.saturating_sub(1))];
        if let Some(most) = bound("maxItems") {
            arrays.extend([of(most), of(most + 1)]);
        }
        for item in items.iter().filter(|_| !items[0].is_object()) {
            let mut array = of(least.max(1));
            array[0] = item.clone();
            arrays.push(array);
        }
        arrays.into_iter().map(Value::Array).collect()
    }

    /// Returns objects with the required fields alone and with each value of each field, with every field, with all but
    /// one, and at the bound of their number.
    fn objects(self, schema: &'a Value, samples: &Samples) -> Vec<Value> {
        let required: BTreeSet<&str> = list(schema, "required").filter_map(Value::as_str).collect();
        let fields: Vec<(&String, Vec<Value>)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, field)| (name, self.values(field, samples)))
            .collect();
        let first = |(name, values): &(&String, Vec<Value>)| ((*name).clone(), values[0].clone());
        let full: Map<String, Value> = fields.iter().map(first).collect();
        let mut least = full.clone();
        least.retain(|name, _| required.contains(name.as_str()));
        let mut objects = vec![least.clone(), full.clone()];
        for (name, values) in fields {
            let mut without = full.clone();
            without.remove(name);
            objects.push(without);
            for value in values {
                let mut object = least.clone();
                object.insert(name.clone(), value);
                objects.push(object);
            }
        }
        if let Some(most) = schema["maxProperties"].as_u64() {
            let of = |count: u64| (0..count).map(|field| (format!("f{field}"), json!("a")));
            objects.extend([of(most).collect(), of(most + 1).collect()]);
        }
        objects.into_iter().map(Value::Object).collect()
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

fn list<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
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
        && pattern.is_none_or(|pattern| Regex::new(pattern).unwrap().is_match(text))
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
fn exact(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    let integer = signed.or_else(|| number.as_u64().map(i128::from));
    integer.or_else(|| {
        let number = number.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 1e19).then_some(number as i128)
    })
}

fn texts(schema: &Value, samples: &Samples) -> Vec<Value> {
    let (format, example) = (schema["format"].as_str(), schema["example"].as_str());
    let sample = match format {
        Some("uuid") => samples.uuid.as_str(),
        Some("date-time") => samples.date_time.as_str(),
        _ => example.unwrap_or("x"),
    };
    let mut texts = vec![json!(sample), json!(""), json!("a\u{1}b")];
    if let Some(most) = schema["maxLength"].as_u64() {
        for length in [most, most + 1] {
            let rest = "x".repeat(length as usize - sample.len());
            texts.push(json!(format!("{sample}{rest}")));
        }
    }
    texts
}

fn whole_numbers(schema: &Value) -> Vec<Value> {
    let bound = |name: &str| schema[name].as_number().and_then(exact);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let values = [
        least.or(most).or(Some(1)),
        most,
        least.map(|least| least - 1),
        most.map(|most| most + 1),
    ];
    let values = values.into_iter().flatten();
    values
        .map(|value| match i64::try_from(value) {
            Ok(value) => json!(value),
            Err(_) => json!(u64::try_from(value).unwrap()),
        })
        .collect()
}

fn numbers(schema: &Value) -> Vec<Value> {
    let bounds = ["minimum", "maximum"].into_iter();
    let bounds = bounds.filter_map(|name| schema[name].as_f64());
    let values = bounds.flat_map(|bound| [bound, 2.0 * bound]);
    [0.25].into_iter().chain(values).map(Value::from).collect()
}
