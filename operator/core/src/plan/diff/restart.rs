//! The workloads whose pods restart, because their pod template changes, or end.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Changes, ChildName, LiveChildren, rendered::Rendered};
use crate::model::{drift::FieldChange, metadata::CONFIG_CHECKSUM};

/// Path of the pod template in every kind of workload.
const TEMPLATE: &str = "spec.template.";

/// A workload whose pods restart or end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// The workload.
    #[serde(flatten)]
    pub child: ChildName,
    /// Number of pods that it has now.
    pub pods: i64,
    /// Reasons, as sentences.
    pub reasons: Vec<String>,
}

/// Returns the workloads whose pods restart or end. One without pods has nothing to restart.
pub(super) fn restarts(
    rendered: &[Rendered],
    live: &LiveChildren,
    changes: &Changes,
) -> Vec<Restart> {
    let restart = |changed: &super::ChangedChild| {
        let in_template = |path: &&str| path.starts_with(TEMPLATE);
        let paths = changed.fields.iter().map(|field| field.path.as_str());
        let paths: Vec<&str> = paths.filter(in_template).collect();
        let now = live.get(&changed.child)?;
        let pods = now["spec"]["replicas"].as_i64().unwrap_or(1);
        let stops = changed.fields.iter().any(stops);
        if pods == 0 || paths.is_empty() && !stops {
            return None;
        }
        if stops {
            return Some(Restart {
                child: changed.child.clone(),
                pods,
                reasons: vec!["spec.replicas becomes 0, so the pods end".to_owned()],
            });
        }
        let mut same = rendered.iter();
        let template = &same.find(|child| child.child == changed.child)?.object["spec"]["template"];
        let reason = |path: &str| match path.contains(CONFIG_CHECKSUM) {
            true => of_checksum(template, changes),
            false => format!("{} changes", path.trim_start_matches(TEMPLATE)),
        };
        Some(Restart {
            child: changed.child.clone(),
            pods,
            reasons: paths.into_iter().map(reason).collect(),
        })
    };
    changes.changed.iter().filter_map(restart).collect()
}

fn stops(field: &FieldChange) -> bool {
    field.path == "spec.replicas" && field.after == Some(Value::from(0))
}

/// Names the objects from which the checksum of a pod template is made: those that change now, if there are any.
fn of_checksum(template: &Value, changes: &Changes) -> String {
    let mut used = BTreeSet::new();
    references(&template["spec"], &mut used);
    let written = |child: &&ChildName| {
        let mut changed = changes.changed.iter().map(|changed| &changed.child);
        changes.created.contains(child) || changed.any(|changed| changed == *child)
    };
    let now: Vec<String> = used
        .iter()
        .filter(written)
        .map(ToString::to_string)
        .collect();
    if !now.is_empty() {
        return format!("the pods use {}, which this plan writes", now.join(", "));
    }
    let used: Vec<String> = used.iter().map(ToString::to_string).collect();
    format!(
        "the content of what the pods use has changed: one of {}",
        used.join(", ")
    )
}

/// Collects the Secrets and ConfigMaps to which a pod refers, in its environment and in its volumes.
fn references(value: &Value, found: &mut BTreeSet<ChildName>) {
    let children: Vec<&Value> = match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let kind = match key.as_str() {
                    "secret" | "secretRef" | "secretKeyRef" => "Secret",
                    "configMap" | "configMapRef" | "configMapKeyRef" => "ConfigMap",
                    _ => continue,
                };
                let name = field.get("secretName").or_else(|| field.get("name"));
                found.extend(name.and_then(Value::as_str).map(|name| ChildName {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                }));
            }
            fields.values().collect()
        }
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    for child in children {
        references(child, found);
    }
}
