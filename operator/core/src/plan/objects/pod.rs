//! Settings common to the pods of every component: security, scheduling, probes and environment.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, HTTPGetAction,
        ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
        ResourceRequirements, SeccompProfile, SecretKeySelector, SecurityContext, TCPSocketAction,
        TopologySpreadConstraint,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use sha2::{Digest, Sha256};

use crate::model::{
    checksum::hexadecimal,
    metadata::{CONFIG_CHECKSUM, Component, component_name, labels, selector},
    stack::{Pod, ValidatedStack},
};

/// Number of old ReplicaSets and revisions to keep: enough for a look back, without clutter.
pub(in crate::plan) const REVISION_HISTORY: i32 = 3;

/// Labels of nodes: what a Deployment's pods are spread over.
const SPREAD: [&str; 2] = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"];

/// Label and annotation that keep a sidecar of Istio and of Linkerd out of pods.
pub(in crate::plan) const WITHOUT_SIDECAR: [(&str, &str); 2] = [
    ("sidecar.istio.io/inject", "false"),
    ("linkerd.io/inject", "disabled"),
];

/// Fields of a pod that follow the app's `podTemplate`. The security context is one of them: some platforms assign the user.
const FOLLOWED: [&str; 10] = [
    "affinity",
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "tolerations",
];

/// Adds the settings common to all pods to a component's pod, then the user's changes. A change of `checksum` restarts the
/// pods, and so does one of a Secret that the user's settings name.
pub(in crate::plan) fn template(
    stack: &ValidatedStack,
    component: Component,
    checksum: String,
    own: PodSpec,
) -> PodTemplateSpec {
    changed(stack, component, common(stack, component, checksum, own))
}

/// Returns the same as [`template`], without the proxy of a service mesh unless the user asks for it. It would run on after
/// the work of a Job, and it never starts where the stack's NetworkPolicies deny egress.
pub(in crate::plan) fn without_sidecar(
    stack: &ValidatedStack,
    component: Component,
    checksum: String,
    own: PodSpec,
) -> PodTemplateSpec {
    let mut template = common(stack, component, checksum, own);
    if let Some(metadata) = &mut template.metadata {
        let without = WITHOUT_SIDECAR.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = metadata.labels.get_or_insert_default();
        labels.extend(without.clone());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.extend(without);
    }
    changed(stack, component, template)
}

/// Returns a template of pods that run where the app's pods run, with these changes of the app's `podTemplate` and no other.
pub(in crate::plan) fn placed_as_the_app(
    stack: &ValidatedStack,
    template: PodTemplateSpec,
) -> PodTemplateSpec {
    let changes = stack.pod_templates.get(&Component::App);
    let placed = changes.and_then(|changes| changes.only(&FOLLOWED).onto(&template).ok());
    placed.unwrap_or(template)
}

fn common(
    stack: &ValidatedStack,
    component: Component,
    checksum: String,
    own: PodSpec,
) -> PodTemplateSpec {
    let name = &stack.identity.name;
    let checksum = match stack.user_checksums.get(&component) {
        Some(of_user) => format!("{of_user}.{checksum}"),
        None => checksum,
    };
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(name, component)),
            annotations: Some(BTreeMap::from([(CONFIG_CHECKSUM.to_owned(), checksum)])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(component_name(name, component)),
            automount_service_account_token: Some(false),
            host_network: Some(false),
            host_pid: Some(false),
            host_ipc: Some(false),
            // The environment variables for every Service in the namespace would differ between restarts.
            enable_service_links: Some(false),
            image_pull_secrets: Some(stack.image_pull_secrets.clone())
                .filter(|secrets| !secrets.is_empty()),
            ..own
        }),
    }
}

fn changed(
    stack: &ValidatedStack,
    component: Component,
    template: PodTemplateSpec,
) -> PodTemplateSpec {
    // Validation has merged the same two, so this does not fail.
    let changes = stack.pod_templates.get(&component);
    let merged = changes.and_then(|changes| changes.onto(&template).ok());
    merged.unwrap_or(template)
}

