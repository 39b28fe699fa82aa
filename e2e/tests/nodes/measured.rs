//! The effect of a fault on the requests of clients.

use std::{fmt, time::Duration};

use anyhow::{Result, ensure};
use shortener_e2e::Provider;

use crate::users::{Request, Wish};

/// Time from which an answer counts as slow. No program takes as long, but a proxy waits longer for a pod that is gone.
const SLOW: Duration = Duration::from_secs(1);
/// Number of failures of each kind of request that are printed.
const SHOWN: usize = 5;

/// Longest time from the loss of a node to the last redirect that fails, behind the stack's own gateway on every node.
const REDIRECTS: Duration = Duration::from_secs(10);
/// Longest time from the loss of the node of the primary database server to the last request for a link that fails.
const WRITES: Duration = Duration::from_secs(90);

/// The requests from the beginning of a fault, by kind.
#[derive(Debug)]
pub struct Measured {
    pub followed: Trouble,
    pub looked_up: Trouble,
    pub created: Trouble,
    pub enqueued: Trouble,
    /// The requests before the fault.
    pub before: Trouble,
}

/// The requests of one kind, and those that failed or were slow.
#[derive(Debug, Default)]
pub struct Trouble {
    pub sent: usize,
    pub failed: usize,
    pub slow: usize,
    /// The time from the fault to the last request during the fault that failed or was slow.
    pub over_after: Option<Duration>,
    /// The time from the fault to the last request during the fault that failed.
    pub failed_until: Option<Duration>,
    /// The first failures.
    pub failures: Vec<String>,
}

impl Measured {
    /// Counts the requests since the beginning of a fault that lasted from `begin` to `end`.
    pub fn of(seen: &[Request], begin: Duration, end: Duration) -> Self {
        let of = |wish| {
            let during = seen
                .iter()
                .filter(|request| request.wish == wish && request.at >= begin);
            Trouble::of(during, begin, end)
        };
        let before = seen.iter().filter(|request| request.at + SLOW < begin);
        Self {
            followed: of(Wish::Follow),
            looked_up: of(Wish::LookUp),
            created: of(Wish::Create),
            enqueued: of(Wish::Enqueue),
            before: Trouble::of(before, Duration::ZERO, begin),
        }
    }

    /// Checks that clients were served again in time. Behind ingress-nginx, which does not leave out pods that fail, redirects
    /// depend on Kubernetes.
    pub fn within_bounds(&self, provider: Provider) -> Result<()> {
        let redirects = match provider {
            Provider::Standalone => Some((&self.followed, REDIRECTS)),
            Provider::IngressNginx | Provider::GatewayApi => None,
        };
        for (trouble, limit) in redirects.into_iter().chain([(&self.created, WRITES)]) {
            ensure!(
                trouble.failed_until <= Some(limit),
                "requests failed for longer than {limit:?}: {trouble:?}"
            );
        }
        Ok(())
    }

    /// Returns a row of a table in Markdown.
    pub fn row(&self, title: &str) -> String {
        let Self {
            followed,
            looked_up,
            created,
            enqueued,
            before,
        } = self;
        format!(
            "| {title} | {followed} | {looked_up} | {created} | {enqueued} | (before: {before}) |"
        )
    }
}

impl Trouble {
    fn of<'a>(requests: impl Iterator<Item = &'a Request>, begin: Duration, end: Duration) -> Self {
        let mut trouble = Self::default();
        for request in requests {
            let slow = request.took > SLOW;
            trouble.sent += 1;
            trouble.slow += usize::from(slow && request.outcome.is_ok());
            if let Err(failure) = &request.outcome {
                trouble.failed += 1;
                if trouble.failures.len() < SHOWN {
                    trouble.failures.push(failure.clone());
                }
            }
            let after = (request.at < end).then(|| request.at.saturating_sub(begin));
            if request.outcome.is_err() {
                trouble.failed_until = trouble.failed_until.max(after);
            }
            if slow || request.outcome.is_err() {
                trouble.over_after = trouble.over_after.max(after);
            }
        }
        trouble
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} failed and {} slow of {}",
            self.failed, self.slow, self.sent
        )?;
        if let Some(after) = self.over_after {
            write!(formatter, ", the last after {:.1} s", after.as_secs_f32())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at: u64, took: u64, outcome: Result<String, String>) -> Request {
        let (at, took) = (Duration::from_secs(at), Duration::from_secs(took));
        Request {
            wish: Wish::Create,
            number: 0,
            at,
            took,
            outcome,
        }
    }

    #[test]
    fn trouble_counts_from_the_fault_to_its_end() {
        let (right, wrong) = (Ok(String::new()), Err("no".to_owned()));
        let seen = [
            request(1, 0, right.clone()),
            request(10, 0, wrong.clone()),
            request(12, 5, right.clone()),
            request(14, 0, right),
            request(30, 0, wrong),
        ];
        let measured = Measured::of(&seen, Duration::from_secs(10), Duration::from_secs(20));
        assert_eq!(
            measured.created.to_string(),
            "2 failed and 1 slow of 4, the last after 2.0 s"
        );
        assert_eq!(measured.before.to_string(), "0 failed and 0 slow of 1");
        assert_eq!(measured.followed.sent, 0);
    }

    #[test]
    fn requests_that_fail_for_too_long_are_out_of_bounds() {
        let (begin, end) = (Duration::from_secs(10), Duration::from_secs(200));
        let of = |wish, seconds: u64| {
            let late = Request {
                wish,
                ..request(10 + seconds, 0, Err("no".to_owned()))
            };
            Measured::of(&[late], begin, end)
        };
        let standalone = Provider::Standalone;
        assert!(of(Wish::Follow, 10).within_bounds(standalone).is_ok());
        assert!(of(Wish::Follow, 11).within_bounds(standalone).is_err());
        let ingress = Provider::IngressNginx;
        assert!(of(Wish::Follow, 11).within_bounds(ingress).is_ok());
        assert!(of(Wish::Create, 90).within_bounds(ingress).is_ok());
        assert!(of(Wish::Create, 91).within_bounds(ingress).is_err());
    }
}
