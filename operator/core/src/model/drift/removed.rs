//! Fields that a server-side apply removes: those that the operator owns and no longer renders.
//!
//! Of a field that is owned as a whole, [`super::differences`] finds what is left over.

use serde_json::Value;

use super::{FieldChange, FieldPath, is_empty};
use crate::model::metadata::{APPLIED_HASH, FIELD_MANAGER};

/// Returns the fields of `live` that its `managedFields` give to the operator alone and `rendered` lacks. One that another
/// manager owns as well stays, such as the number of pods that an autoscaler sets.
pub fn removed(live: &Value, rendered: &Value) -> Vec<FieldChange> {
    let (mut own, mut of_others) = (Vec::new(), Vec::new());
    let entries = live["metadata"]["managedFields"].as_array();
    for entry in entries.into_iter().flatten() {
        let found = if is_own(entry) {
            &mut own
        } else {
            &mut of_others
        };
        walk(live, rendered, &entry["fieldsV1"], &FieldPath::Root, found);
    }
    own.retain(|change| !of_others.contains(change));
    own
}

fn is_own(entry: &Value) -> bool {
    entry["manager"] == FIELD_MANAGER
        && entry["operation"] == "Apply"
        && entry["subresource"].as_str().is_none_or(str::is_empty)
}

/// Compares what is owned below a field. The keys of `owned` begin with `f:` for a field, `k:` for an item with these
/// keys and `v:` for an item of a set; `.` is the field itself.
fn walk(
    live: &Value,
    rendered: &Value,
    owned: &Value,
    path: &FieldPath<'_>,
    found: &mut Vec<FieldChange>,
) {
    for (key, below) in owned.as_object().into_iter().flatten() {
        match key.split_once(':') {
            Some(("f", name)) => field((live, rendered), (name, below), path, found),
            Some(("k", keys)) => item((live, rendered), (keys, below), path, found),
            Some(("v", value)) => member(live, rendered, value, path, found),
            _ => {}
        }
    }
}

fn field(
    (live, rendered): (&Value, &Value),
    (name, below): (&str, &Value),
    path: &FieldPath<'_>,
    found: &mut Vec<FieldChange>,
) {
    // `apply` adds the hash to what was rendered.
    let Some(now) = live
        .get(name)
        .filter(|now| !is_empty(now) && name != APPLIED_HASH)
    else {
        return;
    };
    let path = FieldPath::Field(path, name);
    let wanted = rendered.get(name).filter(|wanted| !wanted.is_null());
    match wanted {
        None if is_leaf(below) => found.push(path.change(Some(now), None)),
        Some(_) if is_leaf(below) => {}
        wanted => walk(now, wanted.unwrap_or(&Value::Null), below, &path, found),
    }
}

fn item(
    (live, rendered): (&Value, &Value),
    (keys, below): (&str, &Value),
    path: &FieldPath<'_>,
    found: &mut Vec<FieldChange>,
) {
    let Ok(Value::Object(keys)) = serde_json::from_str::<Value>(keys) else {
        return;
    };
    // What is rendered may leave out a key that has a default, such as the protocol of a port.
    let is_it = |item: &&Value| {
        let mut keys = keys.iter();
        keys.all(|(key, value)| item.get(key).is_none_or(|found| found == value))
    };
    let find = |list: &Value| {
        list.as_array()
            .and_then(|list| list.iter().find(is_it).cloned())
    };
    let Some(now) = find(live) else { return };
    let label: Vec<String> = keys.values().map(text).collect();
    let label = label.join(",");
    let path = FieldPath::Item(path, &label);
    match find(rendered) {
        None => found.push(path.change(Some(&now), None)),
        Some(wanted) => walk(&now, &wanted, below, &path, found),
    }
}

fn member(
    live: &Value,
    rendered: &Value,
    value: &str,
    path: &FieldPath<'_>,
    found: &mut Vec<FieldChange>,
) {
    let Ok(value) = serde_json::from_str::<Value>(value) else {
        return;
    };
    let has = |list: &Value| list.as_array().is_some_and(|list| list.contains(&value));
    if has(live) && !has(rendered) {
        found.push(FieldPath::Item(path, &text(&value)).change(Some(&value), None));
    }
}

/// Returns true when nothing below the field is owned apart from it.
fn is_leaf(owned: &Value) -> bool {
    let mut keys = owned.as_object().into_iter().flat_map(|owned| owned.keys());
    keys.all(|key| key == ".")
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned(object: Value, fields: Value) -> Value {
        let mut object = object;
        object["metadata"] = json!({"managedFields": [
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:theirs": {}}}},
            {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields},
            {
                "manager": FIELD_MANAGER, "operation": "Apply", "subresource": "status",
                "fieldsV1": {"f:status": {}},
            },
        ]});
        object
    }

    fn paths(live: &Value, rendered: &Value) -> Vec<String> {
        removed(live, rendered)
            .into_iter()
            .map(|change| change.path)
            .collect()
    }

    #[test]
    fn a_field_that_is_ours_and_no_longer_rendered_is_removed() {
        let live = owned(
            json!({"spec": {"ours": 1, "theirs": 2, "kept": 3, "empty": {}}, "status": {"x": 1}}),
            json!({"f:spec": {".": {}, "f:ours": {}, "f:kept": {}, "f:empty": {}}}),
        );
        assert_eq!(paths(&live, &json!({"spec": {"kept": 3}})), ["spec.ours"]);
        assert_eq!(paths(&live, &json!({})), ["spec.kept", "spec.ours"]);
    }

    #[test]
    fn a_field_that_another_manager_owns_as_well_stays() {
        let mut live = owned(
            json!({"spec": {"replicas": 5, "paused": true}}),
            json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}),
        );
        let autoscaler = json!({
            "manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        });
        let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
        entries.push(autoscaler);
        assert_eq!(paths(&live, &json!({"spec": {}})), ["spec.paused"]);
    }

    #[test]
    fn an_item_of_a_list_is_known_by_its_keys() {
        let live = owned(
            json!({"spec": {
                "env": [{"name": "A", "value": "x"}, {"name": "B", "value": "y"}, {"name": "C"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "finalizers": ["a", "b"],
            }}),
            json!({"f:spec": {
                "f:env": {
                    "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}},
                    "k:{\"name\":\"B\"}": {".": {}, "f:name": {}, "f:value": {}},
                },
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                "f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}},
            }}),
        );
        let rendered = json!({"spec": {
            "env": [{"name": "A"}], "ports": [{"containerPort": 80}], "finalizers": ["b"],
        }});
        let expected = ["spec.env[A].value", "spec.env[B]", "spec.finalizers[a]"];
        assert_eq!(paths(&live, &rendered), expected);
    }

    #[test]
    fn the_hash_of_what_was_applied_stays() {
        let mut live = owned(
            json!({}),
            json!({"f:metadata": {"f:annotations": {"f:shortener.dev/applied-hash": {}}}}),
        );
        live["metadata"]["annotations"] = json!({APPLIED_HASH: "0"});
        assert_eq!(removed(&live, &json!({"metadata": {"name": "a"}})), []);
    }
}
