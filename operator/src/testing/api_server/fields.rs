//! Field ownership of server-side apply: the owner of each field, and the changes of an apply. Lists and selectors are
//! owned as a whole.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Paths of leaves. A leaf is an empty map, a map that is owned as a whole, or any value that is not a map.
type Paths = BTreeSet<Vec<String>>;

/// The field manager of a write, with the operation and the subresource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    pub(super) operation: &'static str,
    pub(super) subresource: Option<&'a str>,
}

/// Fields of the metadata that no manager owns.
const SYSTEM: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// Maps that are owned as a whole.
const WHOLE: [&str; 2] = ["matchLabels", "nodeSelector"];

/// Applies the wanted fields to the live object. Unless forced, fails with the managers that own one of these fields
/// with another value.
pub(super) fn apply(
    live: &mut Value,
    wanted: &Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<(), Vec<String>> {
    let wanted = ownable(wanted);
    let mut new = Paths::new();
    collect(&wanted, &mut Vec::new(), &mut new);
    let mut entries = entries(live);
    let mut opponents = Vec::new();
    for (entry, paths) in entries
        .iter_mut()
        .filter(|(entry, _)| !is_of(entry, writer))
    {
        let contested: Paths = paths
            .iter()
            .filter(|path| new.contains(*path) && get(live, path) != get(&wanted, path))
            .cloned()
            .collect();
        if !contested.is_empty() {
            opponents.push(entry["manager"].as_str().unwrap_or_default().to_owned());
            paths.retain(|path| !contested.contains(path));
        }
    }
    if !force && !opponents.is_empty() {
        return Err(opponents);
    }
    let dropped = entries
        .iter()
        .filter(|(entry, _)| is_of(entry, writer))
        .flat_map(|(_, paths)| paths.difference(&new).cloned());
    let foreign: Paths = entries
        .iter()
        .filter(|(entry, _)| !is_of(entry, writer))
        .flat_map(|(_, paths)| paths.clone())
        .collect();
    for path in dropped
        .filter(|path| !foreign.contains(path))
        .collect::<Vec<_>>()
    {
        remove(live, &path);
    }
    merge(live, &wanted);
    entries.retain(|(entry, _)| !is_of(entry, writer));
    entries.push((entry_of(live, writer), new));
    store(live, entries);
    Ok(())
}

/// Makes a writer the owner of every field in which the new object differs from the old one.
pub(super) fn update(old: &Value, new: &mut Value, writer: Writer<'_>) {
    let (before, after) = (ownable(old), ownable(new));
    let (mut was, mut is) = (Paths::new(), Paths::new());
    collect(&before, &mut Vec::new(), &mut was);
    collect(&after, &mut Vec::new(), &mut is);
    let changed: Paths = is
        .iter()
        .filter(|path| get(&before, path) != get(&after, path))
        .cloned()
        .collect();
    let mut entries = entries(old);
    for (_, paths) in &mut entries {
        paths.retain(|path| is.contains(path) && !changed.contains(path));
    }
    match entries.iter_mut().find(|(entry, _)| is_of(entry, writer)) {
        Some((_, paths)) => paths.extend(changed),
        None => entries.push((entry_of(new, writer), changed)),
    }
    store(new, entries);
}

/// Returns the object without system fields and without nulls.
fn ownable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !SYSTEM.contains(&key.as_str()));
    }
    strip_nulls(&mut object);
    object
}

fn strip_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(strip_nulls);
    }
}

fn collect(value: &Value, path: &mut Vec<String>, paths: &mut Paths) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !is_whole(path.last()) => {
            for (key, value) in fields {
                path.push(key.clone());
                collect(value, path, paths);
                path.pop();
            }
        }
        // The object itself and its metadata have no owner.
        _ if path.is_empty() || (path.len() == 1 && path[0] == "metadata") => {}
        _ => {
            paths.insert(path.clone());
        }
    }
}

fn is_whole(key: Option<&String>) -> bool {
    key.is_some_and(|key| WHOLE.contains(&key.as_str()))
}

fn get<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Removes a leaf and the maps that it leaves empty.
fn remove(value: &mut Value, path: &[String]) {
    let (Some(fields), Some((first, rest))) = (value.as_object_mut(), path.split_first()) else {
        return;
    };
    if rest.is_empty() {
        fields.remove(first);
    } else if let Some(child) = fields.get_mut(first) {
        remove(child, rest);
        if child.as_object().is_some_and(Map::is_empty) {
            fields.remove(first);
        }
    }
}

fn merge(live: &mut Value, wanted: &Value) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let live = live.entry(key.clone()).or_insert(Value::Null);
                if is_whole(Some(key)) {
                    *live = value.clone();
                } else {
                    merge(live, value);
                }
            }
        }
        (live, wanted) => *live = wanted.clone(),
    }
}

fn entries(object: &Value) -> Vec<(Value, Paths)> {
    let listed = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let parse = |entry: Value| {
        let mut paths = Paths::new();
        from_fields(&entry["fieldsV1"], &mut Vec::new(), &mut paths);
        (entry, paths)
    };
    listed.into_iter().map(parse).collect()
}

fn store(object: &mut Value, entries: Vec<(Value, Paths)>) {
    let render = |(mut entry, paths): (Value, Paths)| {
        entry["fieldsV1"] = to_fields(&paths);
        entry
    };
    let mut listed: Vec<Value> = entries
        .into_iter()
        .filter(|(_, paths)| !paths.is_empty())
        .map(render)
        .collect();
    // A fixed order, so that a write without effect leaves the object as it was.
    listed.sort_by_key(|entry| {
        [
            &entry["manager"],
            &entry["operation"],
            &entry["subresource"],
        ]
        .map(Value::to_string)
    });
    object["metadata"]["managedFields"] = Value::Array(listed);
}

fn entry_of(object: &Value, writer: Writer<'_>) -> Value {
    let mut entry = json!({
        "manager": writer.manager,
        "operation": writer.operation,
        "apiVersion": object["apiVersion"],
        "fieldsType": "FieldsV1",
    });
    if let Some(subresource) = writer.subresource {
        entry["subresource"] = Value::from(subresource);
    }
    entry
}

fn is_of(entry: &Value, writer: Writer<'_>) -> bool {
    entry["manager"] == writer.manager
        && entry["operation"] == writer.operation
        && entry["subresource"].as_str() == writer.subresource
}

fn to_fields(paths: &Paths) -> Value {
    let mut fields = json!({});
    for path in paths {
        let mut place = &mut fields;
        for key in path {
            place = &mut place[format!("f:{key}")];
            if place.is_null() {
                *place = json!({});
            }
        }
    }
    fields
}

fn from_fields(fields: &Value, path: &mut Vec<String>, paths: &mut Paths) {
    let Some(fields) = fields.as_object() else {
        return;
    };
    if fields.is_empty() {
        paths.insert(path.clone());
    }
    for (key, value) in fields {
        path.push(key.trim_start_matches("f:").to_owned());
        from_fields(value, path, paths);
        path.pop();
    }
}
