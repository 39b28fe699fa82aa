//! Fields that a server-side apply removes: those that the operator owns and no longer renders.
//!
//! Within a list that is owned as a whole, items are compared by their names, or by their places if they have none. The
//! API server fills in defaults there, which nothing tells from fields that were rendered once, so only lists count, such as
//! the peers of a NetworkPolicy: a default is no list.

use serde_json::Value;

use super::{FieldChange, FieldPath, are_named, is_empty, name_of};
use crate::model::metadata::{APPLIED_HASH, FIELD_MANAGER};

/// Fields that the API server fills in within an object that is owned as a whole. `matches` is the list of an HTTPRoute.
const DEFAULTED: [&str; 3] = ["apiVersion", "divisor", "matches"];

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
        Some(wanted) if is_leaf(below) => left_over(now, wanted, &path, false, found),
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

/// Compares a field that is owned as a whole.
fn left_over(
    now: &Value,
    wanted: &Value,
    path: &FieldPath<'_>,
    in_list: bool,
    found: &mut Vec<FieldChange>,
) {
    match (now, wanted) {
        (Value::Array(now), Value::Array(wanted)) if are_named(wanted) => {
            for (place, item) in now.iter().enumerate() {
                let path = match name_of(item) {
                    Some(name) => FieldPath::Item(path, name),
                    None => FieldPath::Place(path, place),
                };
                match wanted
                    .iter()
                    .find(|wanted| name_of(wanted) == name_of(item))
                {
                    None => found.push(path.change(Some(item), None)),
                    Some(wanted) => left_over(item, wanted, &path, true, found),
                }
            }
        }
        (Value::Array(now), Value::Array(wanted)) if now.len() == wanted.len() => {
            for (place, (now, wanted)) in now.iter().zip(wanted).enumerate() {
                left_over(now, wanted, &FieldPath::Place(path, place), true, found);
            }
        }
        (Value::Object(now), Value::Object(wanted)) => {
            for (key, now) in now {
                let path = FieldPath::Field(path, key);
                match wanted.get(key) {
                    Some(wanted) => left_over(now, wanted, &path, in_list, found),
                    None if in_list && !now.is_array() => {}
                    None if is_empty(now) || DEFAULTED.contains(&key.as_str()) => {}
                    None => found.push(path.change(Some(now), None)),
                }
            }
        }
        _ => {}
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
    fn of_a_field_that_is_owned_as_a_whole_the_rest_is_removed_but_not_what_the_server_filled_in() {
        let live = owned(
            json!({"spec": {
                "nodeSelector": {"disk": "ssd", "zone": "a"},
                "fieldRef": {"apiVersion": "v1", "fieldPath": "x"},
                "containers": [{"name": "app", "image": "a", "pull": "Always", "env": [{"name": "A"}]}],
            }}),
            json!({"f:spec": {"f:nodeSelector": {}, "f:fieldRef": {}, "f:containers": {}}}),
        );
        let rendered = json!({"spec": {
            "nodeSelector": {"zone": "a"},
            "fieldRef": {"fieldPath": "x"},
            "containers": [{"name": "app", "image": "a", "env": []}],
        }});
        let expected = ["spec.containers[app].env[A]", "spec.nodeSelector.disk"];
        assert_eq!(paths(&live, &rendered), expected);
    }

    #[test]
    fn a_list_that_goes_from_an_item_without_a_name_is_removed() {
        let live = owned(
            json!({"spec": {"ingress": [
                {"from": [{"podSelector": {}}], "ports": [{"port": 8080, "protocol": "TCP"}]},
                {"ports": [{"port": 9090, "protocol": "TCP"}]},
            ]}}),
            json!({"f:spec": {"f:ingress": {}}}),
        );
        let rendered = json!({"spec": {"ingress": [
            {"ports": [{"port": 8080}]},
            {"ports": [{"port": 9090}]},
        ]}});
        assert_eq!(paths(&live, &rendered), ["spec.ingress[0].from"]);
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
