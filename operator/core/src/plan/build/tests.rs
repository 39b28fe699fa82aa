//! Tests of the children as a whole.

mod cluster;
mod pods;
mod programs;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube_core::{Resource, ResourceExt};

use super::*;
use crate::{
    api::Profile,
    model::{
        desired::DesiredSecret, failure::StepFailure, metadata::selector_labels, stack::Collector,
    },
    testing::{
        shared::combinations,
        stack::{every_profile, minimal_stack},
    },
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
            Component::Postgres => stack.database = None,
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
fn a_held_component_lacks_its_objects_and_no_other_does() {
    let table: [&[Component]; 5] = [
        &[Component::Cache],
        &[Component::Rabbitmq, Component::Worker],
        &[Component::Qdrant],
        &[Component::Otel, Component::Telemetry],
        &[Component::Gateway],
    ];
    for components in table {
        let whole = names(&every_profile());
        let stack = holding(every_profile(), components);
        let is_theirs = |name: &String| {
            let (_, name) = name.split_once('/').unwrap();
            let mut components = components.iter().map(|component| component.as_str());
            components.any(|it| name.starts_with(&format!("acme-{it}")))
        };
        let others: Vec<String> = whole.into_iter().filter(|name| !is_theirs(name)).collect();
        assert_eq!(names(&stack), others, "{components:?}");
        let desired = build(&stack);
        let held: Vec<Component> = desired.held.into_iter().collect();
        assert_eq!(held, components);
        assert_eq!(stack.profiles(), every_profile().profiles());
    }
}

#[test]
fn a_new_stack_without_its_database_has_its_stores_and_its_gateway_and_no_program() {
    let stack = holding(every_profile().webhooks(), &[Component::Postgres]);
    let names = names(&stack);
    for absent in ["app", "worker", "webhooks"] {
        let absent = format!("Deployment/acme-{absent}");
        assert!(!names.contains(&absent), "{absent}");
    }
    assert!(!names.contains(&"CronJob/acme-purge".to_owned()));
    for there in [
        "Deployment/acme-gateway",
        "StatefulSet/acme-cache",
        "StatefulSet/acme-rabbitmq",
        "Service/acme-app",
    ] {
        assert!(names.contains(&there.to_owned()), "{there}");
    }
    let held = build(&stack).held;
    assert!(DATABASE_CLIENTS.iter().all(|client| held.contains(client)));
}

#[test]
fn a_program_that_keeps_its_template_is_scaled() {
    for held in [Component::Cache, Component::Postgres, Component::App] {
        let mut stack = holding(every_profile(), &[held]);
        let template = PodTemplateSpec {
            metadata: Some(stack.identity.child("live", Component::App)),
            ..PodTemplateSpec::default()
        };
        stack
            .kept_templates
            .insert(Component::App, template.clone());
        stack.app.replicas = 7;
        let mut deployments = build(&stack).children.deployments.into_iter();
        let app = deployments.find(|deployment| deployment.name_any() == "acme-app");
        let spec = app.unwrap().spec.unwrap();
        assert_eq!(
            (spec.replicas, spec.template),
            (Some(7), template),
            "{held:?}"
        );
    }
}

#[test]
fn clients_of_a_held_collector_keep_their_template() {
    let stack = holding(every_profile(), &[Component::Otel, Component::Telemetry]);
    let deployments = |stack: &ValidatedStack| {
        let mut deployments = build(stack).children.deployments;
        deployments.retain(|deployment| deployment.name_any() != "acme-otel");
        deployments
    };
    assert_eq!(deployments(&stack), deployments(&every_profile()));
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

/// Returns the children that a profile adds to a stack with managed stores.
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
        Profile::Observability => vec![
            "ServiceAccount/acme-otel",
            "ConfigMap/acme-dashboards",
            "ConfigMap/acme-otel",
            "NetworkPolicy/acme-otel",
            "Service/acme-app-metrics",
            "Service/acme-otel",
            "Deployment/acme-otel",
        ],
        Profile::Vector => vec![
            "ServiceAccount/acme-qdrant",
            "Secret/acme-qdrant",
            "PersistentVolumeClaim/acme-qdrant",
            "NetworkPolicy/acme-qdrant",
            "Service/acme-qdrant",
            "StatefulSet/acme-qdrant",
        ],
    }
}

/// Returns the child that two profiles add only in combination.
fn added_together(chosen: &[Profile]) -> Option<&'static str> {
    let both = [Profile::Queue, Profile::Observability];
    both.iter()
        .all(|profile| chosen.contains(profile))
        .then_some("Service/acme-worker-metrics")
}

/// Returns the stack with a profile on.
fn with(stack: ValidatedStack, profile: Profile) -> ValidatedStack {
    match profile {
        Profile::Caching => stack.caching(),
        Profile::Queue => stack.queue(),
        Profile::Observability => stack.observability(),
        Profile::Vector => stack.vector(),
    }
}

#[test]
fn every_combination_of_profiles_has_exactly_the_children_of_its_parts() {
    for chosen in combinations() {
        let stack = chosen.iter().copied().fold(minimal_stack(), with);
        assert_eq!(stack.profiles(), chosen);
        let mut expected = MINIMAL.to_vec();
        expected.extend(chosen.iter().copied().flat_map(added));
        expected.extend(added_together(&chosen));
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
        [
            Component::Cache,
            Component::Rabbitmq,
            Component::Telemetry,
            Component::Qdrant,
        ]
    );
}

