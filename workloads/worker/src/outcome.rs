//! The outcome of one delivery.

use std::time::Duration;

/// The result of processing a delivery, for the log, the span, the metrics and the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The job is done.
    Done,
    /// The job was done before.
    Duplicate,
    /// The attempt failed. The message returns to the queue after the pause, if the delivery limit allows it.
    Failed { reason: String, pause: Duration },
    /// The job can never succeed.
    Rejected {
        reason: String,
        /// False if the message is removed.
        is_dead_letter: bool,
    },
    /// The message is not a job. It becomes a dead letter.
    Invalid(String),
    /// A backend that the job needs is down. The job returns to the queue, as if it had not been delivered.
    GivenBack,
}

impl JobOutcome {
    /// All values of the metric label.
    pub const LABELS: [&str; 6] = [
        "done",
        "duplicate",
        "failed",
        "rejected",
        "invalid",
        "given_back",
    ];

    /// Returns the value of the metric label, which is also the error type of the span.
    pub fn label(&self) -> &'static str {
        let [done, duplicate, failed, rejected, invalid, given_back] = Self::LABELS;
        match self {
            Self::Done => done,
            Self::Duplicate => duplicate,
            Self::Failed { .. } => failed,
            Self::Rejected { .. } => rejected,
            Self::Invalid(_) => invalid,
            Self::GivenBack => given_back,
        }
    }

    /// Returns why the job is not done.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Done | Self::Duplicate => None,
            Self::Failed { reason, .. } | Self::Rejected { reason, .. } | Self::Invalid(reason) => {
                Some(reason)
            }
            Self::GivenBack => Some("a backend that the job needs is down"),
        }
    }
}
