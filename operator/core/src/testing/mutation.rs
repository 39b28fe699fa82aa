//! Mutations of a spec: each field of the schema, with every kind of value that a user may write by mistake or intent.

use serde_json::{Value, json};

/// The first item of a list, as a step of a path.
const ITEM: &str = "[]";
/// An entry of a map, as a step of a path.
const ENTRY: &str = "{}";
/// Key of that entry.
const KEY: &str = "a";

/// A spec in which one field differs.
pub struct Mutation {
    /// Path of the field within the spec.
    pub path: Vec<String>,
    /// Description of its value.
    pub what: &'static str,
    /// The whole spec.
    pub spec: Value,
}

impl Mutation {
    /// Returns the names of the fields on the path.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let steps = self.path.iter().map(String::as_str);
        steps.filter(|step| *step != ITEM && *step != ENTRY)
    }
}

/// Returns every mutation of a spec, or those of one of its sections.
pub fn mutations(schema: &Value, base: &Value, section: Option<&str>) -> Vec<Mutation> {
    let mut walk = Walk {
        schema,
        base,
        path: Vec::new(),
        found: Vec::new(),
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if section.is_none_or(|section| section == name) {
            walk.step(name, field);
        }
    }
    walk.found
}

struct Walk<'a> {
    schema: &'a Value,
    base: &'a Value,
    path: Vec<String>,
    found: Vec<Mutation>,
}

impl Walk<'_> {
    fn step(&mut self, step: &str, schema: &Value) {
        self.path.push(step.to_owned());
        for (what, value) in values(schema, self.name()) {
            let mut spec = self.base.clone();
            place(self.schema, &mut spec, &self.path, value);
            self.found.push(Mutation {
                path: self.path.clone(),
                what,
                spec,
            });
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            self.step(name, field);
        }
        if schema["items"].is_object() {
            self.step(ITEM, &schema["items"]);
        }
        if schema["additionalProperties"].is_object() {
            self.step(ENTRY, &schema["additionalProperties"]);
        }
        self.path.pop();
    }

    /// Returns the name of the field, also for its items and entries.
    fn name(&self) -> &str {
        name(&self.path)
    }
}

fn name(path: &[String]) -> &str {
    let mut steps = path.iter().map(String::as_str).rev();
    let named = steps.find(|step| *step != ITEM && *step != ENTRY);
    named.unwrap_or_default()
}

/// Sets or removes the value at a path. Objects on the way get what they require.
fn place(schema: &Value, value: &mut Value, path: &[String], new: Option<Value>) {
    let Some((step, rest)) = path.split_first() else {
        *value = new.unwrap_or_default();
        return;
    };
    let removes = rest.is_empty() && new.is_none();
    match step.as_str() {
        ITEM => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([minimal(&schema["items"], "")]);
            }
            let items = value.as_array_mut().unwrap();
            if removes {
                items.remove(0);
            } else {
                place(&schema["items"], &mut items[0], rest, new);
            }
        }
        ENTRY => {
            if !value.is_object() {
                *value = json!({});
            }
            if removes {
                *value = json!({});
            } else {
                place(&schema["additionalProperties"], &mut value[KEY], rest, new);
            }
        }
        field => {
            if !value.is_object() {
                *value = minimal(schema, "");
            }
            let fields = value.as_object_mut().unwrap();
            // They exclude each other.
            match field {
                "external" => fields.remove("managed"),
                "managed" => fields.remove("external"),
                _ => None,
            };
            if removes {
                fields.remove(field);
            } else {
                let value = fields.entry(field).or_insert(Value::Null);
                place(&schema["properties"][field], value, rest, new);
            }
        }
    }
}

/// Returns the smallest valid value of a field.
fn minimal(schema: &Value, name: &str) -> Value {
    if let Some(known) = schema["enum"].as_array() {
        return known[0].clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let fields = required.filter_map(|field| {
                let field = field.as_str()?;
                let value = minimal(&schema["properties"][field], field);
                Some((field.to_owned(), value))
            });
            Value::Object(fields.collect())
        }
        Some("array") if schema["minItems"].is_u64() => json!([minimal(&schema["items"], name)]),
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(limit(schema, "minimum").unwrap_or(1)),
        Some(_) => json!(sample(name)),
        None => json!("500m"),
    }
}

