//! Detection of drift by value: compares a live object with everything that was rendered.
//!
//! It runs once for each child after a start, while the ledger has no record of the child. A restart must neither
//! write unchanged objects nor overlook edits made in the meantime.

use serde_json::Value;

/// Returns true when every field of `rendered` is in `live` with the same value. Fields that only `live` has do not
/// matter: they are defaults of the API server or belong to other managers. List items are matched by `name` if all
/// rendered items have one, and by position otherwise.
pub fn covers(live: &Value, rendered: &Value) -> bool {
    match (live, rendered) {
        (Value::Object(live), Value::Object(rendered)) => rendered.iter().all(|(key, value)| {
            live.get(key)
                .map_or_else(|| is_empty(value), |found| covers(found, value))
        }),
        (Value::Array(live), Value::Array(rendered)) => {
            if rendered.iter().all(|item| name_of(item).is_some()) {
                rendered.iter().all(|item| {
                    live.iter()
                        .any(|found| name_of(found) == name_of(item) && covers(found, item))
                })
            } else {
                live.len() == rendered.len()
                    && live
                        .iter()
                        .zip(rendered)
                        .all(|(found, item)| covers(found, item))
            }
        }
        (live, rendered) => live == rendered,
    }
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
    fn what_the_api_server_leaves_out_is_no_drift() {
        assert!(covers(
            &json!({}),
            &json!({"env": [], "value": "", "paused": false, "emptyDir": {}})
        ));
    }
}
