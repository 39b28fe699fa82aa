//! Tests of the children as a whole.

mod cluster;
mod database_move;
mod gateway;
mod held;
mod pods;
mod profiles;
mod programs;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Resource, ResourceExt};

use super::*;
use crate::{
    model::{
        desired::DesiredSecret, failure::StepFailure, metadata::selector_labels, stack::Collector,
    },
    testing::stack::{every_profile, minimal_stack},
};

/// The title of a child: kind and name.
trait Titled {
    fn title(&self) -> String;
}

impl<K: Resource<DynamicType = ()>> Titled for K {
    fn title(&self) -> String {
        format!("{}/{}", K::kind(&()), self.name_any())
    }
}

impl Titled for DesiredSecret {
    fn title(&self) -> String {
        self.secret.title()
    }
}

macro_rules! titles {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $deletion:ident;)*
        }
    )*) => {$(
        impl $group {
            /// Returns kind and name of every child, in the order in which they are written.
            fn titles(&self) -> Vec<String> {
                let mut titles = Vec::new();
                $(titles.extend(self.$field.iter().map(Titled::title));)*
                titles
            }
        }
    )*};
}

crate::child_kinds!(titles);

/// Returns kind and name of every child, in the order in which they are written.
fn names(stack: &ValidatedStack) -> Vec<String> {
    let desired = build(stack);
    let database = desired.database.unwrap_or_default();
    let broker = desired.broker.unwrap_or_default();
    let gateway = desired.gateway.unwrap_or_default();
    let monitoring = desired.monitoring.unwrap_or_default();
    [
        desired.children.titles(),
        database.titles(),
        broker.titles(),
        gateway.titles(),
        monitoring.titles(),
    ]
    .concat()
}

/// Returns the names of the minimal stack except those in `lacks`.
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

const MINIMAL: [&str; 26] = [
    "NetworkPolicy/acme-default-deny",
    "NetworkPolicy/acme-app",
    "NetworkPolicy/acme-gateway",
    "NetworkPolicy/acme-purge",
    "NetworkPolicy/acme-postgres",
    "ServiceAccount/acme-app",
    "ServiceAccount/acme-gateway",
    "ServiceAccount/acme-purge",
    "ServiceAccount/acme-postgres",
    "Secret/acme-checksum",
    "Secret/acme-job-ids",
    "Secret/acme-management",
    "Secret/acme-postgres",
    "ConfigMap/acme-gateway",
    "PersistentVolumeClaim/acme-postgres",
    "Service/acme-app",
    "Service/acme-gateway",
    "Service/acme-postgres",
    "StatefulSet/acme-postgres",
    "Deployment/acme-app",
    "Deployment/acme-gateway",
    "CronJob/acme-purge",
    "PodDisruptionBudget/acme-app",
    "PodDisruptionBudget/acme-gateway",
    "Ingress/acme-gateway-api",
    "Ingress/acme-gateway",
];

/// Holds components of a stack, whose parts are gone from it.
fn holding(mut stack: ValidatedStack, components: &[Component]) -> ValidatedStack {
    for component in components {
        match component {
            Component::Postgres => (stack.database, stack.backup) = (None, None),
            Component::Cache => stack.cache = None,
            Component::Rabbitmq => stack.queue = None,
            Component::Qdrant => stack.vector = None,
            Component::Otel => stack.collector = Some(Collector::Held { own_backend: true }),
            _ => {}
        }
        let reason = StepFailure {
            reason: "SecretNotFound",
            message: "create it".to_owned(),
            needs_an_edit: false,
            waits: false,
        };
        stack.held.insert(*component, reason);
    }
    stack
}

#[test]
fn backups_add_a_cron_job_and_what_its_pods_need() {
    let mut names = names(&minimal_stack().backed_up());
    names.retain(|name| !MINIMAL.contains(&name.as_str()));
    let expected = [
        "NetworkPolicy/acme-backup",
        "NetworkPolicy/acme-verify",
        "ServiceAccount/acme-backup",
        "ServiceAccount/acme-verify",
        "ConfigMap/acme-backup",
        "PersistentVolumeClaim/acme-backup",
        "CronJob/acme-backup",
        "CronJob/acme-verify",
    ];
    assert_eq!(names, expected);
}

#[test]
fn webhooks_add_a_deployment_and_what_its_pod_needs() {
    let expected = [
        "NetworkPolicy/acme-webhooks",
        "ServiceAccount/acme-webhooks",
        "Deployment/acme-webhooks",
    ];
    assert_eq!(beyond_minimal(&minimal_stack().webhooks()), expected);
    let observed = names(&minimal_stack().observability());
    let mut names = names(&minimal_stack().observability().webhooks());
    names.retain(|name| !observed.contains(name));
    let [policy, account, deployment] = expected;
    let metrics = "Service/acme-webhooks-metrics";
    assert_eq!(names, [policy, account, metrics, deployment]);
}

