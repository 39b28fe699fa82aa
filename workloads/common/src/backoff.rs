//! How long to wait before the next attempt, as pure functions of the attempt and of chance.

use std::time::Duration;

/// Pauses between attempts to reach a server, forever: doubling, bounded, and spread so that many clients do not come
/// back in the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The longest pause after the first failure.
    pub first: Duration,
    /// The longest pause of all.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after the given number of failures in a row, of which there was at least one. `chance` lies between
    /// 0 and 1 and chooses within the upper half.
    #[must_use]
    pub fn pause(self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let at_most = self.first.saturating_mul(1 << doublings).min(self.longest);
        at_most.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }

    /// The same with real chance.
    #[must_use]
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
