//! What users who edit a stack may change in its pods under the policy `Restricted`: nothing that gives them the rights of
//! another ServiceAccount, the node, or the data of others.
//!
//! The list names what is admitted, so that a field that a later Kubernetes adds is refused until it stands here.

mod metadata;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use super::own::{fields, items, named};
use crate::model::{
    pod_patch::PatchError,
    pod_uses::{self, SecretUse},
};

/// Fields of a pod that may differ from the operator's, with all that is below them. Init containers are containers, and
/// the handlers of probes and of the lifecycle are one.
const ADMITTED: [&str; 99] = [
    "affinity",
    "containers.args",
    "containers.command",
    "containers.env.name",
    "containers.env.value",
    "containers.env.valueFrom.configMapKeyRef",
    "containers.env.valueFrom.fieldRef",
    "containers.env.valueFrom.resourceFieldRef",
    "containers.env.valueFrom.secretKeyRef",
    "containers.envFrom.configMapRef",
    "containers.envFrom.prefix",
    "containers.envFrom.secretRef",
    "containers.handler.exec",
    "containers.handler.failureThreshold",
    "containers.handler.grpc",
    "containers.handler.httpGet.httpHeaders",
    "containers.handler.httpGet.path",
    "containers.handler.httpGet.port",
    "containers.handler.httpGet.scheme",
    "containers.handler.initialDelaySeconds",
    "containers.handler.periodSeconds",
    "containers.handler.successThreshold",
    "containers.handler.tcpSocket.port",
    "containers.handler.terminationGracePeriodSeconds",
    "containers.handler.timeoutSeconds",
    "containers.image",
    "containers.imagePullPolicy",
    "containers.lifecycle.handler.exec",
    "containers.lifecycle.handler.httpGet.httpHeaders",
    "containers.lifecycle.handler.httpGet.path",
    "containers.lifecycle.handler.httpGet.port",
    "containers.lifecycle.handler.httpGet.scheme",
    "containers.lifecycle.handler.sleep",
    "containers.lifecycle.handler.tcpSocket.port",
    "containers.lifecycle.stopSignal",
    "containers.name",
    "containers.ports.containerPort",
    "containers.ports.name",
    "containers.ports.protocol",
    "containers.resizePolicy",
    "containers.resources",
    "containers.restartPolicy",
    "containers.securityContext.allowPrivilegeEscalation",
    "containers.securityContext.capabilities.drop",
    "containers.securityContext.privileged",
    "containers.securityContext.readOnlyRootFilesystem",
    "containers.securityContext.runAsGroup",
    "containers.securityContext.runAsNonRoot",
    "containers.securityContext.runAsUser",
    "containers.securityContext.seccompProfile",
    "containers.stdin",
    "containers.stdinOnce",
    "containers.terminationMessagePath",
    "containers.terminationMessagePolicy",
    "containers.tty",
    "containers.volumeMounts",
    "containers.workingDir",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostUsers",
    "hostname",
    "imagePullSecrets",
    "nodeSelector",
    "preemptionPolicy",
    "priorityClassName",
    "readinessGates",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.runAsGroup",
    "securityContext.runAsNonRoot",
    "securityContext.runAsUser",
    "securityContext.seccompProfile",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes.configMap",
    "volumes.downwardAPI",
    "volumes.emptyDir",
    "volumes.ephemeral.volumeClaimTemplate.metadata.labels",
    "volumes.ephemeral.volumeClaimTemplate.spec.accessModes",
    "volumes.ephemeral.volumeClaimTemplate.spec.resources",
    "volumes.ephemeral.volumeClaimTemplate.spec.storageClassName",
    "volumes.name",
    "volumes.projected.defaultMode",
    "volumes.projected.sources.configMap",
    "volumes.projected.sources.downwardAPI",
    "volumes.projected.sources.secret",
    "volumes.secret",
];

/// Checks a merged pod template against the operator's.
pub(super) fn check(own: &Value, merged: &Value) -> Result<(), PatchError> {
    metadata::check(&own["metadata"], &merged["metadata"])?;
    let (own, merged) = (&own["spec"], &merged["spec"]);
    compare("spec", "", own, merged)?;
    let context = &merged["securityContext"];
    let path = "spec.securityContext";
    require(
        path,
        "runAsNonRoot",
        "true",
        context["runAsNonRoot"] == true,
    )?;
    user_and_profile(path, context, false)?;
    for list in ["initContainers", "containers"] {
        for item in items(&merged[list]) {
            let path = format!(
                "{}.securityContext",
                place(&format!("spec.{list}"), 0, item)
            );
            container(&path, &item["securityContext"])?;
        }
    }
    Ok(())
}