#[test]
fn every_migration_knows_the_receivers_of_webhooks() {
    let told = |stack: &ValidatedStack| {
        let children = build(stack).children;
        let deployments = children.deployments.into_iter();
        let jobs = children.cron_jobs.into_iter();
        let jobs = jobs.map(|job| job.spec.unwrap().job_template.spec.unwrap().template);
        let templates = deployments
            .map(|deployment| deployment.spec.unwrap().template)
            .chain(jobs);
        let containers = templates.flat_map(|template| {
            let pod = template.spec.unwrap();
            pod.init_containers.unwrap_or_default()
        });
        let migrations =
            containers.filter(|container| container.args == Some(vec!["migrate".to_owned()]));
        let told = migrations.map(|container| {
            let mut env = container.env.unwrap().into_iter();
            env.any(|variable| variable.name == "WEBHOOKS")
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(&every_profile().webhooks()), [true; 4]);
    assert_eq!(told(&every_profile()), [false; 3]);
}

#[test]
fn a_minimal_stack_has_exactly_these_children() {
    assert_eq!(names(&minimal_stack()), MINIMAL);
}

#[test]
fn only_a_stack_that_keeps_no_data_discards_that_of_a_part_that_is_off() {
    let discarded = |stack: ValidatedStack| build(&stack).discarded;
    assert_eq!(discarded(minimal_stack()), []);
    assert_eq!(discarded(every_profile().deleting_data()), []);
    assert_eq!(
        discarded(minimal_stack().deleting_data()),
        [
            Component::Cache,
            Component::Rabbitmq,
            Component::Telemetry,
            Component::Qdrant,
        ]
    );
}

#[test]
fn a_stack_that_keeps_data_releases_that_of_every_store_in_whatever_state_it_is() {
    let released = |stack: ValidatedStack| build(&stack).released;
    assert_eq!(released(minimal_stack().deleting_data()), []);
    for stack in [
        minimal_stack().external_vector(),
        holding(every_profile(), &[Component::Postgres]),
    ] {
        assert_eq!(
            released(stack),
            [
                Component::Postgres,
                Component::Cache,
                Component::Rabbitmq,
                Component::Telemetry,
                Component::Qdrant,
            ]
        );
    }
}

/// Returns the names of a stack's children that the minimal stack does not have.
fn beyond_minimal(stack: &ValidatedStack) -> Vec<String> {
    let mut found = names(stack);
    found.retain(|name| !MINIMAL.contains(&name.as_str()));
    found
}

#[test]
fn children_of_two_stacks_never_have_the_same_name() {
    let stacks = [
        every_profile().webhooks(),
        every_profile().standalone(),
        every_profile().gateway_api().host("go.test").tls("go-tls"),
    ];
    let all: BTreeSet<String> = stacks.iter().flat_map(names).collect();
    for name in &all {
        let (kind, name) = name.split_once('/').unwrap();
        // A stack has the name of another stack and a hyphen before its own suffix.
        for other in &all {
            let (of_kind, other) = other.split_once('/').unwrap();
            let Some(suffix) = other.strip_prefix("acme") else {
                panic!("{other}");
            };
            let meets = kind == of_kind && name != other && name.ends_with(suffix);
            assert!(!meets, "{kind}: {name} is also {other} of another stack");
        }
    }
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
    let children = build(&every_profile().webhooks().stopped()).children;
    let deployments = children.deployments.into_iter();
    let sets = children.stateful_sets.into_iter();
    let replicas: Vec<_> = deployments
        .map(|child| child.spec.unwrap().replicas)
        .chain(sets.map(|child| child.spec.unwrap().replicas))
        .collect();
    assert_eq!(replicas, vec![Some(0); replicas.len()]);
}

#[test]
fn whatever_selects_the_pods_of_a_component_uses_the_frozen_labels() {
    let stack = every_profile().webhooks();
    let children = build(&stack).children;
    let mut selectors: BTreeMap<String, Vec<LabelSelector>> = BTreeMap::new();
    let mut add = |name: String, selector: LabelSelector| {
        selectors.entry(name).or_default().push(selector);
    };
    for child in children.deployments {
        add(child.name_any(), child.spec.unwrap().selector);
    }
    for child in children.stateful_sets {
        add(child.name_any(), child.spec.unwrap().selector);
    }
    for child in children.services {
        let selector = LabelSelector {
            match_labels: child.spec.as_ref().unwrap().selector.clone(),
            ..LabelSelector::default()
        };
        add(child.name_any(), selector);
    }
    for child in children.disruption_budgets {
        add(child.name_any(), child.spec.unwrap().selector.unwrap());
    }
    for child in children.network_policies {
        add(child.name_any(), child.spec.unwrap().pod_selector.unwrap());
    }
    let whole_stack = selectors.remove("acme-default-deny").unwrap();
    assert_eq!(whole_stack[0].match_labels.as_ref().unwrap().len(), 2);
    let stores = stores::managed(&stack).into_iter();
    for component in [Component::App, Component::Worker, Component::Webhooks] {
        let metrics = selectors.remove(&monitoring::service_name("acme", component));
        let labels = metrics.unwrap()[0].match_labels.clone();
        assert_eq!(labels, Some(selector_labels("acme", component)));
    }
    // No other Service selects the workers, the purge or the delivery of webhooks, and a single pod has no budget.
    let served = [
        (Component::App, 4),
        (Component::Gateway, 4),
        (Component::Worker, 2),
        (Component::Purge, 1),
        (Component::Webhooks, 2),
        (Component::Otel, 3),
    ];
    for (component, uses) in stores.map(|(store, _)| (store.component, 3)).chain(served) {
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
fn every_child_belongs_to_the_stack_except_those_that_hold_data() {
    let stack = every_profile();
    let owner = Some(vec![stack.identity.owner.clone()]);
    let children = build(&stack).children;
    assert!(
        children
            .deployments
            .iter()
            .all(|child| child.metadata.owner_references == owner)
    );
    assert!(
        children
            .ingresses
            .iter()
            .all(|child| child.metadata.owner_references == owner)
    );
    assert!(
        children
            .claims
            .iter()
            .all(|child| child.metadata.owner_references.is_none())
    );
}