/// Returns a valid text for a field.
fn sample(name: &str) -> &'static str {
    match name {
        "storage" | "maxMemory" | "maxBytes" => "2Gi",
        "publicUrl" | "endpoint" | "tracesEndpoint" | "logsEndpoint" | "rootTarget"
        | "unknownTarget" | "expiredTarget" | "allowOrigins" => "https://www.example.org",
        "allowHosts" | "denyHosts" => "*.example.org",
        "host" => "links.example.org",
        "schedule" => "5 4 * * *",
        "image" => "registry.test/other:1",
        _ => "other",
    }
}

fn values(schema: &Value, name: &str) -> Vec<(&'static str, Option<Value>)> {
    let typed = match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => maps(schema, name),
        Some("object") => objects(schema, name),
        Some("array") => lists(schema, name),
        Some("boolean") => [json!(true), json!(false), json!("true"), json!(1)]
            .map(|value| ("a flag", value))
            .into(),
        Some("string") => texts(schema, name),
        Some(_) => numbers(schema),
        None => [
            json!("64Mi"),
            json!(2),
            json!("0"),
            json!("-1"),
            json!(1.5),
            json!("much"),
            json!(""),
            json!(i64::MAX),
            json!([]),
        ]
        .map(|value| ("a quantity", value))
        .into(),
    };
    let typed = typed.into_iter().map(|(what, value)| (what, Some(value)));
    [("removed", None), ("null", Some(Value::Null))]
        .into_iter()
        .chain(typed)
        .collect()
}

fn numbers(schema: &Value) -> Vec<(&'static str, Value)> {
    let (minimum, maximum) = (limit(schema, "minimum"), limit(schema, "maximum"));
    vec![
        ("minimum", json!(minimum.unwrap_or(0))),
        ("below the minimum", json!(minimum.unwrap_or(0) - 1)),
        ("maximum", json!(maximum.unwrap_or(i32::MAX.into()))),
        (
            "above the maximum",
            json!(maximum.unwrap_or(i32::MAX.into()) + 1),
        ),
        ("huge", json!(i64::MAX)),
        ("a fraction", json!(1.5)),
        ("of another type", json!("1")),
    ]
}

fn texts(schema: &Value, name: &str) -> Vec<(&'static str, Value)> {
    let known = schema["enum"].as_array().into_iter().flatten();
    let mut texts: Vec<_> = known.map(|value| ("known", value.clone())).collect();
    let longest = schema["maxLength"].as_u64();
    let longest = longest.and_then(|length| usize::try_from(length).ok());
    let longest = longest.unwrap_or(10_000);
    texts.extend([
        ("another text", json!(sample(name))),
        ("empty", json!("")),
        ("longest", json!("a".repeat(longest))),
        ("longer", json!("a".repeat(longest + 1))),
        ("unicode", json!("ü\u{1f517}\u{202e}a")),
        ("control characters", json!("a\n\u{0}b")),
        ("of another type", json!(7)),
    ]);
    texts
}

fn lists(schema: &Value, name: &str) -> Vec<(&'static str, Value)> {
    let item = minimal(&schema["items"], name);
    let known = schema["items"]["enum"].as_array();
    let all = known.cloned().unwrap_or_else(|| vec![item.clone()]);
    let reordered: Vec<_> = all.iter().rev().cloned().collect();
    let most = schema["maxItems"].as_u64();
    let most = most.and_then(|most| usize::try_from(most).ok());
    vec![
        ("empty", json!([])),
        ("one item", json!([item])),
        ("an item twice", json!([item, item])),
        ("every item", json!(all)),
        ("reordered", json!(reordered)),
        ("too many items", json!(vec![&item; most.unwrap_or(64) + 1])),
        ("of another type", json!({})),
    ]
}

fn maps(schema: &Value, name: &str) -> Vec<(&'static str, Value)> {
    let value = minimal(&schema["additionalProperties"], name);
    let many = (0..200).map(|number| (format!("a{number}"), value.clone()));
    vec![
        ("empty", json!({})),
        ("one entry", json!({KEY: value})),
        ("an odd key", json!({"ü \n/": value})),
        ("an empty key", json!({"": value})),
        ("many entries", Value::Object(many.collect())),
        ("of another type", json!([])),
    ]
}

fn objects(schema: &Value, name: &str) -> Vec<(&'static str, Value)> {
    let minimal = minimal(schema, name);
    let mut unknown = minimal.clone();
    unknown["unknown"] = json!({"deep": [1]});
    vec![
        ("empty", json!({})),
        ("minimal", minimal),
        ("with an unknown field", unknown),
        ("of another type", json!([])),
    ]
}

/// Returns a limit of a number, which the definition holds as a fraction.
fn limit(schema: &Value, name: &str) -> Option<i64> {
    format!("{:.0}", schema[name].as_f64()?).parse().ok()
}
