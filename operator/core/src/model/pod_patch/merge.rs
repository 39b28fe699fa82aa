//! The merge of changes into a pod template, with the rules of Kubernetes' strategic merge patch.

use serde_json::{Map, Value};

/// Field with an instruction for the object that it stands in: [`REPLACE`], [`DELETE`] or [`MERGE`].
pub(super) const DIRECTIVE: &str = "$patch";
/// The object replaces ours.
pub(super) const REPLACE: &str = "replace";
/// Ours is removed.
pub(super) const DELETE: &str = "delete";
/// The object is merged into ours, as without an instruction.
pub(super) const MERGE: &str = "merge";

/// Merges changes into an object.
pub(super) fn merge(ours: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (field, change) in changes.iter().filter(|(field, _)| *field != DIRECTIVE) {
        if let Some(value) = changed(field, ours.remove(field), change) {
            ours.insert(field.clone(), value);
        }
    }
}

/// Returns the field by which the items of a list are merged; `None` for a list that is replaced as a whole.
pub(super) fn key(list: &str) -> Option<&'static str> {
    match list {
        "claims"
        | "containers"
        | "env"
        | "ephemeralContainers"
        | "imagePullSecrets"
        | "initContainers"
        | "resourceClaims"
        | "schedulingGates"
        | "volumes" => Some("name"),
        "hostAliases" => Some("ip"),
        "ports" => Some("containerPort"),
        "topologySpreadConstraints" => Some("topologyKey"),
        "volumeDevices" => Some("devicePath"),
        "volumeMounts" => Some("mountPath"),
        _ => None,
    }
}

/// Returns the text by which an item is told from the others of a list; `None` without a key.
pub(super) fn identity(list: &str, item: &Value) -> Option<String> {
    let value = item.get(key(list)?).filter(|value| !value.is_null())?;
    // A port can be open for several protocols.
    let protocol = item.get("protocol").and_then(Value::as_str);
    Some(match list {
        "ports" => format!("{value}/{}", protocol.unwrap_or("TCP")),
        _ => value.to_string(),
    })
}

/// Returns the value of a field after a change; `None` when it is gone.
fn changed(field: &str, ours: Option<Value>, change: &Value) -> Option<Value> {
    match change {
        Value::Null => None,
        Value::Array(items) => list(field, ours, items),
        Value::Object(fields) => object(ours, fields),
        scalar => Some(scalar.clone()),
    }
}

fn object(ours: Option<Value>, changes: &Map<String, Value>) -> Option<Value> {
    let directive = changes.get(DIRECTIVE).and_then(Value::as_str);
    let mut merged = match (directive, ours) {
        (Some(DELETE), _) => return None,
        (Some(REPLACE), _) => Map::new(),
        (_, Some(Value::Object(ours))) => ours,
        _ => Map::new(),
    };
    merge(&mut merged, changes);
    Some(Value::Object(merged))
}

/// Returns a list after a change. The API server does not store an empty one.
fn list(field: &str, ours: Option<Value>, changes: &[Value]) -> Option<Value> {
    let merged = match (key(field), ours) {
        (Some(_), Some(Value::Array(ours))) => keyed(field, ours, changes),
        _ => keyed(field, Vec::new(), changes),
    };
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// Merges the items of a list by their key. New ones follow ours, except init containers: those run first, so that
/// migrations can use a proxy that is one of them.
fn keyed(field: &str, mut ours: Vec<Value>, changes: &[Value]) -> Vec<Value> {
    let mut added = Vec::new();
    for change in changes {
        let wanted = identity(field, change);
        let is_same = |item: &Value| wanted.is_some() && identity(field, item) == wanted;
        let Some(place) = ours.iter().position(is_same) else {
            added.extend(changed(field, None, change));
            continue;
        };
        let own = ours.remove(place);
        // A variable has one source, so that of ours must not stay beside the user's.
        let own = (field != "env").then_some(own);
        if let Some(item) = changed(field, own, change) {
            ours.insert(place, item);
        }
    }
    if field == "initContainers" {
        added.extend(ours);
        return added;
    }
    ours.extend(added);
    ours
}
