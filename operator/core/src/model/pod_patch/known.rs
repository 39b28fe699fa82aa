//! The fields of a pod template, by which the user's changes are checked.
//!
//! The schema of the resource leaves the changes open, and deserialization would drop a misspelt field silently.

use std::{collections::BTreeSet, sync::LazyLock};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::{
    PatchError,
    merge::{DELETE, DIRECTIVE, MERGE, REPLACE, identity, key},
};

/// The schema of a pod template, without references.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let generator = settings.into_generator();
    generator
        .into_root_schema_for::<PodTemplateSpec>()
        .to_value()
});

/// Checks changes of a pod template.
pub(super) fn check(given: &Map<String, Value>) -> Result<(), PatchError> {
    if given.contains_key(DIRECTIVE) {
        return Err(PatchError::new(
            DIRECTIVE,
            "stands at the top, where it would concern the whole pod: move it into an object below",
        ));
    }
    object("", given, &SCHEMA)
}

fn value(path: &str, given: &Value, schema: &Value) -> Result<(), PatchError> {
    match (given, schema["type"].as_str()) {
        (Value::Null, _) => Ok(()),
        (Value::Object(fields), Some("object")) => object(path, fields, schema),
        (Value::Array(items), Some("array")) => list(path, items, &schema["items"]),
        (scalar, type_) if is_of(scalar, type_) => Ok(()),
        (_, type_) => Err(PatchError::new(path, format!("is not {}", name(type_)))),
    }
}

fn object(path: &str, given: &Map<String, Value>, schema: &Value) -> Result<(), PatchError> {
    for (field, change) in given {
        let place = if path.is_empty() {
            field.clone()
        } else {
            format!("{path}.{field}")
        };
        let known = schema["properties"]
            .get(field)
            .or_else(|| schema.get("additionalProperties"));
        match known {
            _ if field == DIRECTIVE => directive(&place, change)?,
            Some(schema) => value(&place, change, schema)?,
            None => {
                return Err(PatchError::new(
                    place,
                    "is no field of a pod template: correct its name, or remove it",
                ));
            }
        }
    }
    Ok(())
}

fn directive(path: &str, given: &Value) -> Result<(), PatchError> {
    match given.as_str() {
        Some(DELETE | MERGE | REPLACE) => Ok(()),
        _ => Err(PatchError::new(
            path,
            format!("is none of {DELETE}, {MERGE} and {REPLACE}: write one of them"),
        )),
    }
}

fn list(path: &str, items: &[Value], schema: &Value) -> Result<(), PatchError> {
    let field = path.rsplit('.').next().unwrap_or(path);
    let mut seen = BTreeSet::new();
    for (place, item) in items.iter().enumerate() {
        let path = format!("{path}[{place}]");
        if item.is_null() {
            return Err(PatchError::new(path, "is empty: remove it"));
        }
        value(&path, item, schema)?;
        let Some(key) = key(field) else { continue };
        let problem = match identity(field, item).map(|identity| seen.insert(identity)) {
            Some(true) => continue,
            Some(false) => format!("has the {key} of an earlier item: make one of both"),
            None => format!("has no {key}, by which it is merged: add it"),
        };
        return Err(PatchError::new(path, problem));
    }
    Ok(())
}

/// Returns true when a scalar has the type of a field. One without a type is a quantity, or a port by number or name.
fn is_of(scalar: &Value, type_: Option<&str>) -> bool {
    match type_ {
        Some("string") => scalar.is_string(),
        Some("boolean") => scalar.is_boolean(),
        Some("integer") => scalar.is_i64(),
        Some("number") => scalar.is_number(),
        Some(_) => false,
        None => scalar.is_number() || scalar.is_string(),
    }
}

/// Returns the name of a type with the way to write it.
fn name(type_: Option<&str>) -> &'static str {
    match type_ {
        Some("object") => "an object: write fields below it",
        Some("array") => "a list: write items below it",
        Some("string") => "a text: put it in quotes",
        Some("boolean") => "a boolean: write true or false without quotes",
        Some("integer") => "a whole number: write it without quotes and fractions",
        Some("number") => "a number: write it without quotes",
        Some(_) | None => "a number or a text: write one of them",
    }
}
