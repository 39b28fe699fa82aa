//! The decisions of a reconcile: from a spec and facts to child objects, and from an outcome to a status. Pure: no
//! client, clock, environment or random source.

mod build;
pub mod conditions;
mod drain;
mod error;
mod monitoring;
mod objects;
mod pod_settings;
pub mod references;
mod status;
pub mod stores;
pub(crate) mod validate;
mod verdict;

pub use drain::drain;
pub use error::ValidateError;
pub use status::{Outcome, changes, is_ready, status, unreadable};

use crate::{
    api::ShortenerStack,
    model::{
        defaults::Defaults,
        desired::Desired,
        facts::Facts,
        stack::{Drain, ValidatedStack},
    },
};

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
}

/// Resolves and checks a stack, then builds its child objects.
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
    facts: Facts,
    defaults: &Defaults,
) -> Result<Checked, ValidateError> {
    let drain = drain(stack, &facts.queue);
    let stack = validate::validate(stack, facts, defaults)?;
    Ok(Checked { stack, drain })
}

impl Checked {
    /// Builds the child objects, which is the second half of [`plan`].
    pub fn build(self) -> Plan {
        let Self { stack, drain } = self;
        let desired = build::build(&stack);
        Plan {
            stack,
            desired,
            drain,
        }
    }
}
