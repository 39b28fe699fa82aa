//! The settings of the removal of expired data.

use clap::Args;

/// The extent of the removal of expired data.
#[derive(Clone, Copy, Debug, Args)]
pub struct PurgeArgs {
    /// Number of days for which finished jobs stay in the ledger.
    #[arg(long, env, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub purge_retention_days: u32,
    /// Number of days for which entries of the audit log stay.
    #[arg(long, env, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub purge_audit_days: u32,
    /// Number of days for which clicks stay.
    #[arg(long, env, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub purge_click_days: u32,
    /// Number of days for which documents of clients without a key stay after their last change; for ever if absent.
    #[arg(long, env, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub purge_document_days: Option<u32>,
}
