//! The rules of request bodies that no single field has, or that the settings decide.

use serde_json::{Value, json};

use crate::{
    config::ServeArgs,
    routes::docs::{MAX_CONDITIONS, MAX_VALUES},
};

/// Completes the schemas of the bodies.
pub(super) fn complete(schemas: &mut Value, config: &ServeArgs) {
    for body in ["DocumentRequest", "QueryRequest"] {
        vector(field(schemas, body, "vector"), config.vector.vector_size);
    }
    payload(field(schemas, "DocumentRequest", "payload"));
    filter(field(schemas, "QueryRequest", "filter"));
    schemas["ShortenRequest"]["anyOf"] = json!([absent("ttl_seconds"), absent("expires_at")]);
    let is_legal = json!({"required": ["legal"], "properties": {"legal": {"const": true}}});
    schemas["DisableRequest"]["anyOf"] = json!([absent("notice"), is_legal]);
    expiry(&mut schemas["ExpiryRequest"]);
    choice(&mut schemas["SweepRequest"]);
}

fn field<'a>(schemas: &'a mut Value, body: &str, name: &str) -> &'a mut Value {
    &mut schemas[body]["properties"][name]
}

/// Returns the schema of an object without a field: `null` means absent.
fn absent(field: &str) -> Value {
    json!({"properties": {field: {"type": "null"}}})
}

/// A vector has the dimensions of the collection. It is read in single precision, in which larger numbers are infinite.
fn vector(schema: &mut Value, size: u32) {
    schema["minItems"] = size.into();
    schema["maxItems"] = size.into();
    schema["items"]["minimum"] = f64::from(f32::MIN).into();
    schema["items"]["maximum"] = f64::from(f32::MAX).into();
}

fn payload(schema: &mut Value) {
    schema["maxProperties"] = MAX_VALUES.into();
    schema["properties"] = json!({"title": {"type": "string"}, "category": {"type": "string"}});
}

fn filter(schema: &mut Value) {
    schema["maxProperties"] = MAX_CONDITIONS.into();
    schema["propertyNames"] = json!({"pattern": "^[A-Za-z0-9_-]+$"});
    schema["additionalProperties"] =
        json!({"type": ["string", "boolean", "integer"], "minimum": i64::MIN, "maximum": i64::MAX});
}

/// A new expiry is one of two fields. Here `null` is not absent: it means that the link shall not expire.
fn expiry(schema: &mut Value) {
    schema["anyOf"] = json!([
        {
            "required": ["ttl_seconds"],
            "properties": {"ttl_seconds": {"type": "integer"}},
            "not": {"required": ["expires_at"]},
        },
        {"required": ["expires_at"], "properties": {"ttl_seconds": {"type": "null"}}},
    ]);
    schema["not"] = json!({"required": ["url"]});
}

/// A choice of dead letters is a list of identifiers, or everything.
fn choice(schema: &mut Value) {
    let hex = "[0-9a-fA-F]";
    let id = format!("^{hex}{{8}}(-{hex}{{4}}){{3}}-{hex}{{12}}$");
    schema["properties"]["ids"]["items"]["format"] = "uuid".into();
    schema["properties"]["ids"]["items"]["pattern"] = id.into();
    schema["anyOf"] = json!([
        {"required": ["all"], "properties": {"all": {"const": true}, "ids": {"type": "null"}}},
        {
            "required": ["ids"],
            "properties": {"ids": {"type": "array"}, "all": {"enum": [false, null]}},
        },
    ]);
}
