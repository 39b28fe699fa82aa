//! Third step: from a validated stack to its child objects. Pure: no client, clock, environment or random source.
//!
//! One line per child object. The file of the same name builds it. A child that this stack does not have is `None`.

pub mod app;
mod backends;
pub mod cache;
mod deployment;
pub mod disruption_budget;
pub mod gateway;
pub mod monitoring;
pub mod network_policy;
pub mod otel;
mod pod;
pub mod postgres;
pub mod qdrant;
pub mod rabbitmq;
pub mod secret;
mod service;
pub mod service_account;
pub mod store;
pub mod telemetry;
mod volume;
pub mod worker;

use k8s_openapi::api::{
    core::v1::{Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};

use crate::model::{
    desired::{Children, Desired, MonitoringObjects},
    metadata::Component,
    stack::{Routing, ValidatedStack},
};

/// Returns every child object that the stack should have.
pub fn build(stack: &ValidatedStack) -> Desired {
    Desired {
        children: children(stack),
        monitoring: stack.has_monitoring_kinds.then(|| MonitoringObjects {
            service_monitors: all([monitoring::service_monitor(stack)]).collect(),
            prometheus_rules: all([monitoring::prometheus_rule(stack)]).collect(),
        }),
        discarded: discarded(stack),
        // The gateway is rendered from the address of the app's Service. Until that is known, the gateway must not be
        // pruned.
        prunable: !matches!(
            stack.gateway.routing,
            Routing::Standalone { upstream: None, .. }
        ),
    }
}

fn children(stack: &ValidatedStack) -> Children {
    let stores = stack.managed_stores();
    let stores = || stores.iter().copied();
    Children {
        network_policies: network_policies(stack),
        service_accounts: service_accounts(stack),
        secrets: all([Some(secret::checksum(stack))])
            .chain(stores().map(|(component, store)| secret::store(stack, component, store)))
            .collect(),
        config_maps: all([
            gateway::config_map(stack),
            cache::config_map(stack),
            rabbitmq::config_map(stack),
            otel::config_map(stack),
            telemetry::config_map(stack),
            monitoring::config_map(stack),
        ])
        .collect(),
        claims: stores()
            .filter_map(|(component, store)| store::claim(stack, component, store))
            .collect(),
        services: services(stack),
        stateful_sets: all([
            postgres::stateful_set(stack),
            cache::stateful_set(stack),
            rabbitmq::stateful_set(stack),
            telemetry::stateful_set(stack),
            qdrant::stateful_set(stack),
        ])
        .collect(),
        deployments: all([
            // Before the components that send to it.
            otel::deployment(stack),
            Some(app::deployment(stack)),
            worker::deployment(stack),
            gateway::deployment(stack),
        ])
        .collect(),
        disruption_budgets: disruption_budgets(stack),
        ingresses: all([gateway::api_ingress(stack), gateway::ingress(stack)]).collect(),
    }
}

fn service_accounts(stack: &ValidatedStack) -> Vec<ServiceAccount> {
    all([
        Some(Component::App),
        Some(Component::Gateway),
        stack.queue.as_ref().map(|_| Component::Worker),
        stack.own_collector().map(|_| Component::Otel),
    ])
    .chain(store_components(stack))
    .map(|component| service_account::build(stack, component))
    .collect()
}

fn network_policies(stack: &ValidatedStack) -> Vec<NetworkPolicy> {
    let stores = store_components(stack).map(|component| network_policy::store(stack, component));
    all([
        Some(network_policy::default_deny(stack)),
        Some(network_policy::app(stack)),
        Some(network_policy::gateway(stack)),
        stack.queue.as_ref().map(|_| network_policy::worker(stack)),
        stack.own_collector().map(|_| network_policy::otel(stack)),
    ])
    .chain(stores)
    .collect()
}

fn services(stack: &ValidatedStack) -> Vec<Service> {
    let stores = store_components(stack).map(|component| store::service(stack, component));
    let workers = stack.queue.as_ref();
    all([
        Some(app::service(stack)),
        Some(gateway::service(stack)),
        otel::service(stack),
        monitoring::service(stack, Component::App),
        workers.and_then(|_| monitoring::service(stack, Component::Worker)),
    ])
    .chain(stores)
    .collect()
}

fn disruption_budgets(stack: &ValidatedStack) -> Vec<PodDisruptionBudget> {
    all([
        Some((Component::App, stack.app.replicas)),
        Some((Component::Gateway, stack.gateway.replicas)),
        stack
            .queue
            .as_ref()
            .map(|queue| (Component::Worker, queue.workers.replicas)),
    ])
    .filter_map(|(component, replicas)| disruption_budget::build(stack, component, replicas))
    .collect()
}

/// Returns the ports of a store.
fn ports(store: Component) -> &'static [store::Port] {
    match store {
        Component::Postgres => &postgres::PORTS,
        Component::Cache => &cache::PORTS,
        Component::Rabbitmq => &rabbitmq::PORTS,
        Component::Telemetry => &telemetry::PORTS,
        Component::Qdrant => &qdrant::PORTS,
        Component::App
        | Component::Gateway
        | Component::Worker
        | Component::Otel
        | Component::Stack => &[],
    }
}

/// Returns the stores that the operator runs.
fn store_components(stack: &ValidatedStack) -> impl Iterator<Item = Component> {
    let stores = stack.managed_stores().into_iter();
    stores.map(|(component, _)| component)
}

/// Returns the stores whose data is to be deleted: their part of the stack is off, and the deletion policy deletes
/// data.
fn discarded(stack: &ValidatedStack) -> Vec<Component> {
    let optional = [
        (Component::Cache, stack.cache.is_none()),
        (Component::Rabbitmq, stack.queue.is_none()),
        (Component::Telemetry, stack.collector.is_none()),
        (Component::Qdrant, stack.vector.is_none()),
    ];
    let off = optional
        .into_iter()
        .filter(|(_, off)| *off && stack.delete_data);
    off.map(|(component, _)| component).collect()
}

fn all<T, const N: usize>(children: [Option<T>; N]) -> impl Iterator<Item = T> {
    children.into_iter().flatten()
}

#[cfg(test)]
mod tests;
