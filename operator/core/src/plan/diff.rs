//! The difference between a plan and the live objects: what an apply would do to each child, which pods would restart
//! and why, and what data is at risk. Pure.
//!
//! Fields are compared as server-side apply does it: those that are rendered, and those that the operator owns and no
//! longer renders.

mod home;
mod pods;
mod rendered;
mod restart;
mod risk;
mod short;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Formatter},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use super::Plan;
use crate::model::{
    desired::Desired,
    drift::{self, FieldChange},
    kinds::{Deletion, data_name},
    metadata::{CONFIG_CHECKSUM, Component, RECORD, StackIdentity, component_name, component_of},
    ownership::{Ownership, ownership},
};
use rendered::Rendered;

pub use restart::Restart;
pub use risk::{Risk, RiskReason};

/// Text in the place of a value that is not shown.
pub const HIDDEN: &str = "(hidden)";

/// Kind and name of a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildName {
    pub kind: String,
    pub name: String,
}

impl Display for ChildName {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)
    }
}

/// The live children of a stack as JSON, with `metadata.managedFields`.
pub type LiveChildren = BTreeMap<ChildName, Value>;

/// A child that is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedChild {
    #[serde(flatten)]
    pub child: ChildName,
    pub fields: Vec<FieldChange>,
}

/// A child that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedChild {
    #[serde(flatten)]
    pub child: ChildName,
    /// Cause, and what to do.
    pub message: String,
}

/// What an apply of a plan would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    pub created: Vec<ChildName>,
    pub changed: Vec<ChangedChild>,
    pub deleted: Vec<ChildName>,
    /// Children that stay as they are.
    pub unchanged: Vec<ChildName>,
    /// Children that cannot be written.
    pub blocked: Vec<BlockedChild>,
    /// Workloads whose pods restart or end.
    pub restarts: Vec<Restart>,
    /// Data at risk.
    pub risks: Vec<Risk>,
}

impl Changes {
    /// Returns true when nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.deleted.is_empty()
    }

    /// Moves a changed child to those that cannot be written. Its pods do not restart.
    pub fn refuse(&mut self, child: ChildName, message: String) {
        self.changed.retain(|changed| changed.child != child);
        self.restarts.retain(|restart| restart.child != child);
        self.blocked.push(BlockedChild { child, message });
    }

    /// Returns true when running pods restart or end, or data is at risk.
    pub fn disturbs(&self) -> bool {
        !self.restarts.is_empty() || !self.risks.is_empty()
    }
}

/// Returns the names of the children that a plan has.
///
/// # Errors
/// A child cannot be expressed in JSON.
pub fn children(desired: &Desired) -> Result<Vec<ChildName>, serde_json::Error> {
    let rendered = rendered::children(desired)?.into_iter();
    Ok(rendered.map(|child| child.child).collect())
}

/// Returns the children that a plan has, as they are applied, without their kind.
///
/// # Errors
/// A child cannot be expressed in JSON.
pub fn objects(desired: &Desired) -> Result<BTreeMap<ChildName, Value>, serde_json::Error> {
    let rendered = rendered::children(desired)?.into_iter();
    Ok(rendered.map(|child| (child.child, child.object)).collect())
}

/// Returns what an apply of a plan would do to the live children. Values of Secrets are hidden.
///
/// # Errors
/// A child cannot be expressed in JSON.
pub fn diff(plan: &Plan, live: &LiveChildren) -> Result<Changes, serde_json::Error> {
    let identity = &plan.stack.identity;
    let rendered = rendered::children(&plan.desired)?;
    let mut changes = Changes::default();
    for child in &rendered {
        compare(child, live.get(&child.child), identity, &mut changes);
    }
    changes
        .changed
        .extend(released(&plan.desired, &rendered, live, identity));
    changes.deleted = deleted(&plan.desired, &rendered, live, identity);
    changes.restarts = restart::restarts(&rendered, live, &changes);
    changes.risks = risk::risks(plan, &rendered, live, &changes);
    Ok(changes)
}

fn compare(
    rendered: &Rendered,
    live: Option<&Value>,
    identity: &StackIdentity,
    changes: &mut Changes,
) {
    let child = rendered.child.clone();
    let Some(live) = live else {
        if rendered.creates {
            changes.created.push(child);
        }
        return;
    };
    if let Some(message) = obstacle(live, identity, rendered.deletion) {
        let message = message.to_owned();
        changes.blocked.push(BlockedChild { child, message });
        return;
    }
    let fields = fields(rendered, live);
    if fields.is_empty() {
        changes.unchanged.push(child);
    } else {
        changes.changed.push(ChangedChild { child, fields });
    }
}

