//! From a validated stack to its child objects. Pure: no client, clock, environment or random source.
//!
//! One line per child object; each is built by the file of its name. A child that this stack does not have is `None`.

pub mod app;
pub mod disruption_budget;
pub mod gateway;
pub mod network_policy;
mod pod;
pub mod postgres;
pub mod secret;
pub mod service_account;

use super::{
    desired::Desired,
    stack::{Routing, ValidatedStack},
};
use crate::metadata::Component;

/// Every child object that the stack should have.
pub fn build(stack: &ValidatedStack) -> Desired {
    let managed = stack.database.managed();
    Desired {
        service_accounts: present([
            Some(service_account::build(stack, Component::App)),
            Some(service_account::build(stack, Component::Gateway)),
            managed.map(|_| service_account::build(stack, Component::Postgres)),
        ]),
        secrets: present([
            Some(secret::checksum(stack)),
            managed.map(|database| secret::postgres(stack, database)),
        ]),
        config_maps: present([gateway::config_map(stack)]),
        claims: present([managed.map(|database| postgres::claim(stack, database))]),
        network_policies: present([
            Some(network_policy::default_deny(stack)),
            Some(network_policy::app(stack)),
            Some(network_policy::gateway(stack)),
            managed.map(|_| network_policy::postgres(stack)),
        ]),
        services: present([
            Some(app::service(stack)),
            Some(gateway::service(stack)),
            managed.map(|_| postgres::service(stack)),
        ]),
        stateful_sets: present([managed.map(|database| postgres::stateful_set(stack, database))]),
        deployments: present([Some(app::deployment(stack)), gateway::deployment(stack)]),
        disruption_budgets: present([
            disruption_budget::build(stack, Component::App, stack.app.replicas),
            disruption_budget::build(stack, Component::Gateway, stack.gateway.replicas),
        ]),
        ingresses: present([gateway::api_ingress(stack), gateway::ingress(stack)]),
        // The gateway is rendered from the address of the app's Service, so until that is known it may not be deleted.
        prunable: !matches!(
            stack.gateway.routing,
            Routing::Standalone { upstream: None, .. }
        ),
    }
}

fn present<T, const N: usize>(children: [Option<T>; N]) -> Vec<T> {
    children.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
