//! Fourth step: writes the desired objects to the cluster. It decides nothing about their content. The kinds and their
//! order stand in the table of `operator/core/src/model/kinds.rs`.
//!
//! A child is written only if it differs (see [`crate::kubernetes::ledger`]). Children of one kind are written side by
//! side. A child that fails, or whose request hangs, does not block the others, except that no pod is given a Secret that
//! could not be stored. An object that has a child's name but does not belong to the stack is never changed.

mod attempt;
mod data;
mod error;
mod group;
mod live;
mod pass;
mod prune;
mod spare;
mod withheld;

pub use error::{ApplyError, Cause, Failure};
pub use live::{ADDRESS_PATIENCE, observe};

use std::time::Duration;

use shortener_operator_core::model::{
    desired::{Children, Desired, GatewayObjects, MonitoringObjects},
    live::Live,
    metadata::StackIdentity,
};
use tokio::time::Instant;

use super::context::Scope;
use group::Group;
use pass::Pass;

/// Time for the writes of a step. It leaves a reconcile the time to report.
const TIME: Duration = Duration::from_secs(20);

/// Writes the children that differ, then deletes those that are no longer desired. Returns the live state, which names the
/// children that could not be written by component; the others are in place.
///
/// # Errors
/// Beside the live state, [`ApplyError`] names every child that could not be written. Failed monitoring objects are no
/// error: [`monitoring_refused`](Live::monitoring_refused) reports them.
pub async fn apply(
    scope: &Scope,
    identity: &StackIdentity,
    desired: Desired,
) -> (Live, Result<(), ApplyError>) {
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
    let deadline = Instant::now() + TIME;
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
    pass.finish(watchers)
}