/// Returns the reason why an object of a child's name cannot be written.
fn obstacle(live: &Value, identity: &StackIdentity, deletion: Deletion) -> Option<&'static str> {
    let metadata = metadata(live);
    match ownership(&metadata, identity, deletion) {
        Ownership::Foreign => Some(
            "it does not belong to this stack, so it is never changed: delete it, or choose another stack name",
        ),
        Ownership::Previous => Some(
            "it belongs to an earlier stack of this name, or to a profile that was off, and is about to be deleted: plan again in a minute",
        ),
        Ownership::Ours if metadata.deletion_timestamp.is_some() => {
            Some("it is being deleted and is created again afterwards: plan again in a minute")
        }
        Ownership::Ours => None,
    }
}

fn metadata(live: &Value) -> ObjectMeta {
    serde_json::from_value(live["metadata"].clone()).unwrap_or_default()
}

fn fields(rendered: &Rendered, live: &Value) -> Vec<FieldChange> {
    let mut fields = drift::differences(live, &rendered.object);
    fields.extend(drift::removed(live, &rendered.object));
    // The record repeats the pods. Where it alone is written, nothing changes for anyone.
    fields.retain(|field| !field.path.contains(RECORD));
    fields.sort_by(|one, other| one.path.cmp(&other.path));
    fields.dedup();
    let is_secret = rendered.child.kind == "Secret";
    for field in &mut fields {
        let of_secret = is_secret && !field.path.starts_with("metadata.") && field.path != "type";
        // A checksum tells people nothing, and one of Secrets that are yet to be generated is not the final one.
        if of_secret || field.path.contains(CONFIG_CHECKSUM) {
            let values = [&mut field.before, &mut field.after];
            for value in values.into_iter().flatten() {
                *value = Value::from(HIDDEN);
            }
        }
    }
    fields
}

/// Returns the children that `apply` prunes, and the volumes and Secrets that it hands to the garbage collector.
fn deleted(
    desired: &Desired,
    rendered: &[Rendered],
    live: &LiveChildren,
    identity: &StackIdentity,
) -> Vec<ChildName> {
    let wanted: BTreeSet<&ChildName> = rendered.iter().map(|child| &child.child).collect();
    let ends = rendered::ends(desired);
    let stores = desired.discarded.iter();
    let discarded: Vec<String> = stores
        .map(|store| component_name(&identity.name, *store))
        .collect();
    let is_deleted = |(child, object): &(&ChildName, &Value)| {
        let metadata = metadata(object);
        let is_ours =
            |deletion: Deletion| ownership(&metadata, identity, deletion) == Ownership::Ours;
        let is_pruned = ends.pruned.contains(&child.kind) && is_ours(Deletion::Pruned);
        let is_discarded = ends.retained.contains(&child.kind)
            && discarded.contains(&child.name)
            && is_ours(Deletion::Retained);
        (is_pruned || is_discarded)
            && !wanted.contains(child)
            && !desired.held.contains(&component_of(&metadata))
            && metadata.deletion_timestamp.is_none()
    };
    let deleted = live.iter().filter(is_deleted);
    deleted.map(|(child, _)| child.clone()).collect()
}

/// Returns the objects with data that outlive the stack from now on although it does not render them.
fn released(
    desired: &Desired,
    rendered: &[Rendered],
    live: &LiveChildren,
    identity: &StackIdentity,
) -> Vec<ChangedChild> {
    let wanted: BTreeSet<&ChildName> = rendered.iter().map(|child| &child.child).collect();
    let of_store = |store: &Component| rendered::retained().map(|kinds| (*store, kinds));
    let mut released = Vec::new();
    for (store, kinds) in desired.released.iter().flat_map(of_store) {
        for kind in kinds {
            let Some(name) = data_name(&kind, &identity.name, store) else {
                break;
            };
            let child = ChildName { kind, name };
            let left = live.get(&child).filter(|_| !wanted.contains(&child));
            // A volume stays as it is without its Secret.
            let Some(metadata) = left.map(metadata) else {
                break;
            };
            if ownership(&metadata, identity, Deletion::Retained) != Ownership::Ours
                || metadata.deletion_timestamp.is_some()
            {
                break;
            }
            let mut owners = metadata.owner_references.iter().flatten();
            let owner = owners.find(|owner| owner.uid == identity.owner.uid);
            released.extend(owner.map(|owner| ChangedChild {
                child,
                fields: vec![FieldChange {
                    path: "metadata.ownerReferences".to_owned(),
                    before: serde_json::to_value(owner).ok(),
                    after: None,
                }],
            }));
        }
    }
    released
}

#[cfg(test)]
mod tests;
