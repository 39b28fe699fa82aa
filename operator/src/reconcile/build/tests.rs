//! What holds for the children together.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{Resource, ResourceExt};

use super::*;
use crate::{
    api::Profile,
    metadata::selector_labels,
    testing::stack::{every_profile, minimal_stack},
};

/// Kind and name of every child, in the order of `Desired`.
fn names(stack: &ValidatedStack) -> Vec<String> {
    fn of<K: Resource<DynamicType = ()>>(children: &[K]) -> Vec<String> {
        let kind = K::kind(&());
        let name = |child: &K| format!("{kind}/{}", child.name_any());
        children.iter().map(name).collect()
    }
    let Desired {
        service_accounts,
        secrets,
        config_maps,
        claims,
        network_policies,
        services,
        stateful_sets,
        deployments,
        disruption_budgets,
        ingresses,
        discarded: _,
        prunable: _,
    } = build(stack);
    let secrets: Vec<_> = secrets.into_iter().map(|desired| desired.secret).collect();
    [
        of(&service_accounts),
        of(&secrets),
        of(&config_maps),
        of(&claims),
        of(&network_policies),
        of(&services),
        of(&stateful_sets),
        of(&deployments),
        of(&disruption_budgets),
        of(&ingresses),
    ]
    .concat()
}

/// The names of the minimal stack without those that `lacks`.
fn names_without(lacks: &[&str]) -> Vec<&'static str> {
    let all = MINIMAL.iter().copied();
    let rest: Vec<_> = all.filter(|name| !lacks.contains(name)).collect();
    assert_eq!(
        rest.len() + lacks.len(),
        MINIMAL.len(),
        "an unknown name: {lacks:?}"
    );
    rest
}

const MINIMAL: [&str; 21] = [
    "ServiceAccount/acme-app",
    "ServiceAccount/acme-gateway",
    "ServiceAccount/acme-postgres",
    "Secret/acme-checksum",
    "Secret/acme-postgres",
    "ConfigMap/acme-gateway",
    "PersistentVolumeClaim/acme-postgres",
    "NetworkPolicy/acme-default-deny",
    "NetworkPolicy/acme-app",
    "NetworkPolicy/acme-gateway",
    "NetworkPolicy/acme-postgres",
    "Service/acme-app",
    "Service/acme-gateway",
    "Service/acme-postgres",
    "StatefulSet/acme-postgres",
    "Deployment/acme-app",
    "Deployment/acme-gateway",
    "PodDisruptionBudget/acme-app",
    "PodDisruptionBudget/acme-gateway",
    "Ingress/acme-api",
    "Ingress/acme",
];

#[test]
fn a_minimal_stack_has_exactly_these_children() {
    assert_eq!(names(&minimal_stack()), MINIMAL);
}

/// What a profile adds to a stack whose stores the operator runs.
fn added(profile: Profile) -> Vec<&'static str> {
    match profile {
        Profile::Caching => vec![
            "ServiceAccount/acme-cache",
            "Secret/acme-cache",
            "ConfigMap/acme-cache",
            "NetworkPolicy/acme-cache",
            "Service/acme-cache",
            "StatefulSet/acme-cache",
        ],
        Profile::Queue => vec![
            "ServiceAccount/acme-rabbitmq",
            "ServiceAccount/acme-worker",
            "Secret/acme-rabbitmq",
            "ConfigMap/acme-rabbitmq",
            "PersistentVolumeClaim/acme-rabbitmq",
            "NetworkPolicy/acme-rabbitmq",
            "NetworkPolicy/acme-worker",
            "Service/acme-rabbitmq",
            "StatefulSet/acme-rabbitmq",
            "Deployment/acme-worker",
        ],
    }
}

/// The stack with a profile on.
fn with(stack: ValidatedStack, profile: Profile) -> ValidatedStack {
    match profile {
        Profile::Caching => stack.caching(),
        Profile::Queue => stack.queue(),
    }
}

