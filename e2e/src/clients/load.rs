//! An open-loop load: requests are sent at fixed times, regardless of the outcome of earlier ones.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::clients::GatewayClient;

/// The destination of the links that are followed.
const TARGET: &str = "https://example.com/under?load=1";
const MOST_IN_FLIGHT: usize = 600;
const KEPT_FAILURES: usize = 20;

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

/// Sends 200 requests per second, half of them redirects and half `POST`s, until `work` is done.
///
/// The `POST`s are needed because a proxy retries a failed `GET` on another pod, which
/// hides the failure of the first pod.
pub async fn under_load(
    gateway: &GatewayClient,
    work: impl Future<Output = Result<()>>,
) -> Result<LoadReport> {
    let code = gateway.shorten(TARGET).await?;
    let (report, ()) = send(gateway, &code, Duration::from_millis(5), 2, work).await?;
    Ok(report)
}

/// Follows a link 100 times per second until `work` is done.
pub async fn follow_links(
    gateway: &GatewayClient,
    work: impl Future<Output = Result<()>>,
) -> Result<LoadReport> {
    let code = gateway.shorten(TARGET).await?;
    let (report, ()) = follow_link(gateway, &code, work).await?;
    Ok(report)
}

/// Follows a link that exists already 100 times per second until `work` is done, and returns its result as well.
pub async fn follow_link<T>(
    gateway: &GatewayClient,
    code: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<(LoadReport, T)> {
    send(gateway, code, Duration::from_millis(10), 1, work).await
}

/// Sends one request per period: every `one_reads`th is a redirect, the others are `POST`s.
async fn send<T>(
    gateway: &GatewayClient,
    code: &str,
    period: Duration,
    one_reads: u64,
    work: impl Future<Output = Result<T>>,
) -> Result<(LoadReport, T)> {
    let mut report = LoadReport::default();
    let mut running = JoinSet::new();
    let mut clock = interval(period);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut work = std::pin::pin!(work);
    let outcome = loop {
        tokio::select! {
            result = &mut work => break result?,
            _ = clock.tick() => {
                report.due += 1;
                if running.len() < MOST_IN_FLIGHT {
                    let reads = report.due.is_multiple_of(one_reads);
                    running.spawn(one(gateway.clone(), code.to_owned(), reads));
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

impl LoadReport {
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

async fn one(gateway: GatewayClient, code: String, reads: bool) -> Result<Duration> {
    let begin = Instant::now();
    let (request, right) = if reads {
        (
            gateway.request(Method::GET, &format!("/api/links/{code}")),
            302,
        )
    } else {
        let body = json!({"url": TARGET, "reuse": true});
        (
            gateway.request(Method::POST, "/api/shorten").json(&body),
            200,
        )
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_requests_may_be_slower_than_p99() {
        let times = |count: u64| Times((1..=count).rev().map(Duration::from_millis).collect());
        for (count, p99) in [(0, 0), (1, 1), (99, 99), (100, 99), (1000, 990)] {
            assert_eq!(times(count).p99(), Duration::from_millis(p99), "{count}");
        }
        assert_eq!(format!("{:?}", times(100)), "100 of them, p99 99ms");
    }
}
