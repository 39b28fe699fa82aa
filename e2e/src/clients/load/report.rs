//! The outcome of the requests of a load.

use std::{fmt, time::Duration};

use anyhow::{Result, ensure};

const KEPT_FAILURES: usize = 20;

/// The time that is promised for requests during a fault, as a multiple of that without it.
const PROMISED: u32 = 2;
/// A request that waits for something that does not come waits for 5 s or longer: for a connection, an operation of the
/// database, a confirmation, a body. On a busy machine, one that is slower than promised proves nothing below this time.
const WAITS: Duration = Duration::from_secs(3);

/// The outcome of the requests.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Requests that were due.
    pub due: u64,
    /// Requests that failed or could not be sent in time.
    pub failed: u64,
    /// Failed requests that reached no app: the connection broke, or the gateway answered in the app's place.
    pub dropped: u64,
    /// The first failures.
    pub failures: Vec<String>,
    /// The time of the slowest success.
    pub slowest: Duration,
    /// The times of all successes.
    pub times: Times,
}

/// The times of requests, in the order of their answers.
#[derive(Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Returns the time within which 99 of 100 requests were answered; zero without any.
    pub fn p99(&self) -> Duration {
        let mut times = self.0.clone();
        times.sort_unstable();
        let place = (times.len() * 99).div_ceil(100);
        times
            .get(place.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of them, p99 {:?}", self.0.len(), self.p99())
    }
}

impl LoadReport {
    /// Fails if these requests took much longer than those of another report.
    pub fn is_about_as_quick_as(&self, other: &Self) -> Result<()> {
        let (p99, before) = (self.times.p99(), other.times.p99());
        let limit = (PROMISED * before).max(WAITS);
        ensure!(
            p99 <= limit,
            "99 of 100 requests were answered within {p99:.0?}, and within {before:.0?} before (limit {limit:.0?})"
        );
        Ok(())
    }

    pub(super) fn count(&mut self, outcome: Result<Duration>) {
        match outcome {
            Ok(time) => {
                self.slowest = self.slowest.max(time);
                self.times.0.push(time);
            }
            Err(error) => {
                let met_an_app = error
                    .downcast_ref::<Answered>()
                    .is_some_and(|answer| answer.by_the_app);
                self.dropped += u64::from(!met_an_app);
                self.fail(format!("{error:#}"));
            }
        }
    }

    pub(super) fn fail(&mut self, failure: String) {
        self.failed += 1;
        if self.failures.len() < KEPT_FAILURES {
            self.failures.push(failure);
        }
    }
}

/// An answer with the wrong status.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) by_the_app: bool,
}

impl fmt::Display for Answered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Answered {}

impl fmt::Display for LoadReport {
    /// Writes the counts and times on one line, and each of the first failures on one of its own.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "of {} requests {} failed, {} of them dropped; p99 {:.0?}, slowest {:.0?}",
            self.due,
            self.failed,
            self.dropped,
            self.times.p99(),
            self.slowest
        )?;
        for failure in &self.failures {
            write!(formatter, "\n   {failure}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(times: impl IntoIterator<Item = u64>) -> LoadReport {
        let times = times.into_iter().map(Duration::from_millis).collect();
        LoadReport {
            times: Times(times),
            ..LoadReport::default()
        }
    }

    #[test]
    fn requests_that_wait_are_told_from_those_of_a_busy_machine() {
        for (before, now, quick) in [
            (20, 40, true),
            (20, 3000, true),
            (20, 3001, false),
            (2000, 4000, true),
            (2000, 4001, false),
        ] {
            let compared = report([now]).is_about_as_quick_as(&report([before]));
            assert_eq!(compared.is_ok(), quick, "{before} {now}: {compared:?}");
        }
    }

    #[test]
    fn one_of_a_hundred_requests_may_be_slower_than_p99() {
        let times = |count: u64| Times((1..=count).rev().map(Duration::from_millis).collect());
        for (count, p99) in [(0, 0), (1, 1), (99, 99), (100, 99), (1000, 990)] {
            assert_eq!(times(count).p99(), Duration::from_millis(p99), "{count}");
        }
        assert_eq!(format!("{:?}", times(100)), "100 of them, p99 99ms");
    }
}
