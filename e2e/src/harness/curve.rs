//! Memory over time.

use std::fmt;

const MIB: f64 = 1024.0 * 1024.0;

/// The memory of a container, read at equal intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The limit of the container in bytes.
    pub limit: u64,
    /// The readings in bytes.
    pub readings: Vec<u64>,
}

impl Curve {
    /// Returns the highest reading in bytes.
    pub fn highest(&self) -> u64 {
        self.readings.iter().copied().max().unwrap_or_default()
    }

    /// Returns the rise over the second half in bytes: that of the straight line with the smallest squares of the
    /// distances. A reading that is out of line changes it little.
    pub fn rise(&self) -> f64 {
        let half = &self.readings[self.readings.len() / 2..];
        let count = half.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let mean = half.iter().sum::<u64>() as f64 / count;
        let (mut product, mut square) = (0.0, 0.0);
        for (place, reading) in half.iter().enumerate() {
            let from_middle = place as f64 - middle;
            product += from_middle * (*reading as f64 - mean);
            square += from_middle * from_middle;
        }
        if square > 0.0 {
            product / square * (count - 1.0)
        } else {
            0.0
        }
    }

    /// Returns true if the memory stays below the limit, and if the second half either rises by less than a sixteenth of it
    /// or reaches what the first half had and at most a 64th of the limit more, as buffers do that are emptied and filled
    /// again.
    pub fn is_flat(&self) -> bool {
        let (first, second) = self.readings.split_at(self.readings.len() / 2);
        let most = |half: &[u64]| half.iter().copied().max().unwrap_or_default();
        let repeats = most(second) <= most(first) + self.limit / 64;
        self.highest() < self.limit && (repeats || self.rise() < self.limit as f64 / 16.0)
    }
}

impl fmt::Display for Curve {
    /// Writes the readings in MiB, then the rise.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for reading in &self.readings {
            write!(formatter, "{:.1} ", *reading as f64 / MIB)?;
        }
        let (limit, rise) = (self.limit as f64 / MIB, self.rise() / MIB);
        write!(
            formatter,
            "of {limit:.0} MiB, {rise:+.1} in the second half"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// Returns 60 readings of a container with a limit of 128 MiB.
    fn curve(reading: impl Fn(u64) -> u64) -> Curve {
        Curve {
            limit: 128 * MIB,
            readings: (0..60).map(|second| reading(second) * MIB).collect(),
        }
    }

    #[test]
    fn buffers_that_fill_and_then_stay_full_are_flat() {
        assert!(curve(|_| 40).is_flat());
        assert!(curve(|second| 40 + second.min(20) * 3).is_flat());
        assert!(curve(|second| 100 - second).is_flat());
    }

    #[test]
    fn what_is_collected_now_and_then_is_flat() {
        assert!(curve(|second| 40 + second % 5 * 4).is_flat());
        assert!(curve(|second| if second == 50 { 90 } else { 40 }).is_flat());
    }

    #[test]
    fn what_swings_slowly_is_flat_and_a_swing_that_grows_is_not() {
        let swing = |second: u64| u64::from(second / 15 % 2 == 1) * 20;
        assert!(curve(|second| 40 + swing(second)).is_flat());
        // As half-closed connections left it: the same height twice, but for a fraction.
        assert!(curve(|second| 40 + swing(second) + second / 30).is_flat());
        assert!(!curve(|second| 40 + swing(second) + second / 3).is_flat());
    }

    #[test]
    fn what_rises_steadily_is_not_flat() {
        let rising = curve(|second| 40 + second);
        assert!((rising.rise() - 29.0 * MIB as f64).abs() < 1.0);
        assert!(!rising.is_flat());
        assert!(!curve(|second| 40 + second / 3).is_flat());
    }

    #[test]
    fn what_reaches_the_limit_is_not_flat() {
        assert!(!curve(|_| 128).is_flat());
    }

    #[test]
    fn a_curve_is_one_line() {
        let mut curve = curve(|second| second);
        curve.readings.truncate(3);
        let line = "0.0 1.0 2.0 of 128 MiB, +1.0 in the second half";
        assert_eq!(curve.to_string(), line);
        curve.readings.clear();
        assert_eq!(curve.to_string(), "of 128 MiB, +0.0 in the second half");
    }
}
