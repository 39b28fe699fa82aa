//! What was measured: rounds of a contender, and their spread.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::losses::Loss;

/// One round of one contender.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Number of requests with a correct response.
    pub requests: usize,
    pub elapsed: Duration,
    /// CPU time of each server on the way of the requests.
    pub cpu: Vec<Duration>,
    /// What the app left out.
    pub lost: Vec<Loss>,
}

impl Sample {
    /// Runs the work of this many requests, then waits until what it left is done, and reads the CPU time of the servers
    /// before and after.
    ///
    /// # Errors
    /// Returns the errors of the work, or fails if a server has ended.
    pub async fn take(
        requests: usize,
        cpu: impl Fn() -> Result<Vec<Duration>>,
        work: impl Future<Output = Result<()>>,
        rest: impl Future<Output = ()>,
    ) -> Result<Self> {
        let (begin, before) = (Instant::now(), cpu()?);
        work.await?;
        let elapsed = begin.elapsed();
        rest.await;
        let spent = cpu()?.into_iter().zip(before);
        Ok(Self {
            requests,
            elapsed,
            cpu: spent
                .map(|(after, before)| after.saturating_sub(before))
                .collect(),
            lost: Vec::new(),
        })
    }

    /// Returns a round in which one does its work after the other.
    #[must_use]
    pub fn then(&self, other: &Self) -> Self {
        Self {
            requests: self.requests,
            elapsed: self.elapsed + other.elapsed,
            cpu: [self.cpu.as_slice(), other.cpu.as_slice()].concat(),
            lost: [self.lost.as_slice(), other.lost.as_slice()].concat(),
        }
    }

    /// Returns the number of requests per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.count() / self.elapsed.as_secs_f64()
    }

    /// Returns the CPU time of one request in microseconds, of all servers together.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.per_request(self.cpu.iter().sum())
    }

    /// Returns the CPU time of one request in microseconds, of one server on the way; 0 if it is not there.
    #[must_use]
    pub fn cost_of(&self, server: usize) -> f64 {
        self.per_request(self.cpu.get(server).copied().unwrap_or_default())
    }

    fn per_request(&self, spent: Duration) -> f64 {
        spent.as_secs_f64() * 1e6 / self.count()
    }

    fn count(&self) -> f64 {
        self.requests as f64
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} per second, {:.1} µs of CPU each",
            self.rate(),
            self.cost()
        )
    }
}

/// All rounds of one contender.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    /// Name of the contender that it is compared with.
    pub yardstick: &'static str,
    /// Its settings, for people.
    pub settings: String,
    /// Samples in the order of the rounds.
    pub samples: Vec<Sample>,
}

impl Row {
    /// Returns the spread of a figure.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(figure))
    }

    /// Returns the number of servers on the way of its requests.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.samples.first().map_or(0, |sample| sample.cpu.len())
    }

    /// Returns the spread of the costs of another contender, relative to those of this one in the same round: 1 is equal,
    /// 0.5 half as good. A slow period of the machine affects both in the same way.
    #[must_use]
    pub fn compared(&self, yardstick: &Self) -> Spread {
        let pairs = yardstick.samples.iter().zip(&self.samples);
        Spread::of(pairs.map(|(theirs, own)| theirs.cost() / own.cost()))
    }
}

/// The spread of a figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub greatest: f64,
    /// The number of rounds. Baselines of earlier commits do not have it.
    #[serde(default)]
    pub rounds: usize,
}

impl Spread {
    /// Returns the spread of these values; without any, nothing is a number.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self {
            least: at(0),
            median: f64::midpoint(at(last / 2), at(last.div_ceil(2))),
            greatest: at(last),
            rounds: values.len(),
        }
    }

    /// Changes each of the values.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            least: change(self.least),
            median: change(self.median),
            greatest: change(self.greatest),
            rounds: self.rounds,
        }
    }

    /// Shows the spread with this many digits after the point.
    #[must_use]
    pub fn show(&self, digits: usize) -> String {
        let Self {
            least,
            median,
            greatest,
            rounds: _,
        } = self;
        format!("{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
    }
}

/// Makes rows for tests.
#[cfg(test)]
pub mod testing {
    use super::*;

    /// Returns rounds of a thousand requests in 100 ms with this CPU time in milliseconds.
    pub fn row(name: &'static str, yardstick: &'static str, cpu: &[u64]) -> Row {
        let samples = cpu.iter().map(|cpu| Sample {
            requests: 1000,
            elapsed: Duration::from_millis(100),
            cpu: vec![Duration::from_millis(*cpu)],
            lost: Vec::new(),
        });
        Row {
            name,
            yardstick,
            settings: String::new(),
            samples: samples.collect(),
        }
    }

    /// Returns a row whose app dropped so many spans in each round.
    pub fn losing(mut row: Row, number: u64) -> Row {
        for sample in &mut row.samples {
            let what = "spans dropped";
            sample
                .lost
                .extend((number > 0).then_some(Loss { what, number }));
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::row, *};

    #[test]
    fn a_spread_is_least_median_and_greatest() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied()).show(1);
        assert_eq!(spread(&[6.0, 5.0, 9.0]), "6.0 (5.0 to 9.0)");
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), "2.5 (1.0 to 4.0)");
        assert_eq!(spread(&[7.0]), "7.0 (7.0 to 7.0)");
        assert!(Spread::of(std::iter::empty()).median.is_nan());
    }

    #[test]
    fn contenders_are_compared_round_by_round() {
        // The machine was half as fast in the second round.
        let (nginx, app) = (
            row("nginx", "nginx", &[5, 10]),
            row("app", "nginx", &[10, 20]),
        );
        assert_eq!(app.compared(&nginx).show(2), "0.50 (0.50 to 0.50)");
        assert_eq!(nginx.compared(&nginx).show(2), "1.00 (1.00 to 1.00)");
    }

    #[test]
    fn two_servers_one_after_the_other_cost_their_sum() {
        let (first, second) = (row("a", "a", &[2]), row("b", "b", &[3]));
        let both = first.samples[0].then(&second.samples[0]);
        assert_eq!(both.to_string(), "5000 per second, 5.0 µs of CPU each");
    }

    #[tokio::test]
    async fn the_cpu_time_covers_what_the_work_left_and_the_duration_does_not() {
        let spent = std::cell::Cell::new(1);
        let read = || Ok(vec![Duration::from_micros(spent.get())]);
        let work = async {
            spent.set(5);
            Ok(())
        };
        let sample = Sample::take(2, read, work, async { spent.set(7) }).await;
        assert_eq!(format!("{:.3}", sample.unwrap().cost()), "3.000");
    }
}
