//! Detection of drift by value: compares a live object with everything that was rendered.
//!
//! `apply` writes a child that differs, and a plan names each field. A field that is not rendered belongs to others, so one
//! whose absence protects is rendered with its value: an empty list, `false` or 0.

mod path;
mod removed;

use serde::Serialize;
use serde_json::Value;

use super::quantity;
use path::FieldPath;

pub use removed::removed;

/// A field of an object that a write changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Path of the field; an item of a list stands in brackets, by its name or its place.
    pub path: String,
    /// Live value; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Value after the write; `None` if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Returns the fields of `rendered` that `live` lacks or has with another value.
///
/// Fields that only `live` has do not matter: they are defaults of the API server or belong to other managers. Selectors and
/// most lists have no other manager, so there they do, but in an item of a list only if they are lists themselves: a default
/// is none. List items are matched by `name` if all rendered items have one, and by position otherwise.
pub fn differences(live: &Value, rendered: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(live, rendered, FieldPath::Root, &mut found);
    found
}

fn compare(live: &Value, rendered: &Value, path: FieldPath<'_>, found: &mut Vec<FieldChange>) {
    match (live, rendered) {
        (Value::Object(live), Value::Object(rendered)) => {
            for (key, value) in rendered {
                let path = FieldPath::Field(&path, key);
                match live.get(key) {
                    Some(now) => compare(now, value, path, found),
                    None if is_empty(value) => {}
                    None => found.push(path.change(None, Some(value))),
                }
            }
            let added = live.iter().filter(|(key, now)| {
                !rendered.contains_key(*key) && !is_empty(now) && path.forbids(now)
            });
            found.extend(
                added.map(|(key, now)| FieldPath::Field(&path, key).change(Some(now), None)),
            );
        }
        (Value::Array(live), Value::Array(rendered))
            if are_named(rendered) && (path.is_shared() || live.len() == rendered.len()) =>
        {
            for item in rendered {
                compare_named(live, item, &path, found);
            }
        }
        (Value::Array(items), Value::Array(wanted)) if items.len() == wanted.len() => {
            for (place, (now, value)) in items.iter().zip(wanted).enumerate() {
                compare(now, value, FieldPath::Place(&path, place), found);
            }
        }
        (live, rendered) if live == rendered || is_same_amount(live, rendered, path) => {}
        (live, rendered) => found.push(path.change(Some(live), Some(rendered))),
    }
}

/// Compares an item with those of the same name. Names can repeat, so one of them is enough.
fn compare_named(live: &[Value], item: &Value, path: &FieldPath<'_>, found: &mut Vec<FieldChange>) {
    let path = FieldPath::Item(path, name_of(item).unwrap_or_default());
    let namesakes = || live.iter().filter(move |now| name_of(now) == name_of(item));
    match namesakes().next() {
        None => found.push(path.change(None, Some(item))),
        Some(first) => {
            let differences = |now| {
                let mut found = Vec::new();
                compare(now, item, path, &mut found);
                found
            };
            if !namesakes().any(|now| differences(now).is_empty()) {
                found.extend(differences(first));
            }
        }
    }
}

/// Returns true for two spellings of one quantity, because the API server stores its own: `500m` for `0.5`.
fn is_same_amount(live: &Value, rendered: &Value, path: FieldPath<'_>) -> bool {
    match (live, rendered) {
        (Value::String(live), Value::String(rendered)) => {
            path.is_quantity() && quantity::is_same(live, rendered)
        }
        _ => false,
    }
}

