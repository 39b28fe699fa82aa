//! Tests of properties that every pod has.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use kube_core::ResourceExt;

use super::{ValidatedStack, build};
use crate::{model::pod_uses, testing::stack::every_profile};

#[test]
fn pods_carry_the_labels_that_select_them() {
    let children = build(&every_profile().webhooks()).children;
    let deployments = children.deployments.into_iter();
    let sets = children.stateful_sets.into_iter();
    let templates = deployments
        .map(|child| child.spec.map(|spec| (spec.selector, spec.template)))
        .chain(sets.map(|child| child.spec.map(|spec| (spec.selector, spec.template))));
    for (selector, template) in templates.map(Option::unwrap) {
        let labels = template.metadata.unwrap().labels.unwrap();
        for (key, value) in selector.match_labels.unwrap() {
            assert_eq!(labels.get(&key), Some(&value));
        }
    }
}

#[test]
fn no_store_has_a_sidecar_and_every_other_program_may() {
    let children = build(&every_profile()).children;
    let deployments = children.deployments.into_iter();
    let sets = children.stateful_sets.into_iter();
    let others = deployments.map(|child| (false, child.spec.unwrap().template));
    let stores = sets.map(|child| (true, child.spec.unwrap().template));
    for (is_store, template) in others.chain(stores) {
        let metadata = template.metadata.unwrap();
        let label = metadata.labels.unwrap();
        let label = label.get("sidecar.istio.io/inject").cloned();
        assert_eq!(label.is_some_and(|value| value == "false"), is_store);
        let annotation = metadata.annotations.unwrap();
        let annotation = annotation.get("linkerd.io/inject").cloned();
        assert_eq!(
            annotation.is_some_and(|value| value == "disabled"),
            is_store
        );
    }
}

/// Returns every pod with the name of its workload.
pub(super) fn pods(stack: &ValidatedStack) -> Vec<(String, PodSpec)> {
    let children = build(stack).children;
    let pod = |name: String, template: PodTemplateSpec| (name, template.spec.unwrap());
    let deployments = children.deployments.into_iter();
    let sets = children.stateful_sets.into_iter();
    deployments
        .map(|child| pod(child.name_any(), child.spec.unwrap().template))
        .chain(sets.map(|child| pod(child.name_any(), child.spec.unwrap().template)))
        .collect()
}

#[test]
fn every_pod_meets_the_restricted_profile() {
    for stack in [every_profile().webhooks(), every_profile().standalone()] {
        for (name, pod) in pods(&stack) {
            let security = pod.security_context.as_ref().unwrap();
            assert_eq!(security.run_as_non_root, Some(true), "{name}");
            assert!(security.run_as_user.is_some_and(|user| user > 0), "{name}");
            let seccomp = security.seccomp_profile.as_ref().unwrap();
            assert_eq!(seccomp.type_, "RuntimeDefault", "{name}");
            assert_eq!(pod.automount_service_account_token, Some(false), "{name}");
            assert_eq!(
                pod.service_account_name.as_deref(),
                Some(name.as_str()),
                "its own"
            );
            assert_eq!(pod.enable_service_links, Some(false), "{name}");
            assert_eq!(pod.host_network, Some(false), "{name}");
            assert_eq!([pod.host_pid, pod.host_ipc], [Some(false); 2], "{name}");
            let allowed = |volume: &k8s_openapi::api::core::v1::Volume| volume.host_path.is_none();
            assert!(pod.volumes.iter().flatten().all(allowed), "{name}");
            let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
            for container in containers {
                restricted(&name, container);
            }
        }
    }
}

fn restricted(pod: &str, container: &Container) {
    let name = format!("{pod}/{}", container.name);
    let security = container.security_context.as_ref().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false), "{name}");
    assert_eq!(security.read_only_root_filesystem, Some(true), "{name}");
    assert_eq!(security.privileged, Some(false), "{name}");
    let capabilities = security.capabilities.as_ref().unwrap();
    assert_eq!(
        capabilities.drop.as_deref(),
        Some(["ALL".to_owned()].as_slice()),
        "{name}"
    );
    assert_eq!(capabilities.add, None, "{name}");
    let resources = container.resources.as_ref().unwrap();
    for quantities in [&resources.requests, &resources.limits] {
        let quantities = quantities.as_ref().unwrap();
        assert!(quantities.contains_key("cpu"), "{name}");
        assert!(quantities.contains_key("memory"), "{name}");
    }
    let ports = container.ports.iter().flatten();
    assert!(ports.clone().all(|port| port.host_port.is_none()), "{name}");
}

#[test]
fn the_settings_of_the_user_reach_every_pod() {
    for (name, pod) in pods(&every_profile().user_settings()) {
        assert_eq!(pod.node_selector.unwrap()["disk"], "ssd", "{name}");
        let tolerations = pod.tolerations.unwrap().into_iter();
        let own = tolerations.filter(|own| own.toleration_seconds.is_none());
        assert_eq!(own.count(), 1, "{name}");
        assert!(pod.affinity.is_some(), "{name}");
        assert_eq!(
            pod.priority_class_name.as_deref(),
            Some("important"),
            "{name}"
        );
        assert_eq!(
            pod.image_pull_secrets.unwrap()[0].name,
            "registry",
            "{name}"
        );
        let env = pod.containers[0].env.clone().unwrap();
        let of_the_user = env
            .iter()
            .filter(|variable| variable.value.as_deref() == Some("of-the-user"));
        assert_eq!(of_the_user.count(), 1, "{name}");
    }
}

#[test]
fn every_generated_secret_that_pods_read_and_every_claim_is_found_in_them() {
    let stack = every_profile();
    let (pods, children) = (pods(&stack), build(&stack).children);
    let pods = || pods.iter().map(|(_, pod)| pod);
    let generated = children.secrets.iter().map(|child| child.secret.name_any());
    // The key of the checksums reaches pods by its results only.
    let generated = generated.filter(|name| name != "acme-checksum");
    let read: BTreeSet<&str> = pods().flat_map(pod_uses::secrets).collect();
    for secret in generated {
        assert!(read.contains(secret.as_str()), "{secret}: {read:?}");
    }
    let mut used: Vec<&str> = pods().flat_map(pod_uses::claims).collect();
    used.sort_unstable();
    let mut claims: Vec<String> = children.claims.iter().map(ResourceExt::name_any).collect();
    claims.sort_unstable();
    assert_eq!(used, claims);
}
