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
    desired::{Children, Desired, GatewayObjects, MonitoringObjects},
    metadata::StackIdentity,
};
use tokio::time::Instant;

use super::context::Scope;
use group::Group;
use pass::Pass;

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
        tracing::info!(stack = %identity.name, namespace = %identity.namespace, "the stack is gone although the watch has not shown its deletion, so nothing is written");
        return None;
    }
    let Desired {
        mut children,
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
    children.write(&mut pass).await;
    let mut kinds = Children::ends();
    pass.release(&kinds, &released).await;
    if let Some(gateway) = gateway {
        gateway.write(&mut pass).await;
        kinds.extend(GatewayObjects::ends());
    }
    pass.held = held;
    if prunable {
        kinds.reverse();
        pass.prune(&kinds).await;
        pass.discard(&kinds, &discarded).await;
    }
    // Monitoring objects never delay the stack, and their failure does not fail it.
    let mut watchers = Pass::new(scope, identity, deadline);
    if let Some(monitoring) = monitoring {
        monitoring.write(&mut watchers).await;
        watchers.prune(&MonitoringObjects::ends()).await;
    }
    Some(pass.finish(watchers))
}
