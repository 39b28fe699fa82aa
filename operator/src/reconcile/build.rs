//! From a validated stack to its child objects. Pure: no client, clock, environment or random source.
//!
//! One line per child object; each is built by the file of its name. A child that this stack does not have is `None`.

pub mod app;
mod backends;
pub mod cache;
pub mod disruption_budget;
pub mod gateway;
pub mod network_policy;
mod pod;
pub mod postgres;
pub mod rabbitmq;
pub mod secret;
pub mod service_account;
pub mod store;
pub mod worker;

use super::{
    desired::Desired,
    stack::{Routing, ValidatedStack},
};
use crate::metadata::Component;

/// Every child object that the stack should have.
pub fn build(stack: &ValidatedStack) -> Desired {
    let stores = stack.managed_stores();
    let stores = || stores.iter().copied();
    let workers = stack.queue.as_ref().map(|queue| &queue.workers);
    Desired {
        service_accounts: all([
            Some(service_account::build(stack, Component::App)),
            Some(service_account::build(stack, Component::Gateway)),
            workers.map(|_| service_account::build(stack, Component::Worker)),
        ])
        .chain(stores().map(|(component, _)| service_account::build(stack, component)))
        .collect(),
        secrets: all([Some(secret::checksum(stack))])
            .chain(stores().map(|(component, store)| secret::store(stack, component, store)))
            .collect(),
        config_maps: all([
            gateway::config_map(stack),
            cache::config_map(stack),
            rabbitmq::config_map(stack),
        ])
        .collect(),
        claims: stores()
            .filter_map(|(component, store)| store::claim(stack, component, store))
            .collect(),
        network_policies: all([
            Some(network_policy::default_deny(stack)),
            Some(network_policy::app(stack)),
            Some(network_policy::gateway(stack)),
            workers.map(|_| network_policy::worker(stack)),
        ])
        .chain(stores().map(|(component, _)| network_policy::store(stack, component)))
        .collect(),
        services: all([Some(app::service(stack)), Some(gateway::service(stack))])
            .chain(stores().map(|(component, _)| store::service(stack, component)))
            .collect(),
        stateful_sets: all([
            postgres::stateful_set(stack),
            cache::stateful_set(stack),
            rabbitmq::stateful_set(stack),
        ])
        .collect(),
        deployments: all([
            Some(app::deployment(stack)),
            worker::deployment(stack),
            gateway::deployment(stack),
        ])
        .collect(),
        disruption_budgets: all([
            disruption_budget::build(stack, Component::App, stack.app.replicas),
            disruption_budget::build(stack, Component::Gateway, stack.gateway.replicas),
            workers.and_then(|workers| {
                disruption_budget::build(stack, Component::Worker, workers.replicas)
            }),
        ])
        .collect(),
        ingresses: all([gateway::api_ingress(stack), gateway::ingress(stack)]).collect(),
        discarded: discarded(stack),
        // The gateway is rendered from the address of the app's Service, so until that is known it may not be deleted.
        prunable: !matches!(
            stack.gateway.routing,
            Routing::Standalone { upstream: None, .. }
        ),
    }
}

/// The stores whose data goes: their part of the stack is off, and the stack keeps no data.
fn discarded(stack: &ValidatedStack) -> Vec<Component> {
    let optional = [
        (Component::Cache, stack.cache.is_none()),
        (Component::Rabbitmq, stack.queue.is_none()),
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
