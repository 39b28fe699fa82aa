//! Fourth step: writes the desired objects to the cluster. It decides nothing about their content. The kinds and their
//! order stand in the table of `operator/core/src/model/kinds.rs`.
//!
//! A child is written only if its live object differs from what is rendered. Children of one kind are written side by
//! side. A child that fails, or whose request hangs, does not block the others, except that no pod is given a Secret that
//! could not be stored. An object that has a child's name but does not belong to the stack is never changed.

mod attempt;
mod data;
mod error;
mod group;
mod live;
mod owner;
mod pass;
mod pause;
mod prune;
mod spare;
mod withheld;
mod writes;

pub use error::{ApplyError, Cause, Failure};
pub use live::{ADDRESS_PATIENCE, observe};
pub use pass::Applied;
pub use writes::Writes;

use std::time::Duration;

use shortener_operator_core::model::{
    desired::{
        BrokerObjects, Children, DatabaseObjects, Desired, GatewayObjects, MonitoringObjects,
    },
    metadata::StackIdentity,
};
use tokio::time::Instant;

use super::context::Scope;
use group::Group;
use pass::{Pass, Treatment};

/// Time for the writes of a step. It leaves a reconcile the time to report.
const TIME: Duration = Duration::from_secs(20);

/// Suspends what a paused stack would start by itself, and changes nothing else.
pub async fn pause(scope: &Scope, identity: &StackIdentity) -> Applied {
    let deadline = Instant::now() + TIME;
    let mut pass = Pass::new(scope, identity, deadline);
    pass.suspend().await;
    pass.finish(Pass::new(scope, identity, deadline))
}

/// Writes the children that differ, then deletes those that are no longer desired. Returns `None` without a change if a
/// child would have to be created for a stack that is gone.
pub async fn apply(scope: &Scope, identity: &StackIdentity, desired: Desired) -> Option<Applied> {
    let deadline = Instant::now() + TIME;
    if owner::is_gone(scope, identity, &desired).await {
        tracing::info!(stack = %identity.name, namespace = %identity.namespace, "the stack was deleted, which the watch has not reported yet, so nothing is written");
        return None;
    }
    let Desired {
        mut children,
        database,
        broker,
        gateway,
        monitoring,
        discarded,
        released,
        prunable,
        spared,
        held,
    } = desired;
    let mut pass = Pass::new(scope, identity, deadline);
    if let Some(busy) = spared {
        pass.spare(&busy, &mut children).await;
    }
    write(&mut pass, children).await;
    let mut kinds = Children::ends();
    pass.release(&kinds, &released).await;
    if let Some(DatabaseObjects { clusters, poolers }) = database {
        pass.write(clusters, Treatment::Data).await;
        pass.apply(poolers).await;
        pass.release(&DatabaseObjects::ends(), &released).await;
        kinds.extend(DatabaseObjects::ends());
    }
    if let Some(BrokerObjects { rabbitmq_clusters }) = broker {
        pass.write(rabbitmq_clusters, Treatment::Data).await;
        pass.release(&BrokerObjects::ends(), &released).await;
        kinds.extend(BrokerObjects::ends());
    }
    if let Some(gateway) = gateway {
        let GatewayObjects {
            reference_grants,
            http_routes,
        } = gateway;
        pass.apply_where_served(reference_grants).await;
        pass.apply_where_served(http_routes).await;
        kinds.extend(GatewayObjects::ends());
    }
    pass.held = held;
    if prunable {
        kinds.reverse();
        pass.prune(&kinds).await;
        // What another operator runs goes with the stack.
        let mut volumes = Children::ends();
        volumes.reverse();
        pass.discard(&volumes, &discarded).await;
    }
    let mut watchers = Pass::new(scope, identity, deadline);
    if let Some(monitoring) = monitoring {
        monitor(&mut watchers, monitoring).await;
    }
    Some(pass.finish(watchers))
}

/// Writes the monitoring objects. They never delay the stack, and their failure does not fail it.
async fn monitor(watchers: &mut Pass<'_>, objects: MonitoringObjects) {
    let MonitoringObjects {
        service_monitors,
        prometheus_rules,
    } = objects;
    watchers.apply_where_served(service_monitors).await;
    watchers.apply_where_served(prometheus_rules).await;
    watchers.prune(&MonitoringObjects::ends()).await;
}

/// Writes the children that differ, kind by kind in the order of the table of kinds, which has the reasons.
async fn write(pass: &mut Pass<'_>, children: Children) {
    let Children {
        network_policies,
        service_accounts,
        secrets,
        config_maps,
        claims,
        services,
        stateful_sets,
        deployments,
        cron_jobs,
        autoscalers,
        disruption_budgets,
        ingresses,
    } = children;
    pass.apply(network_policies).await;
    pass.apply(service_accounts).await;
    pass.apply_secrets(secrets).await;
    pass.apply(config_maps).await;
    pass.apply_claims(claims).await;
    pass.apply(services).await;
    pass.apply_workloads(stateful_sets).await;
    pass.apply_workloads(deployments).await;
    pass.apply_workloads(cron_jobs).await;
    pass.apply(autoscalers).await;
    pass.apply(disruption_budgets).await;
    pass.apply(ingresses).await;
}
