//! The metrics of the backups of the stacks.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use prometheus::{IntGaugeVec, Registry, register_int_gauge_vec_with_registry};
use shortener_operator_core::{
    api::{BackupResult, ShortenerStackStatus},
    plan::conditions::{BACKUP_READY, BACKUP_VERIFIED, UNKNOWN_YET},
};

use super::{LABELS, set};

/// The state of a stack's backups, each value as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupMetrics {
    succeeded: Option<bool>,
    completed: Option<Timestamp>,
    verified: Option<bool>,
    restored: Option<Timestamp>,
}

impl BackupMetrics {
    /// Returns the state of the backups in a status.
    pub fn of(status: &ShortenerStackStatus) -> Self {
        let holds = |type_: &str| {
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|condition| condition.type_ == type_)?;
            let is_known = !UNKNOWN_YET.contains(&found.reason.as_str());
            is_known.then_some(found.status == "True")
        };
        let newest = |times: Vec<&Option<Time>>| {
            let times = times.into_iter().flatten();
            times.map(|time| time.0).max()
        };
        let backups = || status.backups.iter();
        let verified = backups().filter(|backup| backup.result == Some(BackupResult::Verified));
        Self {
            succeeded: holds(BACKUP_READY),
            completed: newest(backups().map(|backup| &backup.completed_at).collect()),
            verified: holds(BACKUP_VERIFIED),
            restored: newest(verified.map(|backup| &backup.verified_at).collect()),
        }
    }
}

/// The gauges.
#[derive(Clone, Debug)]
pub(super) struct BackupGauges {
    succeeded: IntGaugeVec,
    completed: IntGaugeVec,
    verified: IntGaugeVec,
    restored: IntGaugeVec,
}

impl BackupGauges {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge =
            |name, help| register_int_gauge_vec_with_registry!(name, help, &LABELS, registry);
        Ok(Self {
            succeeded: gauge(
                "backup_succeeded",
                "Whether the last backup of a stack's database that was due has succeeded (1) or not (0).",
            )?,
            completed: gauge(
                "backup_completed_timestamp_seconds",
                "Time of the last backup of a stack's database that was completed.",
            )?,
            verified: gauge(
                "backup_verified",
                "Whether the last verification of a stack's backups that was due has succeeded (1) or not (0).",
            )?,
            restored: gauge(
                "backup_verified_timestamp_seconds",
                "Time of the last verification of a stack's backups that has succeeded.",
            )?,
        })
    }

    pub(super) fn set(&self, namespace: &str, stack: &str, state: BackupMetrics) {
        let seconds = |time: Option<Timestamp>| time.map(Timestamp::as_second);
        for (gauge, value) in [
            (&self.succeeded, state.succeeded.map(i64::from)),
            (&self.completed, seconds(state.completed)),
            (&self.verified, state.verified.map(i64::from)),
            (&self.restored, seconds(state.restored)),
        ] {
            set(gauge, &[namespace, stack], value);
        }
    }

    pub(super) fn reset(&self) {
        for gauge in [
            &self.succeeded,
            &self.completed,
            &self.verified,
            &self.restored,
        ] {
            gauge.reset();
        }
    }
}
