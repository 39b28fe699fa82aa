//! The parts of its pods that a component does not work without.
//!
//! The result of the merge is compared with the operator's own template, so that no way to write a change evades a check.

mod containers;

use serde_json::Value;

use crate::{model::pod_patch::PatchError, plan::objects::pod::WITHOUT_SIDECAR};

/// Prefix of the labels and annotations that only the operator sets.
const RESERVED: &str = "shortener.dev/";
/// Time that Kubernetes gives a pod without a setting to terminate, in seconds.
const DEFAULT_GRACE: i64 = 30;
/// Fields of a pod that stay as they are, with the reason and the remedy.
const FIXED: [(&str, &str); 8] = [
    (
        "activeDeadlineSeconds",
        "would end pods that are at work: remove it",
    ),
    (
        "automountServiceAccountToken",
        "would give every container a token for the API server: remove it, and run the program that needs one in a \
         Deployment of your own",
    ),
    (
        "ephemeralContainers",
        "has no place in a template: remove it, and use kubectl debug",
    ),
    (
        "hostIPC",
        "would share the memory of the node with the pods: remove it",
    ),
    (
        "hostNetwork",
        "would lead past the network policies of the stack: remove it",
    ),
    (
        "hostPID",
        "would show the pods every process of the node: remove it",
    ),
    (
        "restartPolicy",
        "cannot change, because these pods always restart: remove it",
    ),
    (
        "serviceAccount",
        "is the old name of serviceAccountName: write that",
    ),
];

/// Checks that a merged pod template still has everything that a component needs.
pub(super) fn check(own: &Value, merged: &Value) -> Result<(), PatchError> {
    metadata(&own["metadata"], &merged["metadata"])?;
    let (own, merged) = (&own["spec"], &merged["spec"]);
    let changed = |(field, _): &(&str, &str)| own[*field] != merged[*field];
    if let Some((field, problem)) = FIXED.into_iter().find(changed) {
        return Err(PatchError::new(format!("spec.{field}"), problem));
    }
    grace(own, merged)?;
    volumes(own, merged)?;
    containers::check(own, merged)
}

/// Checks the labels, by which pods are found, and the annotation that restarts them when a Secret changes.
fn metadata(own: &Value, merged: &Value) -> Result<(), PatchError> {
    if let Some((name, _)) = fields(merged).find(|(name, _)| own.get(name).is_none()) {
        return Err(PatchError::new(
            format!("metadata.{name}"),
            "has no effect on pods, only labels and annotations have: remove it",
        ));
    }
    for kind in ["labels", "annotations"] {
        let (own, merged) = (&own[kind], &merged[kind]);
        let is_fixed = |name: &str| !WITHOUT_SIDECAR.iter().any(|(own, _)| *own == name);
        let lost =
            fields(own).find(|(name, value)| is_fixed(name) && merged.get(name) != Some(*value));
        let added =
            fields(merged).find(|(name, _)| name.starts_with(RESERVED) && own.get(name).is_none());
        if let Some((name, _)) = lost.or(added) {
            return Err(PatchError::new(
                format!("metadata.{kind}.{name}"),
                "is set by the operator alone: remove it",
            ));
        }
    }
    Ok(())
}

/// Checks that a pod has the time that its programs need to finish their work.
fn grace(own: &Value, merged: &Value) -> Result<(), PatchError> {
    let seconds = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    let (least, given) = (seconds(own).unwrap_or_default(), seconds(merged));
    if given.unwrap_or(DEFAULT_GRACE) >= least {
        return Ok(());
    }
    Err(PatchError::new(
        "spec.terminationGracePeriodSeconds",
        format!(
            "is less than the {least} s that the component needs to finish its work: set more, or remove it"
        ),
    ))
}

/// Checks the volumes with configuration, credentials and data.
fn volumes(own: &Value, merged: &Value) -> Result<(), PatchError> {
    for volume in items(&own["volumes"]) {
        let found = named(&merged["volumes"], &volume["name"]);
        if found.is_none_or(|found| found != volume && !is_other_scratch(volume, found)) {
            return Err(PatchError::new(
                place("spec.volumes", volume),
                "is a volume of the operator, of which only sizeLimit and medium of an emptyDir can change: give yours another name",
            ));
        }
    }
    Ok(())
}

/// Returns true when a volume is a scratch volume before and after.
fn is_other_scratch(own: &Value, merged: &Value) -> bool {
    let names = |volume: &Value| {
        fields(volume)
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    own["emptyDir"].is_object() && names(own) == names(merged)
}

/// Returns the path of an item, with its name.
fn place(list: &str, item: &Value) -> String {
    format!("{list}[{}]", item["name"].as_str().unwrap_or_default())
}

/// Returns the item of a list that has a name.
pub(super) fn named<'a>(list: &'a Value, name: &Value) -> Option<&'a Value> {
    items(list).find(|item| item["name"] == *name)
}

pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(super) fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}
