//! The result of a condition function, and the checks that several of them share.

pub(super) mod patience;
pub(super) mod pods;
pub(super) mod workload;

use crate::model::{live::Live, stack::ValidatedStack};

/// The input of a condition function.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The desired state of the stack.
    pub stack: &'a ValidatedStack,
    /// The live state of the stack.
    pub live: &'a Live,
}

/// The result of a condition function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Status of the condition.
    pub holds: bool,
    /// True when waiting does not resolve the problem.
    pub fault: bool,
    /// True while a change is in progress although the condition is true.
    pub moves: bool,
    /// True when the component answers requests, be it with fewer pods than asked for, or with an earlier template.
    pub serves: bool,
    /// Reason in CamelCase, for machines.
    pub reason: &'static str,
    /// Message of one sentence, for the user.
    pub message: String,
}

impl Verdict {
    /// Returns a verdict: the condition is true.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: true,
            fault: false,
            moves: false,
            serves: true,
            reason,
            message: message.into(),
        }
    }

    /// Returns a verdict: the condition is not true yet.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            fault: false,
            moves: false,
            serves: false,
            reason,
            message: message.into(),
        }
    }

    /// Returns a verdict: the condition stays false until the user acts.
    pub fn fault(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            fault: true,
            moves: false,
            serves: false,
            reason,
            message: message.into(),
        }
    }

    /// Returns the verdict of a component that changes.
    #[must_use]
    pub fn moving(self) -> Self {
        Self {
            moves: true,
            ..self
        }
    }

    /// Returns the verdict with another answer to whether the component serves.
    #[must_use]
    pub fn serving(self, serves: bool) -> Self {
        Self { serves, ..self }
    }
}
