//! Tests of the operator against an in-memory API server: creation, drift correction, pruning and untouched objects.

mod app_scaling;
mod autoscaling;
mod backends;
mod backup;
mod blast_radius;
mod certificate;
mod class;
mod cluster;
mod credentials;
mod database_move;
mod definition;
mod drift;
mod external;
mod faults;
mod gateway_api;
mod hosts;
mod keys;
mod lifecycle;
mod missing_pods;
mod monitoring;
mod observability;
mod order;
mod ownership;
mod plan_only;
mod pod_contents;
mod pod_templates;
mod probes;
mod profiles;
mod purge;
mod queue;
mod rabbitmq_cluster;
mod traces;
mod upgrade;
mod vector;
mod wake;
mod webhooks;

/// Returns the children of the base stack and those that are added, in the order of `World::children`.
fn with(added: &[&[&str]]) -> Vec<String> {
    let added = added.iter().copied().flatten();
    let mut names: Vec<String> = lifecycle::CHILDREN
        .iter()
        .chain(added)
        .map(|name| (*name).to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}