fn are_named(items: &[Value]) -> bool {
    items.iter().all(|item| name_of(item).is_some())
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Returns true for a value that the API server omits because it is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Number(number) => number.as_i64() == Some(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn covers(live: &Value, rendered: &Value) -> bool {
        differences(live, rendered).is_empty()
    }

    #[test]
    fn defaults_and_foreign_fields_are_not_drift() {
        let live =
            json!({"spec": {"replicas": 2, "strategy": {"type": "RollingUpdate"}}, "status": {}});
        assert!(covers(&live, &json!({"spec": {"replicas": 2}})));
    }

    #[test]
    fn a_changed_removed_or_emptied_field_is_drift() {
        let rendered = json!({"spec": {"replicas": 2, "selector": {"a": "b"}}});
        assert!(!covers(
            &json!({"spec": {"replicas": 3, "selector": {"a": "b"}}}),
            &rendered
        ));
        assert!(!covers(&json!({"spec": {"replicas": 2}}), &rendered));
        assert!(!covers(&json!({}), &rendered));
    }

    #[test]
    fn named_items_are_matched_by_name_and_others_by_place() {
        let live = json!([{"name": "b", "v": 2}, {"name": "a", "v": 1, "default": true}]);
        assert!(covers(
            &live,
            &json!([{"name": "a", "v": 1}, {"name": "b", "v": 2}])
        ));
        assert!(!covers(&live, &json!([{"name": "a", "v": 9}])));
        assert!(!covers(&json!([1, 2, 3]), &json!([1, 2])));
    }

    #[test]
    fn each_difference_is_named_with_both_values() {
        let live = json!({
            "metadata": {"annotations": {"a.b/c": "1"}},
            "spec": {"replicas": 2, "env": [{"name": "A", "value": "x"}], "args": ["a", "b"]},
        });
        let rendered = json!({
            "metadata": {"annotations": {"a.b/c": "2"}},
            "spec": {
                "replicas": 2,
                "env": [{"name": "A", "value": "y"}, {"name": "B", "value": "z"}],
                "args": ["a", "c"],
            },
        });
        let change = |path: &str, before: Value, after: Value| FieldChange {
            path: path.to_owned(),
            before: (!before.is_null()).then_some(before),
            after: Some(after),
        };
        let expected = [
            change("metadata.annotations[a.b/c]", json!("1"), json!("2")),
            change("spec.args[1]", json!("b"), json!("c")),
            change("spec.env[A].value", json!("x"), json!("y")),
            change(
                "spec.env[B]",
                Value::Null,
                json!({"name": "B", "value": "z"}),
            ),
        ];
        assert_eq!(differences(&live, &rendered), expected);
    }

    #[test]
    fn another_spelling_of_a_quantity_is_no_drift() {
        let resources = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}, "cpu": "0.5"});
        assert!(covers(&resources("500m"), &resources("0.5")));
        assert!(!covers(&resources("500m"), &resources("0.6")));
        let label = |value: &str| json!({"labels": {"cpu": value}});
        assert!(!covers(&label("500m"), &label("0.5")));
    }

    #[test]
    fn what_is_added_to_a_selector_a_list_or_an_empty_value_is_drift() {
        let rendered = json!({
            "ingress": [], "partition": 0,
            "nodeSelector": {"zone": "a"},
            "rules": [{"ports": [{"port": 8080}]}],
            "backendRefs": [{"name": "app"}],
            "env": [{"name": "A", "value": "x"}],
        });
        assert!(covers(
            &json!({
                "partition": 0,
                "nodeSelector": {"zone": "a"},
                "rules": [{"ports": [{"port": 8080, "protocol": "TCP"}], "name": "x", "from": []}],
                "backendRefs": [{"name": "app", "weight": 1}],
                "env": [{"name": "A", "value": "x"}, {"name": "B", "value": "y"}],
            }),
            &rendered
        ));
        let added = json!({
            "ingress": [{}], "partition": 3,
            "nodeSelector": {"disk": "ssd", "zone": "a"},
            "rules": [{"from": [{"podSelector": {}}], "ports": [{"port": 8080}]}],
            "backendRefs": [{"name": "app"}, {"name": "other"}],
            "env": [{"name": "A", "value": "x"}],
        });
        let found = differences(&added, &rendered).into_iter();
        let mut paths: Vec<String> = found.map(|change| change.path).collect();
        paths.sort();
        let expected = [
            "backendRefs",
            "ingress",
            "nodeSelector.disk",
            "partition",
            "rules[0].from",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn what_the_api_server_leaves_out_is_no_drift() {
        assert!(covers(
            &json!({}),
            &json!({"env": [], "value": "", "paused": false, "emptyDir": {}})
        ));
    }
}
