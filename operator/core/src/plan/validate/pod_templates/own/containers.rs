//! The operator's own containers, and the ports beside which the user's containers listen.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{fields, items, named, place};
use crate::model::pod_patch::PatchError;

/// The lists of a pod's containers.
const LISTS: [&str; 2] = ["initContainers", "containers"];
/// Fields of a probe that can change: its times and thresholds.
const TIMES: [&str; 6] = [
    "failureThreshold",
    "initialDelaySeconds",
    "periodSeconds",
    "successThreshold",
    "terminationGracePeriodSeconds",
    "timeoutSeconds",
];

/// Checks the containers of a merged pod.
pub(super) fn check(own: &Value, merged: &Value) -> Result<(), PatchError> {
    for list in LISTS {
        for container in items(&own[list]) {
            let path = place(&format!("spec.{list}"), container);
            let Some(found) = named(&merged[list], &container["name"]) else {
                return Err(PatchError::new(
                    path,
                    "is a container of the operator, without which the component does not work: keep it",
                ));
            };
            unchanged(&path, container, found)?;
        }
    }
    ports(own, merged)
}

/// Checks that a container of the operator still runs its program as the operator wants it.
fn unchanged(path: &str, own: &Value, merged: &Value) -> Result<(), PatchError> {
    let names: BTreeSet<&str> = fields(own)
        .chain(fields(merged))
        .map(|(name, _)| name.as_str())
        .collect();
    let lost = names
        .into_iter()
        .find(|name| !is_kept(name, &own[*name], &merged[*name], own));
    let Some(field) = lost else { return Ok(()) };
    let problem = match field {
        "image" | "resources" => format!(
            "cannot change here, because other settings follow from it: set the component's own field {field}, beside podTemplate"
        ),
        "env" => "lacks a variable that the program needs: give it another value instead".to_owned(),
        "startupProbe" | "livenessProbe" | "readinessProbe" => {
            "can change only in its times and thresholds: remove the rest".to_owned()
        }
        _ => "is set by the operator, and the component would not work without it: remove it, or add a container of your own".to_owned(),
    };
    Err(PatchError::new(format!("{path}.{field}"), problem))
}

/// Returns true when a field of a container of the operator is as the operator needs it. A field that is not named
/// here counts as needed.
fn is_kept(field: &str, before: &Value, after: &Value, own: &Value) -> bool {
    match field {
        "envFrom" | "imagePullPolicy" | "resizePolicy" | "securityContext" | "volumeDevices" => {
            true
        }
        "env" => items(before).all(|variable| named(after, &variable["name"]).is_some()),
        "ports" | "volumeMounts" => {
            items(before).all(|item| items(after).any(|found| found == item))
        }
        "startupProbe" | "livenessProbe" | "readinessProbe" => {
            without_times(before) == without_times(after)
        }
        "lifecycle" => before.is_null() || before == after,
        // Settings follow from the memory of the main container, which has a field of its own. An init container has no
        // ports.
        "resources" => own["ports"].is_null() || before == after,
        _ => before == after,
    }
}

fn without_times(probe: &Value) -> Value {
    let mut probe = probe.clone();
    if let Value::Object(fields) = &mut probe {
        fields.retain(|name, _| !TIMES.contains(&name.as_str()));
    }
    probe
}

/// Checks that no container opens a port of its node, and none of the user a port of the operator's containers.
fn ports(own: &Value, merged: &Value) -> Result<(), PatchError> {
    let own = open(own);
    for (path, port) in open(merged) {
        if !port["hostPort"].is_null() {
            return Err(PatchError::new(
                path,
                "has a hostPort, which leads past the gateway: remove it",
            ));
        }
        let taken = own
            .iter()
            .find(|(other, taken)| *other != path && meets(taken, &port));
        if let Some((other, _)) = taken {
            let problem =
                format!("has the number or the name of one of {other}: choose another one");
            return Err(PatchError::new(path, problem));
        }
    }
    Ok(())
}

/// Returns every open port of a pod, with the path of its list.
fn open(spec: &Value) -> Vec<(String, Value)> {
    let mut ports = Vec::new();
    for list in LISTS {
        for container in items(&spec[list]) {
            let path = format!("{}.ports", place(&format!("spec.{list}"), container));
            ports.extend(items(&container["ports"]).map(|port| (path.clone(), port.clone())));
        }
    }
    ports
}

/// Returns true when two ports of one pod have the same number or name.
fn meets(one: &Value, other: &Value) -> bool {
    let same = |field: &str| !one[field].is_null() && one[field] == other[field];
    let protocol = |port: &Value| port["protocol"].as_str().unwrap_or("TCP").to_owned();
    same("name") || (same("containerPort") && protocol(one) == protocol(other))
}
