//! What the pods of every component share: security, scheduling, probes, volumes and environment.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
        ExecAction, HTTPGetAction, ObjectFieldSelector, PodSecurityContext, PodSpec,
        PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecretKeySelector,
        SecurityContext, TCPSocketAction, TopologySpreadConstraint, Volume, VolumeMount,
    },
    apimachinery::pkg::{
        api::resource::Quantity, apis::meta::v1::ObjectMeta, util::intstr::IntOrString,
    },
};
use sha2::{Digest, Sha256};

use crate::{
    metadata::{CONFIG_CHECKSUM, Component, component_name, labels, selector},
    reconcile::{
        quantity,
        stack::{Pod, ValidatedStack},
    },
};

/// Old ReplicaSets and revisions to keep: enough to look at, little to clutter.
pub(super) const REVISION_HISTORY: i32 = 3;

/// Completes a component's pod with what all pods share. `checksum` restarts the pods when it changes.
pub(super) fn template(
    stack: &ValidatedStack,
    component: Component,
    pod: &Pod,
    checksum: String,
    own: PodSpec,
) -> PodTemplateSpec {
    let name = &stack.identity.name;
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(name, component)),
            annotations: Some(BTreeMap::from([(CONFIG_CHECKSUM.to_owned(), checksum)])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(component_name(name, component)),
            automount_service_account_token: Some(false),
            // The variables of every Service in the namespace would differ between restarts.
            enable_service_links: Some(false),
            image_pull_secrets: filled(&stack.image_pull_secrets),
            node_selector: Some(pod.node_selector.clone()).filter(|labels| !labels.is_empty()),
            tolerations: filled(&pod.tolerations),
            affinity: pod.affinity.clone(),
            priority_class_name: pod.priority_class.clone(),
            ..own
        }),
    }
}

/// A container that runs a component's image. The user's variables replace `env` by name.
pub(super) fn container(name: &str, pod: &Pod, env: Vec<EnvVar>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(pod.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        env: filled(&merge_env(env, &pod.env)),
        resources: Some(pod.resources.clone()),
        // The last words of a container that failed are then in the pod's status.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// The security context of a pod whose processes run as `user`.
pub(super) fn security_context(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        run_as_group: Some(user),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

/// Spreads a Deployment's pods over nodes, without refusing a cluster of one node.
pub(super) fn spread(stack: &ValidatedStack, component: Component) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: Some(selector(&stack.identity.name, component)),
        // Pods of the previous revision are about to go: they must not push the new ones together.
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    }
}

/// A named TCP port of a container.
pub(super) fn port(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// A probe by HTTP on a named port.
pub(super) fn http_probe(path: &str, port: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(port.to_owned()),
            scheme: Some("HTTP".to_owned()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    }
}

/// A probe that a connection is taken.
pub(super) fn tcp_probe(port: &str) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String(port.to_owned()),
            ..TCPSocketAction::default()
        }),
        ..Probe::default()
    }
}

/// A probe by a command in the container. The runtime starts a process for each, a tenth of a second of CPU time, so it is
/// asked seldom.
pub(super) fn exec_probe(command: &[&str]) -> Probe {
    Probe {
        exec: Some(ExecAction {
            command: Some(strings(command)),
        }),
        ..Probe::default()
    }
}

/// How often a probe asks, in seconds, how long it waits for an answer, and how many failures count.
pub(super) fn paced(probe: Probe, period: i32, timeout: i32, failures: i32) -> Probe {
    Probe {
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..probe
    }
}

/// A variable with a literal value.
pub(super) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}

/// A variable with the value of a key of a Secret.
pub(super) fn secret_env(name: &str, secret: &str, key: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                ..SecretKeySelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// The variable `HOSTNAME` with the pod's name: the logs name the pod by it, and not every container runtime sets it.
pub(super) fn name_env() -> EnvVar {
    EnvVar {
        name: "HOSTNAME".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: "metadata.name".to_owned(),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// A scratch volume that goes with the pod.
pub(super) fn scratch(name: &str, size: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(size.to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Where a volume appears in a container.
pub(super) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

/// Where a volume appears in a container that only reads it.
pub(super) fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(volume, path)
    }
}

/// Requests and limits, each `[cpu, memory]`.
pub(super) fn resources(requests: [&str; 2], limits: [&str; 2]) -> ResourceRequirements {
    let quantities = |[cpu, memory]: [&str; 2]| {
        BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ])
    };
    ResourceRequirements {
        requests: Some(quantities(requests)),
        limits: Some(quantities(limits)),
        ..ResourceRequirements::default()
    }
}

/// Requests and limits of a program that holds copies of things beside what it needs itself, in bytes. What the copies
/// may take is reserved, and half as much again is allowed, because freed memory goes back to the system in whole pages
/// only.
pub(super) fn with_room(mut resources: ResourceRequirements, copies: u64) -> ResourceRequirements {
    let with_half_more = copies.saturating_add(copies / 2);
    let more = [
        (&mut resources.requests, copies),
        (&mut resources.limits, with_half_more),
    ];
    for (quantities, more) in more {
        let quantities = quantities.get_or_insert_default();
        let own = quantities.get("memory");
        let own = own.and_then(|own| quantity::bytes(&own.0)).unwrap_or(0);
        let memory = Quantity(own.saturating_add(more).to_string());
        quantities.insert("memory".to_owned(), memory);
    }
    resources
}

/// Hash of a configuration, for its pods' checksum. A plain one will do: a configuration holds no secret.
pub(super) fn digest(config: &str) -> String {
    Sha256::digest(config)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Owned copies of literal strings.
pub(super) fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

/// An empty list is left out, so that an applied object says nothing about the field.
fn filled<T: Clone>(items: &[T]) -> Option<Vec<T>> {
    (!items.is_empty()).then(|| items.to_vec())
}

/// Names are the keys of the list under server-side apply, so each may occur once; the last word is the user's.
fn merge_env(mut env: Vec<EnvVar>, user: &[EnvVar]) -> Vec<EnvVar> {
    for variable in user {
        match env.iter_mut().find(|own| own.name == variable.name) {
            Some(own) => *own = variable.clone(),
            None => env.push(variable.clone()),
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_the_user_replaces_ours_in_place_and_each_name_occurs_once() {
        let merged = merge_env(
            vec![env("A", "ours"), env("B", "ours")],
            &[env("A", "first"), env("C", "new"), env("A", "second")],
        );
        assert_eq!(
            merged,
            [env("A", "second"), env("B", "ours"), env("C", "new")]
        );
    }
}