#[test]
fn a_stack_that_keeps_data_releases_that_of_every_store_that_it_does_not_run() {
    let released = |stack: ValidatedStack| build(&stack).released;
    assert_eq!(released(every_profile()), []);
    assert_eq!(released(minimal_stack().deleting_data()), []);
    assert_eq!(
        released(minimal_stack().external_vector()),
        [
            Component::Cache,
            Component::Rabbitmq,
            Component::Telemetry,
            Component::Qdrant,
        ]
    );
}

#[test]
fn a_profile_whose_store_is_external_adds_no_child() {
    assert_eq!(names(&minimal_stack().external_cache()), MINIMAL);
    assert_eq!(names(&minimal_stack().external_vector()), MINIMAL);
}

#[test]
fn a_queue_on_an_external_broker_adds_its_workers_only() {
    let mut found = names(&minimal_stack().external_queue());
    found.retain(|name| !MINIMAL.contains(&name.as_str()));
    assert_eq!(
        found,
        [
            "NetworkPolicy/acme-worker",
            "ServiceAccount/acme-worker",
            "Deployment/acme-worker",
        ]
    );
}

/// Returns the names of a stack's children that the minimal stack does not have.
fn beyond_minimal(stack: &ValidatedStack) -> Vec<String> {
    let mut found = names(stack);
    found.retain(|name| !MINIMAL.contains(&name.as_str()));
    found
}

#[test]
fn the_stacks_own_backend_is_a_store_beside_the_collector() {
    let with_collector = beyond_minimal(&minimal_stack().observability());
    let mut found = beyond_minimal(&minimal_stack().telemetry());
    found.retain(|name| !with_collector.contains(name));
    assert_eq!(
        found,
        [
            "NetworkPolicy/acme-telemetry",
            "ServiceAccount/acme-telemetry",
            "Secret/acme-telemetry",
            "ConfigMap/acme-telemetry",
            "PersistentVolumeClaim/acme-telemetry",
            "Service/acme-telemetry",
            "StatefulSet/acme-telemetry",
        ]
    );
}

#[test]
fn an_external_collector_adds_what_others_find_the_metrics_by_only() {
    assert_eq!(
        beyond_minimal(&minimal_stack().external_collector()),
        ["ConfigMap/acme-dashboards", "Service/acme-app-metrics"]
    );
}

#[test]
fn a_cluster_with_the_prometheus_operator_is_told_what_to_read_of_a_stack_that_is_observed() {
    let stack = minimal_stack().observability();
    let without = names(&stack);
    let mut found = names(&stack.with_monitoring_kinds());
    found.retain(|name| !without.contains(name));
    assert_eq!(found, ["ServiceMonitor/acme", "PrometheusRule/acme"]);
    assert_eq!(names(&minimal_stack().with_monitoring_kinds()), MINIMAL);
    let told = minimal_stack()
        .told("release", "prometheus")
        .with_monitoring_kinds();
    assert_eq!(
        beyond_minimal(&told),
        [
            "ConfigMap/acme-dashboards",
            "Service/acme-app-metrics",
            "ServiceMonitor/acme",
            "PrometheusRule/acme"
        ]
    );
    // Unwanted objects are pruned, except where the cluster lacks their kinds.
    assert!(
        build(&minimal_stack().with_monitoring_kinds())
            .monitoring
            .is_some()
    );
    assert!(build(&minimal_stack()).monitoring.is_none());
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

/// Returns the names of the children of a minimal stack that routes itself, but for these.
fn names_by_nginx(lacks: &[&str]) -> Vec<&'static str> {
    let ingresses = ["Ingress/acme-gateway-api", "Ingress/acme-gateway"];
    let mut names = names_without(&[&ingresses, lacks].concat());
    let app = names.iter().position(|name| *name == "Service/acme-app");
    names.insert(app.unwrap() + 1, "Service/acme-app-pods");
    names
}

#[test]
fn a_stack_that_routes_itself_has_no_ingress_and_knows_the_pods_of_the_app() {
    assert_eq!(names(&minimal_stack().standalone()), names_by_nginx(&[]));
    assert_eq!(
        names(&minimal_stack().conflict("links/older")),
        names_without(&["Ingress/acme-gateway-api", "Ingress/acme-gateway"])
    );
}

#[test]
fn a_stack_on_a_gateway_has_a_route_instead_of_ingresses() {
    let stack = minimal_stack().gateway_api();
    let mut expected = names_by_nginx(&[]);
    expected.push("HTTPRoute/acme");
    assert_eq!(names(&stack), expected);
    let secure = stack.clone().host("go.test").tls("go-tls");
    expected.insert(expected.len() - 1, "ReferenceGrant/acme-tls");
    assert_eq!(names(&secure), expected);
    // Another provider's objects are pruned, except where the cluster lacks their kinds.
    let mut elsewhere = minimal_stack();
    assert!(build(&elsewhere).gateway.is_none());
    elsewhere.has_gateway_kinds = true;
    assert_eq!(build(&elsewhere).gateway, Some(GatewayObjects::default()));
}

#[test]
fn a_gateway_of_its_own_waits_for_the_address_of_the_app() {
    assert_eq!(
        names(&minimal_stack().standalone().upstream(None)),
        names_by_nginx(&["ConfigMap/acme-gateway", "Deployment/acme-gateway"])
    );
}

#[test]
fn nothing_is_pruned_while_the_address_of_the_app_is_unknown() {
    assert!(build(&minimal_stack()).prunable);
    let stack = minimal_stack().standalone();
    assert!(build(&stack).prunable);
    assert!(!build(&stack.upstream(None)).prunable);
    assert!(!build(&minimal_stack().gateway_api().upstream(None)).prunable);
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