/// Returns a container that runs a component's image.
pub(in crate::plan) fn container(name: &str, pod: &Pod, env: Vec<EnvVar>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(pod.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        env: (!env.is_empty()).then_some(env),
        resources: Some(pod.resources.clone()),
        // The pod's status then contains the last log lines of a failed container.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: Some(SecurityContext {
            privileged: Some(false),
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

/// Returns the security context of a pod whose processes run as `user`.
pub(in crate::plan) fn security_context(user: i64) -> PodSecurityContext {
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

/// Spreads a Deployment's pods over zones, and within them over nodes. It still allows a cluster of one node, and nodes
/// without a zone.
pub(in crate::plan) fn spread(
    stack: &ValidatedStack,
    component: Component,
) -> Vec<TopologySpreadConstraint> {
    spread_over(&selector(&stack.identity.name, component))
}

/// Spreads the pods of a Deployment that others make, as [`spread`] does.
pub(in crate::plan) fn spread_over(pods: &LabelSelector) -> Vec<TopologySpreadConstraint> {
    let mut constraints = spread_servers(pods);
    for constraint in &mut constraints {
        // Pods of the previous revision are about to be deleted. They must not influence the placement of the new
        // ones.
        constraint.match_label_keys = Some(vec!["pod-template-hash".to_owned()]);
    }
    constraints
}

/// Spreads servers, which have no revisions, as [`spread`] does.
pub(in crate::plan) fn spread_servers(pods: &LabelSelector) -> Vec<TopologySpreadConstraint> {
    let over = |topology_key: &str| TopologySpreadConstraint {
        label_selector: Some(pods.clone()),
        max_skew: 1,
        topology_key: topology_key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    SPREAD.map(over).into()
}

/// Returns a named TCP port of a container.
pub(in crate::plan) fn port(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// Returns an HTTP probe on a named port.
pub(in crate::plan) fn http_probe(path: &str, port: &str) -> Probe {
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

/// Returns a probe that opens a TCP connection to a named port.
pub(in crate::plan) fn tcp_probe(port: &str) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String(port.to_owned()),
            ..TCPSocketAction::default()
        }),
        ..Probe::default()
    }
}

/// Returns a probe that runs a command in the container. The container runtime starts a process for each run, which
/// costs a tenth of a second of CPU time, so the command should run rarely.
pub(in crate::plan) fn exec_probe(command: &[&str]) -> Probe {
    Probe {
        exec: Some(ExecAction {
            command: Some(strings(command)),
        }),
        ..Probe::default()
    }
}

/// Sets the period and the timeout of a probe in seconds, and its failure threshold.
pub(in crate::plan) fn with_timing(
    probe: Probe,
    period: i32,
    timeout: i32,
    failures: i32,
) -> Probe {
    Probe {
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..probe
    }
}

/// Returns a variable with a literal value. Kubernetes replaces `$(NAME)` by the value of another variable, also one from a
/// Secret, and makes `$` of `$$`.
pub(in crate::plan) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    referring_env(name, value.into().replace('$', "$$"))
}

/// Returns the variables of the settings that have a value.
pub(in crate::plan) fn env_of<T: ToString, const N: usize>(
    settings: [(&str, Option<T>); N],
) -> Vec<EnvVar> {
    let set = settings
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| env(name, value.to_string()))
        .collect()
}

/// Returns a variable whose value may refer to those before it as `$(NAME)`.
pub(in crate::plan) fn referring_env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}

/// Returns a variable with the value of a key of a Secret.
pub(in crate::plan) fn secret_env(name: &str, secret: &str, key: &str) -> EnvVar {
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

/// Returns the variable `HOSTNAME` with the pod's name. The logs identify the pod by it, and not every container
/// runtime sets it.
pub(in crate::plan) fn name_env() -> EnvVar {
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

/// Returns requests and limits, each from `[cpu, memory]`.
pub(in crate::plan) fn resources(requests: [&str; 2], limits: [&str; 2]) -> ResourceRequirements {
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

/// Returns the hash of a configuration for the checksum of its pods. A plain hash suffices: a configuration holds no
/// secret.
pub(in crate::plan) fn digest(config: &str) -> String {
    hexadecimal(Sha256::digest(config).iter())
}

/// Returns owned copies of literal strings.
pub(in crate::plan) fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_value_refers_to_no_other_variable() {
        let value = env(
            "LINKS_ROOT_TARGET",
            "https://a.test/?$(DATABASE_PASSWORD)&$$",
        )
        .value;
        let escaped = "https://a.test/?$$(DATABASE_PASSWORD)&$$$$";
        assert_eq!(value.as_deref(), Some(escaped));
    }
}
