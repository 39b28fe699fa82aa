//! The removal of expired data of a stack.

/// The removal of expired data, with every default resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Times as five fields of cron, in UTC; empty for never.
    pub schedule: String,
    /// Number of days for which finished jobs stay.
    pub keep_days: i32,
}
