//! What happens after an attempt, and when: the schedule of Standard Webhooks.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The pause after each failed attempt, in seconds. The event itself makes the first attempt, and after the last one the
/// delivery is given up.
const PAUSES: [u64; 9] = [
    5,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
];
/// The longest pause for which a receiver can ask.
const MOST: u64 = 24 * HOUR;
/// The part of a pause that is added at random, so that what failed together does not return together.
const JITTER: f64 = 0.1;

/// The maximum number of requests to a receiver at the same time.
pub const MAX_REQUESTS: usize = 4;

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has taken it.
    Delivered,
    Failed(Failure),
}

/// A failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// A word for the reason, if there was no answer.
    pub error: Option<&'static str>,
    /// The pause for which the receiver asked.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Returns the failure without an answer for this reason.
    pub fn without_answer(error: &'static str) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    /// Returns the pause until the next attempt, or `None` if the delivery is given up. `failed` is the number of failed
    /// attempts before this one, and `random` lies between 0 and 1. A receiver that is gone (410) wants no other attempt.
    pub fn pause(&self, failed: usize, random: f64) -> Option<Duration> {
        let planned = PAUSES.get(failed).filter(|_| self.status != Some(410))?;
        let asked = self.retry_after.unwrap_or_default();
        let asked = asked.min(Duration::from_secs(MOST));
        let pause = Duration::from_secs(*planned).max(asked);
        Some(pause.mul_f64(1.0 + JITTER * random))
    }
}

/// How many requests a receiver gets at the same time, by the failures in a row. While it is down it gets one, so that few of
/// the attempts of its deliveries are spent on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    failures: usize,
}

impl Pace {
    /// Takes the end of an attempt into account.
    pub fn attempted(&mut self, is_delivered: bool) {
        self.failures = match is_delivered {
            true => 0,
            false => self.failures.saturating_add(1),
        };
    }

    /// Returns true once as many attempts in a row have failed as there can be at the same time.
    pub fn is_down(self) -> bool {
        self.failures >= MAX_REQUESTS
    }

    /// Returns the number of requests that can begin beside those in progress.
    pub fn room(self, in_progress: usize) -> usize {
        let most = if self.is_down() { 1 } else { MAX_REQUESTS };
        most.saturating_sub(in_progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_is_down_gets_one_request_at_a_time_until_it_takes_one() {
        let mut pace = Pace::default();
        for room in [4, 4, 4, 4] {
            assert_eq!((pace.room(0), pace.is_down()), (room, false));
            pace.attempted(false);
        }
        assert_eq!((pace.room(0), pace.is_down()), (1, true));
        // The others in progress fail, too.
        pace.attempted(false);
        assert_eq!([1, 2, 3].map(|in_progress| pace.room(in_progress)), [0; 3]);
        pace.attempted(true);
        assert_eq!((pace.room(1), pace.is_down()), (3, false));
        for delivered in [false, false, false, true, false] {
            pace.attempted(delivered);
        }
        assert!(!pace.is_down(), "they did not fail in a row");
    }

    fn status(status: u16) -> Failure {
        Failure {
            status: Some(status),
            ..Failure::default()
        }
    }

    #[test]
    fn ten_attempts_within_four_days_are_all() {
        let pauses: Vec<_> = (0..11)
            .map(|failed| status(500).pause(failed, 0.0))
            .collect();
        let expected: Vec<_> = PAUSES
            .map(|pause| Some(Duration::from_secs(pause)))
            .to_vec();
        assert_eq!(pauses[..9], expected);
        assert_eq!(pauses[9..], [None, None]);
        let all: Duration = pauses.into_iter().flatten().sum();
        assert!(all < Duration::from_secs(4 * 24 * HOUR));
    }

    #[test]
    fn a_receiver_that_is_gone_gets_no_other_attempt() {
        assert_eq!(status(410).pause(0, 0.0), None);
        assert!(status(404).pause(0, 0.0).is_some());
    }

    #[test]
    fn a_receiver_can_ask_for_a_longer_pause_and_for_no_shorter_one() {
        for (asked, expected) in [(1, 5), (600, 600), (u64::MAX, 24 * HOUR)] {
            let failure = Failure {
                retry_after: Some(Duration::from_secs(asked)),
                ..status(503)
            };
            let expected = Duration::from_secs(expected);
            assert_eq!(failure.pause(0, 0.0), Some(expected), "{asked}");
        }
    }

    #[test]
    fn pauses_differ_by_a_tenth_at_most() {
        let longest = status(500).pause(1, 1.0).unwrap();
        assert_eq!(longest.as_secs(), 330);
    }
}