#[test]
fn every_combination_of_profiles_has_exactly_the_children_of_its_parts() {
    for number in 0..1_usize << Profile::ALL.len() {
        let chosen = Profile::ALL.into_iter().enumerate();
        let chosen = chosen.filter(|(place, _)| number >> place & 1 == 1);
        let chosen: Vec<Profile> = chosen.map(|(_, profile)| profile).collect();
        let stack = chosen.iter().copied().fold(minimal_stack(), with);
        assert_eq!(stack.profiles(), chosen);
        let mut expected = MINIMAL.to_vec();
        expected.extend(chosen.iter().copied().flat_map(added));
        expected.sort_unstable();
        let mut found = names(&stack);
        found.sort_unstable();
        assert_eq!(found, expected, "{chosen:?}");
    }
}

#[test]
fn only_a_stack_that_keeps_no_data_discards_that_of_a_part_that_is_off() {
    let discarded = |stack: ValidatedStack| build(&stack).discarded;
    assert_eq!(discarded(minimal_stack()), []);
    assert_eq!(discarded(every_profile().deleting_data()), []);
    assert_eq!(
        discarded(minimal_stack().deleting_data()),
        [Component::Cache, Component::Rabbitmq]
    );
}

#[test]
fn a_profile_whose_store_is_external_adds_no_child() {
    assert_eq!(names(&minimal_stack().external_cache()), MINIMAL);
}

#[test]
fn a_queue_on_an_external_broker_adds_its_workers_only() {
    let mut found = names(&minimal_stack().external_queue());
    found.retain(|name| !MINIMAL.contains(&name.as_str()));
    assert_eq!(
        found,
        [
            "ServiceAccount/acme-worker",
            "NetworkPolicy/acme-worker",
            "Deployment/acme-worker",
        ]
    );
}

#[test]
fn a_stack_with_an_external_database_has_no_store() {
    let children = names(&minimal_stack().external_database());
    assert_eq!(
        children,
        names_without(&[
            "ServiceAccount/acme-postgres",
            "Secret/acme-postgres",
            "PersistentVolumeClaim/acme-postgres",
            "NetworkPolicy/acme-postgres",
            "Service/acme-postgres",
            "StatefulSet/acme-postgres",
        ])
    );
}

#[test]
fn a_stack_that_routes_itself_has_no_ingress() {
    let without_ingress = names_without(&["Ingress/acme-api", "Ingress/acme"]);
    assert_eq!(names(&minimal_stack().standalone()), without_ingress);
    assert_eq!(
        names(&minimal_stack().conflict("links/older")),
        without_ingress
    );
}

#[test]
fn a_gateway_of_its_own_waits_for_the_address_of_the_app() {
    assert_eq!(
        names(&minimal_stack().standalone().upstream(None)),
        names_without(&[
            "ConfigMap/acme-gateway",
            "Deployment/acme-gateway",
            "Ingress/acme-api",
            "Ingress/acme",
        ])
    );
}

#[test]
fn nothing_is_pruned_while_the_address_of_the_app_is_unknown() {
    assert!(build(&minimal_stack()).prunable);
    let stack = minimal_stack().standalone();
    assert!(build(&stack).prunable);
    assert!(!build(&stack.upstream(None)).prunable);
}

#[test]
fn without_a_second_pod_there_is_no_budget() {
    let without_budgets = names_without(&[
        "PodDisruptionBudget/acme-app",
        "PodDisruptionBudget/acme-gateway",
    ]);
    assert_eq!(names(&minimal_stack().replicas(1)), without_budgets);
    assert_eq!(names(&minimal_stack().stopped()), without_budgets);
}

