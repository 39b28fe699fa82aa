//! The results as a table.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Result;

/// One round of one contender.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Number of requests with a correct response.
    pub requests: usize,
    /// Duration of the round.
    pub elapsed: Duration,
    /// CPU time of the server.
    pub cpu: Duration,
}

impl Sample {
    /// Runs the work of this many requests, and reads the CPU time of the server before and after.
    ///
    /// # Errors
    /// Returns the errors of the work, or fails if the server has ended.
    pub async fn take(
        requests: usize,
        cpu: impl Fn() -> Result<Duration>,
        work: impl Future<Output = Result<()>>,
    ) -> Result<Self> {
        let (begin, spent) = (Instant::now(), cpu()?);
        work.await?;
        Ok(Self {
            requests,
            elapsed: begin.elapsed(),
            cpu: cpu()?.saturating_sub(spent),
        })
    }

    fn rate(&self) -> f64 {
        self.count() / self.elapsed.as_secs_f64()
    }

    /// Returns the CPU time of one request in microseconds.
    fn cost(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count()
    }

    fn count(&self) -> f64 {
        u32::try_from(self.requests).map_or(f64::INFINITY, f64::from)
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
    /// Name of the contender.
    pub name: String,
    /// Samples in the order of the rounds.
    pub samples: Vec<Sample>,
}

impl Row {
    /// Returns a contender without rounds.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            samples: Vec::new(),
        }
    }

    /// Returns minimum, median and maximum of a figure.
    fn spread(&self, figure: impl Fn(&Sample) -> f64) -> [f64; 3] {
        let mut figures: Vec<f64> = self.samples.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        let last = figures.len().saturating_sub(1);
        let median = f64::midpoint(at(last / 2), at(last.div_ceil(2)));
        [at(0), median, at(last)]
    }
}

/// Returns a Markdown table. The last two columns compare medians with the yardstick: 1 is equal, 0.5 half as good.
pub fn of(rows: &[Row], yardstick: &str) -> String {
    let mut table = String::from(
        "| contender | µs of CPU per request: median (least to greatest) | requests per second | by CPU | by rate |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    let base = rows.iter().find(|row| row.name == yardstick);
    for row in rows {
        let [least, cost, greatest] = row.spread(Sample::cost);
        let [_, rate, _] = row.spread(Sample::rate);
        let (by_cpu, by_rate) = base.map_or((f64::NAN, f64::NAN), |base| {
            (
                base.spread(Sample::cost)[1] / cost,
                rate / base.spread(Sample::rate)[1],
            )
        });
        table.push_str(&format!(
            "| {} | {cost:.1} ({least:.1} to {greatest:.1}) | {rate:.0} | {by_cpu:.2} | {by_rate:.2} |\n",
            row.name
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, cpu: &[u64]) -> Row {
        let samples = cpu.iter().map(|cpu| Sample {
            requests: 1000,
            elapsed: Duration::from_millis(100),
            cpu: Duration::from_millis(*cpu),
        });
        Row {
            name: name.to_owned(),
            samples: samples.collect(),
        }
    }

    #[test]
    fn medians_are_compared_with_those_of_the_yardstick() {
        let rows = [row("nginx", &[6, 5, 9]), row("app", &[14, 13, 10, 11])];
        let table = of(&rows, "nginx");
        assert!(
            table.contains("| nginx | 6.0 (5.0 to 9.0) | 10000 | 1.00 | 1.00 |"),
            "{table}"
        );
        assert!(
            table.contains("| app | 12.0 (10.0 to 14.0) | 10000 | 0.50 | 1.00 |"),
            "{table}"
        );
    }
}
