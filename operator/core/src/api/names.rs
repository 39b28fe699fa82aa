//! Patterns of the names in references to other objects, as Kubernetes has them for the objects themselves.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Name of a Secret, a ConfigMap or a class: a DNS subdomain (RFC 1123).
pub(super) const OBJECT: &str =
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Name of a namespace or of a class of operators: a DNS label (RFC 1123).
pub(super) const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Code of a short link, or its beginning.
pub(super) const CODE: &str = "^[A-Za-z0-9_-]+$";
/// Key in the data of a Secret or a ConfigMap.
pub(super) const KEY: &str = "^[-._a-zA-Z0-9]+$";

/// Returns the schema of a list of references to objects in the stack's namespace.
pub(super) fn references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 253, "pattern": OBJECT}},
        },
    })
}

#[cfg(test)]
mod tests {
    use kube_core::CustomResourceExt;
    use serde_json::Value;

    use super::*;
    use crate::api::ShortenerStack;

    /// Fields that hold the name of another object.
    fn is_name(path: &str) -> bool {
        let ends = [
            "SecretName",
            "secretName",
            "sectionName",
            "ClassName",
            "Ref.name",
            "imagePullSecrets[].name",
        ];
        ends.iter().any(|end| path.ends_with(end))
    }

    /// Fields that hold the name of a namespace.
    fn is_namespace(path: &str) -> bool {
        path.ends_with("Ref.namespace") || path.ends_with("allowedNamespaces[].name")
    }

    /// Fields that hold a key of another object's data.
    fn is_key(path: &str) -> bool {
        path.ends_with("Ref.key")
    }

    /// Collects the path and the schema of every field of ours. The types of Kubernetes, which come without
    /// descriptions, are left out, except in the list of references.
    fn fields(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        found.push((path.to_owned(), schema.clone()));
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if !["allowFrom", "scrapeFrom"].contains(&name.as_str()) {
                fields(&format!("{path}.{name}"), field, found);
            }
        }
        if schema["items"].is_object() {
            fields(&format!("{path}[]"), &schema["items"], found);
        }
    }

    #[test]
    fn every_reference_has_the_pattern_of_the_name_that_it_holds() {
        let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut found = Vec::new();
        fields("spec", &schema["spec"], &mut found);
        let mut names = 0;
        for (path, field) in found {
            let (pattern, length) = if is_name(&path) {
                (OBJECT, 253)
            } else if is_key(&path) {
                (KEY, 253)
            } else if is_namespace(&path) {
                (NAMESPACE, 63)
            } else {
                continue;
            };
            names += 1;
            assert_eq!(field["pattern"], pattern, "{path}");
            assert_eq!(field["maxLength"], length, "{path}");
        }
        assert!(names > 20, "only {names} references were found");
    }
}
