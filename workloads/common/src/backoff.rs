//! Exponential backoff with jitter, as pure functions of the number of failures and a random number.

use std::time::Duration;

/// Exponential backoff for reconnecting to a server, without a limit on attempts. Pauses double up to an upper
/// bound. Jitter spreads them, so that many clients do not reconnect at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The upper bound of the pause after the first failure.
    pub first: Duration,
    /// The upper bound of every pause.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause after this many consecutive failures (at least one). `chance` is a random number between 0
    /// and 1 that selects a point in the upper half of the interval.
    pub fn pause(self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let at_most = self.first.saturating_mul(1 << doublings).min(self.longest);
        at_most.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }

    /// Returns the pause with a random `chance`.
    pub fn random_pause(self, failures: u32) -> Duration {
        self.pause(failures, rand::random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(5),
    };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = [1, 2, 3, 6, 7, 8, u32::MAX].map(|failures| BACKOFF.pause(failures, 1.0));
        let expected = [100, 200, 400, 3200, 5000, 5000, 5000].map(Duration::from_millis);
        assert_eq!(pauses, expected);
    }

    #[test]
    fn chance_spreads_a_pause_over_its_upper_half() {
        for (chance, milliseconds) in [(-1.0, 100), (0.0, 100), (0.5, 150), (1.0, 200), (2.0, 200)]
        {
            assert_eq!(
                BACKOFF.pause(2, chance),
                Duration::from_millis(milliseconds)
            );
        }
    }
}
