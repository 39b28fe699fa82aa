//! The likeness of two stacks: their children are equal but for what chance, time and their names decide.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::{APPLIED_HASH, CONFIG_CHECKSUM, RECORD};

use crate::harness::{Child, Stack, await_condition, children_of};

/// Number of children of the smallest stack. Fewer prove that it is not built yet.
const FEWEST: usize = 20;

/// Fields that the API server, its controllers, or random credentials decide, wherever they are.
const BY_CHANCE: [&str; 13] = [
    APPLIED_HASH,
    CONFIG_CHECKSUM,
    "creationTimestamp",
    "deployment.kubernetes.io/revision",
    "generation",
    "healthCheckNodePort",
    "managedFields",
    "nodePort",
    RECORD,
    "resourceVersion",
    "selfLink",
    "uid",
    "volumeName",
];

/// Waits until two stacks are alike.
pub async fn await_alike(one: &Stack, other: &Stack) -> Result<()> {
    let what = format!("stack {} has the children of {}", one.name, other.name);
    await_condition(&what, async || alike(one, other).await).await
}

/// Checks that two stacks are alike.
///
/// # Errors
/// The first difference, or too few children for a stack that is complete.
pub async fn alike(one: &Stack, other: &Stack) -> Result<()> {
    let (ours, theirs) = (children(one).await?, children(other).await?);
    ensure!(theirs.len() >= FEWEST, "only {} children", theirs.len());
    for title in ours.keys() {
        ensure!(theirs.contains_key(title), "{title} is left behind");
    }
    for (title, expected) in &theirs {
        let Some(found) = ours.get(title) else {
            bail!("{title} is missing");
        };
        if let Some(difference) = difference(found, expected, "") {
            bail!("{title}{difference}");
        }
    }
    Ok(())
}

/// Returns the children of a stack without what is by chance, by their titles.
async fn children(stack: &Stack) -> Result<BTreeMap<String, Value>> {
    let children = children_of(stack).await?;
    // The gateway's configuration contains the address of the app's Service.
    let mut names: Vec<(String, String)> = children.iter().filter_map(address).collect();
    names.sort_by_key(|(address, _)| std::cmp::Reverse(address.len()));
    names.push((stack.namespace.clone(), "NAMESPACE".to_owned()));
    names.push((stack.name.clone(), "STACK".to_owned()));
    let general = |text: String| {
        let names = names.iter();
        names.fold(text, |text, (name, general)| text.replace(name, general))
    };
    let mut alike = BTreeMap::new();
    for child in &children {
        let mut object = serde_json::to_value(&child.seen)?;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let data = object.get_mut("data").and_then(Value::as_object_mut);
        if let Some(data) = data.filter(|_| child.kind.kind == "Secret") {
            data.values_mut().for_each(|value| *value = Value::Null);
        }
        if child.kind.kind == "ConfigMap" {
            open_documents(&mut object["data"]);
        }
        reduce(&mut object);
        let object = serde_json::from_str(&general(object.to_string()))?;
        alike.insert(general(child.title()), object);
    }
    Ok(alike)
}

/// Returns the address of a Service with its name.
fn address(child: &Child) -> Option<(String, String)> {
    let address = child.seen.data.pointer("/spec/clusterIP")?.as_str()?;
    let has_one = !address.is_empty() && address != "None";
    has_one.then(|| {
        let name = child.seen.name_any();
        (address.to_owned(), format!("ADDRESS-OF-{name}"))
    })
}

/// Replaces each text that is a JSON document by that document.
fn open_documents(data: &mut Value) {
    for value in data.as_object_mut().into_iter().flatten().map(|(_, v)| v) {
        let document = value
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(document) = document.filter(Value::is_object) {
            *value = document;
        }
    }
}

/// Removes what is by chance.
fn reduce(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !BY_CHANCE.contains(&name.as_str()));
            fields.values_mut().for_each(reduce);
            // They are nothing once those by chance are gone.
            fields.retain(|name, value| name != "annotations" || *value != json!({}));
        }
        Value::Array(items) => items.iter_mut().for_each(reduce),
        _ => {}
    }
}

/// Returns the path and the values of the first difference.
fn difference(found: &Value, expected: &Value, path: &str) -> Option<String> {
    match (found, expected) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names = ours.keys().chain(theirs.keys());
            let mut names = names.map(|name| (name, format!("{path}/{name}")));
            names.find_map(|(name, path)| difference(&found[name], &expected[name], &path))
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            pairs.find_map(|(place, (one, other))| {
                difference(one, other, &format!("{path}/{place}"))
            })
        }
        _ if found == expected => None,
        _ => Some(format!("{path} is {found}, not {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_by_chance_may_differ() {
        let service = |uid: &str, port: u16, kind: &str| json!({"metadata": {"uid": uid}, "spec": {"ports": [{"nodePort": port}], "type": kind}});
        let mut one = service("a", 30001, "NodePort");
        let mut other = service("b", 30002, "NodePort");
        let mut wrong = service("c", 30003, "ClusterIP");
        for object in [&mut one, &mut other, &mut wrong] {
            reduce(object);
        }
        assert_eq!(difference(&one, &other, ""), None);
        let found = difference(&wrong, &one, "");
        let expected = r#"/spec/type is "ClusterIP", not "NodePort""#;
        assert_eq!(found.as_deref(), Some(expected));
    }
}
