//! The removal of expired data of a stack.

/// The removal of expired data, with every default resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Times in the form of a CronJob, in UTC; `None` for never.
    pub schedule: Option<String>,
    /// Number of days for which finished jobs stay.
    pub retention_days: i32,
    /// Number of days for which entries of the audit log stay; `None` for the default of the programs.
    pub audit_days: Option<i32>,
    /// Number of days for which documents of clients without a key stay; `None` for ever.
    pub document_days: Option<i32>,
    /// Number of days for which clicks stay; `None` for the default of the programs.
    pub click_days: Option<i32>,
}