#[test]
fn a_stopped_stack_has_no_pods() {
    let desired = build(&every_profile().stopped());
    let deployments = desired.deployments.into_iter();
    let sets = desired.stateful_sets.into_iter();
    let replicas: Vec<_> = deployments
        .map(|child| child.spec.unwrap().replicas)
        .chain(sets.map(|child| child.spec.unwrap().replicas))
        .collect();
    assert_eq!(replicas, vec![Some(0); replicas.len()]);
}

#[test]
fn whatever_selects_the_pods_of_a_component_uses_the_frozen_labels() {
    let stack = every_profile();
    let desired = build(&stack);
    let mut selectors: BTreeMap<String, Vec<LabelSelector>> = BTreeMap::new();
    let mut add = |name: String, selector: LabelSelector| {
        selectors.entry(name).or_default().push(selector);
    };
    for child in desired.deployments {
        add(child.name_any(), child.spec.unwrap().selector);
    }
    for child in desired.stateful_sets {
        add(child.name_any(), child.spec.unwrap().selector);
    }
    for child in desired.services {
        let selector = LabelSelector {
            match_labels: child.spec.as_ref().unwrap().selector.clone(),
            ..LabelSelector::default()
        };
        add(child.name_any(), selector);
    }
    for child in desired.disruption_budgets {
        add(child.name_any(), child.spec.unwrap().selector.unwrap());
    }
    for child in desired.network_policies {
        add(child.name_any(), child.spec.unwrap().pod_selector.unwrap());
    }
    let whole_stack = selectors.remove("acme-default-deny").unwrap();
    assert_eq!(whole_stack[0].match_labels.as_ref().unwrap().len(), 2);
    let stores = stack.managed_stores().into_iter();
    // Nobody connects to a worker by a Service, and one pod has no budget.
    let served = [
        (Component::App, 4),
        (Component::Gateway, 4),
        (Component::Worker, 2),
    ];
    for (component, uses) in stores.map(|(component, _)| (component, 3)).chain(served) {
        let selectors = selectors
            .remove(&format!("acme-{}", component.as_str()))
            .unwrap();
        assert_eq!(selectors.len(), uses);
        for selector in selectors {
            assert_eq!(
                selector.match_labels,
                Some(selector_labels("acme", component))
            );
            assert_eq!(selector.match_expressions, None);
        }
    }
    assert!(selectors.is_empty());
}

#[test]
fn pods_carry_the_labels_that_select_them() {
    let desired = build(&every_profile());
    let deployments = desired.deployments.into_iter();
    let sets = desired.stateful_sets.into_iter();
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

fn pods(stack: &ValidatedStack) -> Vec<(String, PodSpec)> {
    let desired = build(stack);
    let pod = |name: String, template: PodTemplateSpec| (name, template.spec.unwrap());
    let deployments = desired.deployments.into_iter();
    let sets = desired.stateful_sets.into_iter();
    deployments
        .map(|child| pod(child.name_any(), child.spec.unwrap().template))
        .chain(sets.map(|child| pod(child.name_any(), child.spec.unwrap().template)))
        .collect()
}

#[test]
fn every_pod_meets_the_restricted_profile() {
    for stack in [every_profile(), every_profile().standalone()] {
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
            assert!(
                [pod.host_network, pod.host_pid, pod.host_ipc] == [None; 3],
                "{name}"
            );
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
    assert_eq!(security.privileged, None, "{name}");
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
        assert_eq!(pod.tolerations.unwrap().len(), 1, "{name}");
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
fn every_child_belongs_to_the_stack_except_those_that_hold_data() {
    let stack = every_profile();
    let owner = Some(vec![stack.identity.owner.clone()]);
    let desired = build(&stack);
    assert!(
        desired
            .deployments
            .iter()
            .all(|child| child.metadata.owner_references == owner)
    );
    assert!(
        desired
            .ingresses
            .iter()
            .all(|child| child.metadata.owner_references == owner)
    );
    assert!(
        desired
            .claims
            .iter()
            .all(|child| child.metadata.owner_references.is_none())
    );
}
