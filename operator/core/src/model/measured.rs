//! Results of the probes of a stack: if connections past the gateway are refused, and if the service works through it.

use super::finding::ProbeResult;

/// The answer to connections that the stack's NetworkPolicies forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// They failed, while an allowed one to the same pod succeeded.
    Enforced,
    /// One of them succeeded.
    NotEnforced,
}

impl ProbeResult for Enforcement {
    fn is_good(&self) -> bool {
        *self == Self::Enforced
    }

    fn is_as(&self, other: &Self) -> bool {
        self == other
    }
}

/// A step of an end-to-end probe through the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A link is made.
    Shorten,
    /// The link is opened.
    Follow,
    /// A job is sent.
    Enqueue,
    /// The job's result is awaited.
    Result,
}

/// The reason for which a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NoAnswer,
    /// The answer had this status.
    Status(u16),
    /// The answer had the right status and not the right content.
    Content,
    /// A worker has tried the job and failed.
    JobFailed,
    /// The job was not done in time.
    JobLate,
}

impl Fault {
    /// Returns true when the service wants a key, or another one.
    pub fn is_about_keys(self) -> bool {
        matches!(self, Self::Status(401 | 403))
    }
}

/// The answer to an end-to-end probe through the gateway, from the creation of a link to the result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndToEndResult {
    /// Trace identifier of its requests.
    pub trace: String,
    /// Duration in milliseconds.
    pub milliseconds: u64,
    /// The step that failed, if one did.
    pub failed: Option<(Step, Fault)>,
}

impl ProbeResult for EndToEndResult {
    fn is_good(&self) -> bool {
        self.failed.is_none()
    }

    fn is_as(&self, other: &Self) -> bool {
        self.failed == other.failed
    }
}
