//! The components whose pods a field concerns, and may restart.

use crate::model::metadata::Component;

/// Settings of the pods of one component.
const POD_SETTINGS: [&str; 3] = ["image", "podTemplate", "resources"];

/// Returns the components whose pods a field concerns.
pub(super) fn concerned(fields: &[&str]) -> Vec<Component> {
    use Component::{
        App, Cache, Gateway, Otel, Postgres, Qdrant, Rabbitmq, Telemetry, Webhooks, Worker,
    };
    let setting = |place: usize| {
        let field = fields.get(place);
        field.is_some_and(|field| POD_SETTINGS.contains(field))
    };
    let store = |component: Component, clients: &[Component]| match fields.get(1..) {
        Some(["managed", _, ..]) => vec![component],
        _ => [&[component], clients].concat(),
    };
    match fields {
        ["gateway" | "workers", "replicas" | "autoscaling", ..] => vec![],
        // The connections of each pod to the database follow from their number.
        ["app", "replicas" | "autoscaling", ..] => vec![App],
        // The pods of the other programs migrate the database as the app does.
        ["app", ..] => vec![App, Worker, Webhooks],
        ["workers", "purge", ..] => vec![App, Worker],
        ["workers", ..] => vec![Worker],
        ["gateway", ..] if setting(1) => vec![Gateway],
        // The public URL follows from them.
        ["gateway"] | ["gateway", "hosts" | "tls", ..] => vec![App, Gateway, Webhooks],
        ["gateway", ..] => vec![App, Gateway],
        // A worker can remove expired data, too.
        ["links", "clicks", ..] => vec![App, Worker],
        // Every migration writes the receivers to the database.
        ["links"] | ["links", "webhooks", ..] => vec![App, Worker, Webhooks],
        // The messages contain short URLs.
        ["publicUrl", ..] => vec![App, Webhooks],
        ["rateLimits" | "links" | "console" | "logs", ..] => vec![App],
        // The app compares the size of the data with it.
        ["database", "managed", "storage"] => vec![Postgres, App],
        ["database", ..] => store(Postgres, &[App, Worker, Webhooks]),
        ["cache", ..] => store(Cache, &[App]),
        ["queue", ..] => store(Rabbitmq, &[App, Worker]),
        ["vector", ..] => store(Qdrant, &[App, Worker]),
        ["observability", "collector", "managed", _, ..] => vec![Otel],
        ["observability", "backend", "managed", _, ..] => vec![Telemetry],
        ["observability", ..] => vec![Otel, Telemetry, App, Worker, Webhooks],
        ["monitoring", ..] => vec![Telemetry],
        ["imagePullSecrets", ..] => Component::WITH_PODS.to_vec(),
        ["profiles", ..] => {
            let mut all = Component::WITH_PODS.to_vec();
            all.retain(|component| *component != Postgres);
            all
        }
        _ => vec![],
    }
}
