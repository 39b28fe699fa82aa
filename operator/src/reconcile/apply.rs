//! From the desired objects to the cluster. Writes, and decides nothing about their content.
//!
//! A child is written only where it differs (see [`crate::ledger`]); one that fails does not hold up the others.
//! Objects of a child's name that belong to somebody else are never touched.

mod error;
mod live;
mod ownership;
mod pass;
mod prune;

pub use error::{ApplyError, Cause, Failure};
pub use live::{Applied, Live, Workload, observe};
pub(super) use ownership::{Ownership, ownership};

use super::desired::{Desired, Monitoring};
use crate::{context::Scope, metadata::StackIdentity};
use pass::Pass;

/// Writes what differs, then removes what is no longer wanted.
///
/// # Errors
/// [`ApplyError`] names every child that could not be written; the others are in place. What a Prometheus operator should
/// be told is none of them: [`Live::monitoring_refused`] tells of it.
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
    // Closed before anything runs that it protects.
    pass.apply(network_policies).await;
    // What pods refer to comes before the pods.
    pass.apply(service_accounts).await;
    let secrets_exist = pass.apply_secrets(secrets).await;
    pass.apply(config_maps).await;
    // The volume outlives its StatefulSet, so it is an object of its own. It never comes before its password: a volume
    // without one looks like a database whose credentials are lost.
    if secrets_exist {
        pass.apply(claims).await;
    }
    // Names resolve before somebody asks for them.
    pass.apply(services).await;
    // Stores before their clients.
    pass.apply(stateful_sets).await;
    pass.apply(deployments).await;
    pass.apply(disruption_budgets).await;
    // Public last.
    pass.apply(ingresses).await;
    if prunable {
        pass.prune().await;
        pass.discard(&discarded).await;
    }
    // Nothing of the stack waits for those who watch it, or fails with them.
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