/// Returns the name of the first Secret that a merged pod reads and the operator's does not, without being admitted.
pub(super) fn unusable_secret(
    own: &PodTemplateSpec,
    merged: &PodTemplateSpec,
    usable: &BTreeSet<String>,
) -> Option<String> {
    let contents = |template: &PodTemplateSpec| template.spec.as_ref().map(pod_uses::contents);
    let own = contents(own).unwrap_or_default();
    let is_refused = |used: &SecretUse| !own.contains(used) && !usable.contains(&used.secret);
    let mut uses = contents(merged).into_iter().flatten();
    uses.find(is_refused).map(|used| used.secret)
}

/// Checks that two parts of a pod differ in admitted fields only. `path` is for the message, `rule` without the names of
/// items.
fn compare(path: &str, rule: &str, own: &Value, merged: &Value) -> Result<(), PatchError> {
    if own == merged || ADMITTED.contains(&rule) {
        return Ok(());
    }
    let is_below = |known: &&str| {
        known
            .strip_prefix(rule)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    if !rule.is_empty() && !ADMITTED.iter().any(is_below) {
        return refused(path);
    }
    for (number, item) in items(merged).enumerate() {
        let own = named(own, &item["name"]).unwrap_or(&Value::Null);
        compare(&place(path, number, item), rule, own, item)?;
    }
    let names: BTreeSet<&String> = fields(own)
        .chain(fields(merged))
        .map(|(name, _)| name)
        .collect();
    for name in names {
        let below = below(rule, name);
        compare(&format!("{path}.{name}"), &below, &own[name], &merged[name])?;
    }
    Ok(())
}

/// Returns the entry of the list for a field.
fn below(rule: &str, field: &str) -> String {
    let name = match field {
        "initContainers" => "containers",
        "livenessProbe" | "postStart" | "preStop" | "readinessProbe" | "startupProbe" => "handler",
        name => name,
    };
    if rule.is_empty() {
        return name.to_owned();
    }
    format!("{rule}.{name}")
}

/// Checks the security context of a container by the Pod Security Standard `restricted`.
fn container(path: &str, context: &Value) -> Result<(), PatchError> {
    let escalation = "allowPrivilegeEscalation";
    require(path, escalation, "false", context[escalation] == false)?;
    require(path, "privileged", "false", context["privileged"] != true)?;
    require(
        path,
        "runAsNonRoot",
        "true",
        context["runAsNonRoot"] != false,
    )?;
    let drops_all = items(&context["capabilities"]["drop"]).any(|name| name == "ALL");
    require(path, "capabilities.drop", "[ALL]", drops_all)?;
    user_and_profile(path, context, context["seccompProfile"].is_null())
}

fn user_and_profile(path: &str, context: &Value, inherits: bool) -> Result<(), PatchError> {
    require(
        path,
        "runAsUser",
        "another user than 0",
        context["runAsUser"] != 0,
    )?;
    let type_ = &context["seccompProfile"]["type"];
    let is_confined = type_ == "RuntimeDefault" || type_ == "Localhost";
    require(
        path,
        "seccompProfile.type",
        "RuntimeDefault or Localhost",
        inherits || is_confined,
    )
}

fn require(path: &str, field: &str, value: &str, holds: bool) -> Result<(), PatchError> {
    if holds {
        return Ok(());
    }
    Err(PatchError::new(
        format!("{path}.{field}"),
        format!(
            "must be {value} (Pod Security Standard restricted, podTemplatePolicy Restricted of the operator): set it"
        ),
    ))
}

/// Returns the path of an item, with its name or its number.
fn place(list: &str, number: usize, item: &Value) -> String {
    match item["name"].as_str() {
        Some(name) => format!("{list}[{name}]"),
        None => format!("{list}[{number}]"),
    }
}

fn refused<T>(path: &str) -> Result<T, PatchError> {
    Err(PatchError::new(
        path,
        "is not admitted by podTemplatePolicy Restricted of the operator: remove it, or ask an administrator of the cluster for Unrestricted",
    ))
}

#[cfg(test)]
mod tests;
