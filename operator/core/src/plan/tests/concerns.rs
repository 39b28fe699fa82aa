//! The components whose pods a field concerns, and may restart.

use crate::model::metadata::Component;

/// Settings of the pods of one component.
const POD_SETTINGS: [&str; 3] = ["image", "podTemplate", "resources"];

/// Returns the components whose pods a field concerns.
pub(super) fn concerned(fields: &[&str]) -> Vec<Component> {
    use Component::{App, Cache, Gateway, Otel, Postgres, Qdrant, Rabbitmq, Telemetry, Worker};
    let setting = |place: usize| {
        let field = fields.get(place);
        field.is_some_and(|field| POD_SETTINGS.contains(field))
    };
    let store = |component: Component| match fields.get(1..) {
        Some(["managed", _, ..]) => vec![component],
        _ => vec![component, App, Worker],
    };
    match fields {
        ["gateway" | "workers", "replicas" | "autoscaling", ..] => vec![],
        // The connections of each pod to the database follow from their number.
        ["app", "replicas" | "autoscaling", ..] => vec![App],
        // The workers' pods migrate the database as the app does.
        ["app", ..] => vec![App, Worker],
        ["workers", "purge", ..] => vec![App, Worker],
        ["workers", ..] => vec![Worker],
        ["gateway", ..] if setting(1) => vec![Gateway],
        ["gateway", ..] => vec![App, Gateway],
        // A worker can remove expired data, too.
        ["links", "clicks", ..] => vec![App, Worker],
        [
            "rateLimits" | "links" | "console" | "logs" | "publicUrl",
            ..,
        ] => vec![App],
        // The app compares the size of the data with it.
        ["database", "managed", "storage"] => vec![Postgres, App],
        ["database", ..] => store(Postgres),
        ["cache", ..] => store(Cache),
        ["queue", ..] => store(Rabbitmq),
        ["vector", ..] => store(Qdrant),
        ["observability", "collector", "managed", _, ..] => vec![Otel],
        ["observability", "backend", "managed", _, ..] => vec![Telemetry],
        ["observability", ..] => vec![Otel, Telemetry, App, Worker],
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
