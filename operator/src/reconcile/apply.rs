//! Fourth step: writes the desired objects to the cluster. It decides nothing about their content.
//!
//! A child is written only if it differs (see [`crate::kubernetes::ledger`]). A child that fails does not block the
//! others. An object that has a child's name but does not belong to the stack is never changed.

mod error;
mod live;
mod pass;
mod prune;

pub use error::{ApplyError, Cause, Failure};
pub use live::observe;

use shortener_operator_core::model::{
    desired::{Desired, Monitoring},
    live::Applied,
    metadata::StackIdentity,
};

use super::context::Scope;
use pass::Pass;

/// Writes the children that differ, then deletes those that are no longer desired.
///
/// # Errors
/// [`ApplyError`] names every child that could not be written; the others are in place. Failed monitoring objects are
/// no error: [`monitoring_refused`](shortener_operator_core::model::live::Live::monitoring_refused) reports them.
pub async fn apply(
    scope: &Scope,
    identity: &StackIdentity,
    desired: Desired,
) -> Result<Applied, ApplyError> {
    let Desired {
        service_accounts,
        secrets,
        config_maps,
        claims,
        network_policies,
        services,
        stateful_sets,
        deployments,
        disruption_budgets,
        ingresses,
        monitoring,
        discarded,
        prunable,
    } = desired;
    let mut pass = Pass::new(scope, identity);
    // The policies come before the pods that they protect.
    pass.apply(network_policies).await;
    // Objects that pods refer to come before the pods.
    pass.apply(service_accounts).await;
    let secrets_exist = pass.apply_secrets(secrets).await;
    pass.apply(config_maps).await;
    // The volume outlives its StatefulSet, so it is an object of its own. It never comes before its password: a
    // volume without one looks like a database whose credentials are lost.
    if secrets_exist {
        pass.apply(claims).await;
    }
    // Names must resolve before a client looks them up.
    pass.apply(services).await;
    // Stores come before their clients.
    pass.apply(stateful_sets).await;
    pass.apply(deployments).await;
    pass.apply(disruption_budgets).await;
    // Public routes come last.
    pass.apply(ingresses).await;
    if prunable {
        pass.prune().await;
        pass.discard(&discarded).await;
    }
    // Monitoring objects never delay the stack, and their failure does not fail it.
    let mut watchers = Pass::new(scope, identity);
    if let Some(Monitoring {
        service_monitors,
        rules,
    }) = monitoring
    {
        watchers.apply_where_served(service_monitors).await;
        watchers.apply_where_served(rules).await;
        watchers.prune_monitoring().await;
    }
    pass.finish(watchers)
}
