//! Jobs on documents that come to a worker without the vector profile.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use shortener_common::database::StoreError;

use super::Outcome;

/// How long a worker may expect to be replaced, unless set: as long as a rolling update may take that begins with it.
const REPLACED_WITHIN: Duration = Duration::from_secs(120);
const REASON: &str = "the vector profile is not enabled";

/// What becomes of them.
///
/// When the profile is switched on, its first jobs come while workers of before still run. Such a worker keeps the job
/// until it is replaced, and then gives it back. One that is not replaced knows that the profile is off.
#[derive(Debug)]
pub struct Disabled {
    /// How long after its first such job the worker may expect to be replaced.
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
    /// What becomes of one of them now.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while the worker may be replaced.
    pub(super) fn judge(&self) -> Result<Outcome, StoreError> {
        let first = self.first.get_or_init(Instant::now);
        if first.elapsed() < self.replaced_within {
            return Err(StoreError::Unavailable(REASON.to_owned()));
        }
        Ok(Outcome::Reject(REASON.to_owned()))
    }
}
