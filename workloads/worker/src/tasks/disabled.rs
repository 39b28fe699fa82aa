//! Document jobs that a worker without the vector profile receives.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use shortener_common::database::StoreError;

use super::Outcome;

/// The default time for which the worker expects to be replaced: a rolling update that has just begun may take as
/// long.
const REPLACED_WITHIN: Duration = Duration::from_secs(120);
const REASON: &str = "the vector profile is not enabled";

/// The handling of document jobs without the vector profile.
///
/// After the profile is switched on, workers of the previous revision still receive its first jobs. Such a worker
/// holds the job until it is replaced, and then returns it to the queue. If the worker is not replaced in time, the
/// profile is off.
#[derive(Debug)]
pub struct Disabled {
    /// The time, from the first such job, for which the worker expects to be replaced.
    pub replaced_within: Duration,
    first: OnceLock<Instant>,
}

impl Default for Disabled {
    fn default() -> Self {
        Self {
            replaced_within: REPLACED_WITHIN,
            first: OnceLock::new(),
        }
    }
}

impl Disabled {
    /// Returns the outcome of a document job.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] while the worker may still be replaced.
    pub(super) fn outcome(&self) -> Result<Outcome, StoreError> {
        let first = self.first.get_or_init(Instant::now);
        if first.elapsed() < self.replaced_within {
            return Err(StoreError::Unavailable(REASON.to_owned()));
        }
        Ok(Outcome::Reject(REASON.to_owned()))
    }
}
