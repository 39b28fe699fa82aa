//! Fields that the definition does not have. The API server drops them, so a misspelt one has no effect.

use kube_core::CustomResourceExt;
use serde_json::Value;

use crate::api::ShortenerStack;

/// Returns the paths of the fields of a spec that the definition does not have.
///
/// # Errors
/// The definition cannot be expressed in JSON.
pub fn unknown_fields(spec: &Value) -> Result<Vec<String>, serde_json::Error> {
    let definition = serde_json::to_value(ShortenerStack::crd())?;
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut found = Vec::new();
    collect(spec, &schema["properties"]["spec"], "spec", &mut found);
    Ok(found)
}

fn collect(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                let rest = &schema["additionalProperties"];
                match schema["properties"].get(key) {
                    Some(schema) => collect(value, schema, &path, found),
                    None if rest.is_object() => collect(value, rest, &path, found),
                    None if *rest == true => {}
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                collect(item, &schema["items"], &format!("{path}[{place}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misspelt_field_is_found_and_a_map_takes_every_key() {
        let spec = json!({
            "profiles": ["caching"],
            "app": {"replica": 3, "podTemplate": {"any": 1}},
            "gateway": {"allowFrom": [{"podSelector": {}, "ip": "b"}]},
            "gatway": {"provider": "x"},
        });
        let found = unknown_fields(&spec).unwrap();
        assert_eq!(
            found,
            [
                "spec.app.replica",
                "spec.gateway.allowFrom[0].ip",
                "spec.gatway"
            ]
        );
        let spec = json!({"gateway": {"hosts": ["x"], "annotations": {"a.b/c": "d"}}});
        assert_eq!(unknown_fields(&spec).unwrap(), Vec::<String>::new());
    }
}
