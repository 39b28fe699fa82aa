//! Tests of the children of a stack of which components are held.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;

use super::*;

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
fn programs_whose_database_is_held_keep_the_limits_of_their_connections() {
    let cluster = || {
        every_profile()
            .cloud_native_pg(json!({}))
            .webhooks()
            .backed_up()
    };
    for stack in [every_profile().webhooks().backed_up(), cluster()] {
        let policies =
            ["purge", "webhooks", "backup"].map(|name| format!("NetworkPolicy/acme-{name}"));
        let whole = names(&stack);
        assert!(
            policies.iter().all(|policy| whole.contains(policy)),
            "{whole:?}"
        );
        let desired = build(&holding(stack.clone(), &[Component::Postgres]));
        let left = names(&holding(stack, &[Component::Postgres]));
        assert!(
            !policies.iter().any(|policy| left.contains(policy)),
            "{left:?}"
        );
        let of_policies = [Component::Purge, Component::Webhooks, Component::Backup];
        assert!(
            of_policies
                .iter()
                .all(|component| desired.held.contains(component))
        );
    }
    // A backup that runs reaches the servers, whose policy waits for nothing.
    let of_servers = |stack: &ValidatedStack| {
        let mut policies = build(stack).children.network_policies.into_iter();
        policies.find(|policy| policy.name_any() == "acme-pg")
    };
    assert_eq!(
        of_servers(&holding(cluster(), &[Component::Postgres])),
        of_servers(&cluster())
    );
}
