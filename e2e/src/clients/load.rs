//! An open-loop load: requests are sent at fixed times, regardless of the outcome of earlier ones.
//!
//! No test may depend on the speed of a machine. So the rate is a small share of what this machine answers, measured just
//! before, and the same load without the fault is part of what a failure reports.

use std::{
    fmt,
    future::pending,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::clients::GatewayClient;

/// The destination of the links that are followed.
const TARGET: &str = "https://example.com/under?load=1";
const MOST_IN_FLIGHT: usize = 800;
const KEPT_FAILURES: usize = 20;

/// The number of clients that ask one request after the other, to measure how many this machine answers.
const CLIENTS: usize = 16;
/// The time of that measurement.
const MEASURED: Duration = Duration::from_secs(3);
/// The share of the answers per second that is the rate of the load: one of so many. The pods that start during a fault
/// use the same processors.
const SHARE: f64 = 8.0;
/// The highest and the lowest rate, in requests per second. More requests prove nothing more, and fewer prove too little.
const RATES: (f64, f64) = (100.0, 4.0);
/// The time of the load without a fault.
const CALM: Duration = Duration::from_secs(5);

/// The time that is promised for requests during a fault, as a multiple of that without it.
const PROMISED: u32 = 2;
/// A request that waits for something that does not come waits for 5 s or longer: for a connection, an operation of the
/// database, a confirmation, a body. On a busy machine, one that is slower than promised proves nothing below this time.
const WAITS: Duration = Duration::from_secs(3);

/// The requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    Redirects,
    /// Half of them are `POST`s, because a proxy repeats a failed `GET` at another pod, which hides the failure of the
    /// first one.
    RedirectsAndCreates,
}

/// Requests at a steady rate, which this machine answers without a failure while nothing is wrong.
pub struct Load {
    gateway: GatewayClient,
    code: String,
    mix: Mix,
    /// The right answers per second that clients got that do not wait for each other.
    answered: f64,
    /// The requests per second.
    rate: f64,
    /// The outcome without a fault.
    calm: LoadReport,
}

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
    #[must_use]
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

impl Load {
    /// Returns a load of redirects and `POST`s, half of each.
    pub async fn of_redirects_and_creates(gateway: &GatewayClient) -> Result<Self> {
        let code = gateway.shorten(TARGET).await?;
        Self::calibrated(gateway, &code, Mix::RedirectsAndCreates).await
    }

    /// Returns a load of redirects of this code.
    pub async fn of_redirects(gateway: &GatewayClient, code: &str) -> Result<Self> {
        Self::calibrated(gateway, code, Mix::Redirects).await
    }

    /// Measures what this machine answers, and then lowers the rate until nothing fails.
    async fn calibrated(gateway: &GatewayClient, code: &str, mix: Mix) -> Result<Self> {
        let mut load = Self {
            gateway: gateway.clone(),
            code: code.to_owned(),
            mix,
            answered: 0.0,
            rate: 0.0,
            calm: LoadReport::default(),
        };
        load.answered = load.answers_per_second().await;
        load.rate = (load.answered / SHARE).min(RATES.0);
        loop {
            ensure!(
                load.rate >= RATES.1,
                "without any fault, {load}: at least {} per second must be answered to prove anything",
                RATES.1
            );
            let (calm, ()) = load.during(without_a_fault()).await?;
            load.calm = calm;
            if load.calm.failed == 0 {
                println!("{load}");
                return Ok(load);
            }
            load.rate /= 2.0;
        }
    }

    /// Counts the right answers to clients that each send a request when the one before it is answered.
    async fn answers_per_second(&self) -> f64 {
        let begin = Instant::now();
        let client = async || {
            let mut right = 0_u32;
            for number in 0.. {
                if begin.elapsed() >= MEASURED {
                    break;
                }
                right += u32::from(self.one(number).await.is_ok());
            }
            right
        };
        let right = join_all((0..CLIENTS).map(|_| client())).await;
        f64::from(right.iter().sum::<u32>()) / begin.elapsed().as_secs_f64()
    }

    /// Sends the load until `work` is done, prints the outcome, and fails if a request failed or if the requests took much
    /// longer than without a fault: a proxy that tries another pod hides a failure, but not the time that it took.
    pub async fn fails_nothing<T>(
        &self,
        title: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (report, value) = self.during(work).await?;
        println!("{title}: {report}");
        ensure!(report.failed == 0, "{title}: {report}\n{self}");
        report
            .is_about_as_quick_as(&self.calm)
            .with_context(|| format!("{title}: {report}\n{self}"))?;
        Ok(value)
    }

    /// Sends the load until `work` is done, and returns the result of that as well.
    pub async fn during<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(LoadReport, T)> {
        let mut report = LoadReport::default();
        let mut running = JoinSet::new();
        let mut clock = interval(Duration::from_secs_f64(1.0 / self.rate));
        clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut work = std::pin::pin!(work);
        let outcome = loop {
            tokio::select! {
                result = &mut work => break result?,
                _ = clock.tick() => {
                    report.due += 1;
                    if running.len() < MOST_IN_FLIGHT {
                        running.spawn(self.one(report.due));
                    } else {
                        report.fail(format!("{MOST_IN_FLIGHT} requests are unanswered"));
                    }
                }
                Some(outcome) = running.join_next() => report.count(outcome?),
            }
        };
        while let Some(outcome) = running.join_next().await {
            report.count(outcome?);
        }
        Ok((report, outcome))
    }

    /// Sends the request of this number, and returns the time until its answer.
    fn one(&self, number: u64) -> impl Future<Output = Result<Duration>> + Send + 'static {
        let gateway = self.gateway.clone();
        let (request, right) = match self.mix {
            Mix::RedirectsAndCreates if number.is_multiple_of(2) => {
                let body = json!({"url": TARGET, "reuse": true});
                let request = gateway.request(Method::POST, "/api/shorten");
                (request.json(&body), 200)
            }
            Mix::Redirects | Mix::RedirectsAndCreates => {
                let path = format!("/api/links/{}", self.code);
                (gateway.request(Method::GET, &path), 302)
            }
        };
        async move {
            let begin = Instant::now();
            let answer = gateway.send(request).await?;
            if answer.status != right {
                return Err(Answered {
                    text: format!("expected {right}, got {answer:?}"),
                    by_the_app: ![502, 504].contains(&answer.status),
                }
                .into());
            }
            Ok(begin.elapsed())
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "a load of {:.1} requests per second, where {:.0} were answered at most; without a fault: {}",
            self.rate, self.answered, self.calm
        )
    }
}

/// Ends after a while in which nothing happens.
async fn without_a_fault() -> Result<()> {
    let _ = timeout(CALM, pending::<()>()).await;
    Ok(())
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

    fn count(&mut self, outcome: Result<Duration>) {
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

    fn fail(&mut self, failure: String) {
        self.failed += 1;
        if self.failures.len() < KEPT_FAILURES {
            self.failures.push(failure);
        }
    }
}

/// An answer with the wrong status.
#[derive(Debug)]
struct Answered {
    text: String,
    by_the_app: bool,
}

impl std::fmt::Display for Answered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
