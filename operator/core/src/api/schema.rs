//! Schema fragments shared by several fields of the resource.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Returns the schema of `T` without its descriptions.
///
/// Kubernetes documents its own types. With their descriptions repeated in every component, the CRD would exceed the
/// size limit of the annotation in which `kubectl apply` stores the last applied configuration.
pub(super) fn terse<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    strip_descriptions(schema.ensure_object());
    schema
}

/// Returns the schema of a list of `T` without descriptions. It has at most 64 items so that CEL can bound the cost
/// of a rule.
pub(super) fn terse_list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let item = terse::<T>(generator);
    json_schema!({"type": "array", "maxItems": 64, "items": item})
}

/// Lists the values of an enum with their meanings in its description, because the schema of a definition has no place for
/// them: `kubectl explain` would only list the names.
pub(super) fn with_values(schema: &mut Schema) {
    let Some(serde_json::Value::Array(values)) = schema.remove("oneOf") else {
        return;
    };
    let of = |value: &serde_json::Value, key: &str| {
        let text = value.get(key).and_then(serde_json::Value::as_str);
        text.unwrap_or_default().replace('\n', " ")
    };
    let meanings = values
        .iter()
        .map(|value| format!("- `{}`: {}", of(value, "const"), of(value, "description")));
    let mut lines = vec![of(schema.as_value(), "description")];
    lines.extend(meanings);
    let names: Vec<_> = values.iter().map(|value| of(value, "const")).collect();
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), names.into());
    schema.insert("description".to_owned(), lines.join("\n").into());
}

/// Removes the value `null` of an optional enum, which is `nullable` already: Kubernetes refuses `null` by such a list.
pub(super) fn without_null(schema: &mut Schema) {
    if let Some(serde_json::Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// Returns the schema of a map from resource names to quantities, given as numbers or strings.
pub(super) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 32,
            "x-kubernetes-validations": [{
                "rule": "isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0",
                "message": "is not a quantity of at least 0: write for example 500m, 2, 128Mi or 1Gi",
            }],
        },
    })
}

/// Returns the schema of a map of labels. The operator validates the keys, because a structural schema cannot.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
    })
}

/// Returns the schema of an object that the operator checks itself. Written out in every component, the fields of a pod
/// template would exceed the size that a definition may have.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn strip_descriptions(object: &mut serde_json::Map<String, serde_json::Value>) {
    // A property that is itself called "description" holds a schema, not prose.
    if object
        .get("description")
        .is_some_and(serde_json::Value::is_string)
    {
        object.remove("description");
    }
    for value in object.values_mut() {
        strip_in(value);
    }
}

fn strip_in(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(object) => strip_descriptions(object),
        serde_json::Value::Array(items) => items.iter_mut().for_each(strip_in),
        _ => {}
    }
}
