//! Tests of the operator against an in-memory API server: creation, drift correction, pruning and untouched objects.

mod backends;
mod blast_radius;
mod certificate;
mod drift;
mod external;
mod faults;
mod gateway_api;
mod keys;
mod lifecycle;
mod monitoring;
mod observability;
mod order;
mod profiles;
mod queue;
mod traces;
mod vector;

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
