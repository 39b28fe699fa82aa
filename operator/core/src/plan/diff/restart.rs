//! The objects whose pods restart or end, with the reasons.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{
    ChangedChild, Changes, ChildName, LiveChildren,
    pods::{Fate, fate},
    rendered::Rendered,
};
use crate::model::metadata::CONFIG_CHECKSUM;

/// Beginning of the paths in a pod template.
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
    let changed = changes.changed.iter().map(|changed| {
        let ChangedChild { child, fields } = changed;
        (child, Some(fields.as_slice()))
    });
    let deleted = changes.deleted.iter().map(|child| (child, None));
    let restart = |(child, fields): (&ChildName, _)| {
        let Fate {
            pods,
            end,
            restarting,
        } = fate(&child.kind, live.get(child)?, fields)?;
        let reason = |path: &str| match path.contains(CONFIG_CHECKSUM) {
            true => of_checksum(child, rendered, changes),
            false => format!("{} changes", path.strip_prefix(TEMPLATE).unwrap_or(path)),
        };
        Some(Restart {
            child: child.clone(),
            pods,
            reasons: end
                .into_iter()
                .chain(restarting.into_iter().map(reason))
                .collect(),
        })
    };
    changed.chain(deleted).filter_map(restart).collect()
}

/// Names the objects from which the checksum in a workload's pod template is made: those that change now, if there are any.
fn of_checksum(workload: &ChildName, rendered: &[Rendered], changes: &Changes) -> String {
    let mut used = BTreeSet::new();
    for same in rendered.iter().filter(|same| same.child == *workload) {
        references(&same.object["spec"]["template"]["spec"], &mut used);
    }
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
