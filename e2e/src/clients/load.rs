//! An open-loop load: requests are sent at fixed times, regardless of the outcome of earlier ones.
//!
//! No test may depend on the speed of a machine. So the rate is a small share of what this machine answers, measured just
//! before, and the same load without the fault is part of what a failure reports.

mod report;

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

use self::report::Answered;
pub use self::report::LoadReport;
use crate::clients::GatewayClient;

/// The destination of the links that are followed.
const TARGET: &str = "https://example.com/under?load=1";
const MOST_IN_FLIGHT: usize = 800;

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
                "{load}; a load of fewer than {} per second proves nothing",
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
