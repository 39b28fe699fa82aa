//! The settings of the purge.

use clap::Args;
use shortener_common::{config::PurgeArgs, schedule::Schedule};

/// The times at which expired data is removed, and the extent of the removal.
#[derive(Clone, Debug, Args)]
pub struct ScheduleArgs {
    /// Times at which expired data is removed, as five fields of cron in UTC; never if absent. With several replicas,
    /// one of them starts it.
    #[arg(long, env)]
    pub purge_schedule: Option<Schedule>,
    /// The extent of the removal.
    #[command(flatten)]
    pub extent: PurgeArgs,
}
