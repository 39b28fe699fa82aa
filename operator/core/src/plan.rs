//! The decisions of a reconcile: from a spec and facts to child objects, and from an outcome to a status. Pure: no
//! client, clock, environment or random source.

mod app_resources;
mod build;
pub mod conditions;
mod deletion_cost;
pub mod diff;
mod drain;
pub mod drills;
mod error;
mod foresight;
mod monitoring;
mod objects;
mod pod_settings;
pub mod references;
pub mod short_links;
mod status;
pub mod stores;
mod upgrade;
pub(crate) mod validate;
mod verdict;

pub use build::cron_job::has_succeeded;
pub use deletion_cost::deletion_costs;
pub use drain::drain;
pub use error::ValidateError;
pub use foresight::{foresee, presume};
pub use status::{Outcome, changes, is_progressing, is_ready, scaling, status, unreadable};

use std::collections::BTreeMap;

use crate::{
    api::{ShortenerStack, UpgradePolicy},
    model::{
        defaults::Defaults,
        desired::Desired,
        facts::Facts,
        metadata::Component,
        record::PodRecord,
        stack::{Drain, ValidatedStack},
    },
};
use upgrade::Moment;

/// A stack that was checked, and the child objects that follow from it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The stack with every default filled in.
    pub stack: ValidatedStack,
    /// Every child object that it should have.
    pub desired: Desired,
    /// The decision about its queue.
    pub drain: Drain,
}

/// A stack that was checked, and whose child objects are not built yet.
#[derive(Clone, Debug)]
pub struct Checked {
    stack: ValidatedStack,
    drain: Drain,
    /// The records of its workloads and the moment, if it holds back what another release would restart.
    held: Option<(BTreeMap<Component, PodRecord>, Moment)>,
}

/// Resolves and checks a stack, builds its child objects, and holds back what another release would restart if the stack
/// asks for that.
///
/// # Errors
/// [`ValidateError`] with the remedy, if nothing can be built. The stack's objects stay unchanged until it is followed.
pub fn plan(
    stack: &ShortenerStack,
    facts: Facts,
    defaults: &Defaults,
) -> Result<Plan, ValidateError> {
    Ok(check(stack, facts, defaults)?.build())
}

/// Resolves and checks a stack, which is the first half of [`plan`].
///
/// # Errors
/// The same as those of [`plan`].
pub fn check(
    stack: &ShortenerStack,
    mut facts: Facts,
    defaults: &Defaults,
) -> Result<Checked, ValidateError> {
    let drain = drain(stack, &facts.queue);
    let recorded = std::mem::take(&mut facts.recorded);
    let validated = validate::validate(stack, facts, defaults)?;
    let holds = stack.spec.upgrade_policy == UpgradePolicy::OnSpecChange;
    let held = holds.then(|| (recorded, Moment::of(stack, &validated, defaults)));
    Ok(Checked {
        stack: validated,
        drain,
        held,
    })
}

impl Checked {
    /// Builds the child objects, which is the second half of [`plan`].
    pub fn build(self) -> Plan {
        let Self {
            mut stack,
            drain,
            held,
        } = self;
        let mut desired = build::build(&stack);
        if let Some((recorded, now)) = held {
            stack.pending = upgrade::hold(&mut desired.children, &recorded, &stack, &now);
        }
        Plan {
            stack,
            desired,
            drain,
        }
    }
}

#[cfg(test)]
mod tests;
