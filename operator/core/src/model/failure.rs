//! A failure as a status reports it.

/// The failure of a step, or of one component in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFailure {
    /// Reason in CamelCase, for machines, one of a fixed set.
    pub reason: &'static str,
    /// Message with the remedy, for the user.
    pub message: String,
    /// True when only an edit of the spec helps.
    pub needs_an_edit: bool,
    /// True when the operator waits for something that is on its way, so that nothing has failed yet.
    pub waits: bool,
}
