//! The fields of this program's definition, beside those of a spec and those of a live definition.

use std::sync::LazyLock;

use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use crate::api::{ShortLink, ShortenerDrill, ShortenerStack};

/// Schema of the spec of a stack.
static SPEC: LazyLock<Value> = LazyLock::new(spec::<ShortenerStack>);
/// Schema of the spec of a ShortLink.
static LINK: LazyLock<Value> = LazyLock::new(spec::<ShortLink>);
/// Schema of the spec of a drill.
static DRILL: LazyLock<Value> = LazyLock::new(spec::<ShortenerDrill>);

fn spec<K: CustomResourceExt>() -> Value {
    let mut definition = json!(K::crd());
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].take()
}

/// Returns the paths of the fields of a stack's spec that the definition of this program does not have. In a file they are
/// misspelt. In a live stack they come from a newer definition.
pub fn unknown_fields(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(spec, &SPEC, "spec", &mut found);
    found
}

/// Returns the paths of the fields that a live schema of a stack's spec lacks. The API server drops them from every stack.
pub fn missing_fields(live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(live, &SPEC, "spec", &mut found);
    found
}

/// Returns the paths of the fields that a live schema of a ShortLink's spec lacks.
pub fn missing_link_fields(live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(live, &LINK, "spec", &mut found);
    found
}

/// Returns the paths of the fields that a live schema of a drill's spec lacks.
pub fn missing_drill_fields(live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(live, &DRILL, "spec", &mut found);
    found
}

fn compare(live: &Value, own: &Value, path: &str, found: &mut Vec<String>) {
    for (name, own) in own["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match live["properties"].get(name) {
            Some(live) => compare(live, own, &path, found),
            None => found.push(path),
        }
    }
    for inside in ["items", "additionalProperties"] {
        if own[inside].is_object() {
            compare(&live[inside], &own[inside], path, found);
        }
    }
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
    fn fields_of_an_older_definition_are_missing_at_every_depth() {
        assert_eq!(missing_fields(&SPEC), Vec::<String>::new());
        let mut older = SPEC.clone();
        for (inside, name) in [
            ("/properties/gateway/properties", "auth"),
            ("/properties/imagePullSecrets/items/properties", "name"),
        ] {
            let fields = older.pointer_mut(inside).unwrap();
            fields.as_object_mut().unwrap().remove(name).unwrap();
        }
        assert_eq!(
            missing_fields(&older),
            ["spec.gateway.auth", "spec.imagePullSecrets.name"]
        );
        assert!(missing_fields(&Value::Null).contains(&"spec.gateway".to_owned()));
        assert_eq!(missing_link_fields(&LINK), Vec::<String>::new());
        assert!(missing_link_fields(&Value::Null).contains(&"spec.code".to_owned()));
        assert_eq!(missing_drill_fields(&DRILL), Vec::<String>::new());
        assert!(missing_drill_fields(&Value::Null).contains(&"spec.store".to_owned()));
    }

    #[test]
    fn a_misspelt_field_is_found_and_a_map_takes_every_key() {
        let spec = json!({
            "profiles": ["caching"],
            "app": {"replica": 3, "podTemplate": {"any": 1}},
            "gateway": {"allowFrom": [{"podSelector": {}, "ip": "b"}]},
            "gatway": {"provider": "x"},
        });
        let found = unknown_fields(&spec);
        assert_eq!(
            found,
            [
                "spec.app.replica",
                "spec.gateway.allowFrom[0].ip",
                "spec.gatway"
            ]
        );
        let spec = json!({"gateway": {"hosts": ["x"], "annotations": {"a.b/c": "d"}}});
        assert_eq!(unknown_fields(&spec), Vec::<String>::new());
    }
}
