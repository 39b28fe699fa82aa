//! Zipf's law: a few links are followed most of the time, and most links hardly ever.

/// Numbers from 0 on, of which number `n` is drawn in proportion to `1 / (n + 1)^exponent`.
///
/// They are drawn by rejection from a continuous law above this one, in constant time and memory:
/// <https://jasoncrease.medium.com/rejection-sampling-the-zipf-distribution-6b359792cffa>
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    numbers: usize,
    exponent: f64,
    /// The integral of the continuous law, which is 1 up to place 1, and `1 / place^exponent` from there on.
    total: f64,
}

impl Zipf {
    /// Returns the law for this many numbers, at least one, with an exponent of at least zero.
    #[must_use]
    pub fn new(numbers: usize, exponent: f64) -> Self {
        let most = numbers as f64;
        let total = if is_one(exponent) {
            1.0 + most.ln()
        } else {
            (most.powf(1.0 - exponent) - exponent) / (1.0 - exponent)
        };
        Self {
            numbers,
            exponent,
            total,
        }
    }

    #[must_use]
    pub fn draw(&self) -> usize {
        loop {
            let place = self.place(fastrand::f64() * self.total);
            let rank = place.floor() + 1.0;
            // The law itself, relative to the continuous one.
            let accepted = if rank > 1.0 {
                (place / rank).powf(self.exponent)
            } else {
                1.0
            };
            if fastrand::f64() < accepted {
                // Rounding may lead beyond the last number.
                return (rank as usize).min(self.numbers) - 1;
            }
        }
    }

    /// Returns the place up to which the integral of the continuous law has this value.
    fn place(&self, integral: f64) -> f64 {
        if integral <= 1.0 {
            integral
        } else if is_one(self.exponent) {
            (integral - 1.0).exp()
        } else {
            let power = integral * (1.0 - self.exponent) + self.exponent;
            power.powf(1.0 / (1.0 - self.exponent))
        }
    }
}

/// Returns true if the exponent is so close to one that the formulas for others would divide by zero.
fn is_one(exponent: f64) -> bool {
    (exponent - 1.0).abs() < 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of draws, for which a share of a fifth is off by 0.001 rarely, and by 0.01 never.
    const DRAWS: usize = 200_000;

    fn shares(numbers: usize, exponent: f64) -> Vec<f64> {
        let law = Zipf::new(numbers, exponent);
        let mut counts = vec![0; numbers];
        fastrand::seed(7);
        for _ in 0..DRAWS {
            counts[law.draw()] += 1;
        }
        let share = |count: u32| f64::from(count) / DRAWS as f64;
        counts.into_iter().map(share).collect()
    }

    #[test]
    fn each_number_is_drawn_in_proportion_to_its_power() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let numbers = 20;
            let weight = |number: usize| (number as f64 + 1.0).powf(-exponent);
            let sum: f64 = (0..numbers).map(weight).sum();
            for (number, share) in shares(numbers, exponent).into_iter().enumerate() {
                let expected = weight(number) / sum;
                assert!(
                    (share - expected).abs() < 0.01,
                    "exponent {exponent}, number {number}: {share}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn the_numbers_end_where_they_should() {
        assert_eq!(shares(1, 1.0), [1.0]);
        let law = Zipf::new(1 << 24, 1.0);
        for integral in [0.0, 1.0, law.total] {
            let place = law.place(integral);
            assert!((0.0..=16_777_216.001).contains(&place), "{place}");
        }
    }
}
