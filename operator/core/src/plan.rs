//! The decisions of a reconcile: from a spec and facts to child objects, and from an outcome to a status. Pure: no
//! client, clock, environment or random source.

mod build;
pub mod conditions;
mod deletion_cost;
pub mod diff;
mod drain;
mod error;
mod foresight;
mod monitoring;
mod objects;
mod pod_settings;
pub mod references;
mod status;
pub mod stores;
mod upgrade;
pub(crate) mod validate;
mod verdict;

pub use deletion_cost::deletion_costs;
pub use drain::drain;
pub use error::ValidateError;
pub use foresight::{foresee, presume};
pub use status::{Outcome, changes, is_ready, scaling, status, unreadable};

use crate::{
    api::{ShortenerStack, UpgradePolicy},
    model::{
        defaults::Defaults,
        desired::Desired,
        facts::Facts,
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

/// Resolves and checks a stack, builds its child objects, and holds back what another release would restart if the stack
/// asks for that.
///
/// # Errors
/// [`ValidateError`] with the remedy, if nothing can be built. The stack's objects stay unchanged until it is followed.
pub fn plan(
    stack: &ShortenerStack,
    mut facts: Facts,
    defaults: &Defaults,
) -> Result<Plan, ValidateError> {
    let drain = drain(stack, &facts.queue);
    let recorded = std::mem::take(&mut facts.recorded);
    let mut validated = validate::validate(stack, facts, defaults)?;
    let mut desired = build::build(&validated);
    if stack.spec.upgrade_policy == UpgradePolicy::OnSpecChange {
        let now = Moment::of(stack, &validated, defaults);
        validated.pending = upgrade::hold(&mut desired.children, &recorded, &validated, &now);
    }
    Ok(Plan {
        stack: validated,
        desired,
        drain,
    })
}

#[cfg(test)]
mod tests;
