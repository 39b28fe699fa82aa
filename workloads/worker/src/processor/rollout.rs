//! The rollouts during which the worker receives jobs that only other workers can process.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The default time for which the worker expects to be replaced: a rolling update that has just begun may take as long.
const REPLACED_WITHIN: Duration = Duration::from_secs(120);

/// The rollout that is under way, as far as the jobs show it.
#[derive(Debug)]
pub struct Rollout {
    /// The time, from the first job for other workers on, for which the worker expects to be replaced. After as long
    /// without such a job, the next one belongs to another rollout.
    pub replaced_within: Duration,
    /// The times of the first and of the last such job.
    jobs: Mutex<Option<(Instant, Instant)>>,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            replaced_within: REPLACED_WITHIN,
            jobs: Mutex::default(),
        }
    }
}

impl Rollout {
    /// Takes note of a job for other workers. Returns true if the worker may still be replaced.
    pub(super) fn is_under_way(&self, now: Instant) -> bool {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match *jobs {
            Some((first, last)) if now.duration_since(last) <= self.replaced_within => first,
            _ => now,
        };
        *jobs = Some((first, now));
        now.duration_since(first) < self.replaced_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_expects_its_replacement_for_a_while_in_each_rollout() {
        let (rollout, start) = (Rollout::default(), Instant::now());
        for (seconds, expected) in [
            (0, true),
            (119, true),
            (120, false),
            (200, false),
            (320, false),
            (441, true),
            (560, true),
            (561, false),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(rollout.is_under_way(now), expected, "{seconds} s");
        }
    }
}
