//! The rate limit as clients are told about it: the header fields `RateLimit-Policy` and `RateLimit` of
//! draft-ietf-httpapi-ratelimit-headers-10, which are structured fields (RFC 9651).
//!
//! A token bucket is a quota of its burst for the time in which an empty bucket is refilled.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Rate;

/// The field with the quota and its window.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The field with what is left of the quota.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The quota of one limit.
pub struct Quota {
    name: &'static str,
    burst: u32,
    /// The time in which one token is refilled.
    interval: Duration,
    /// The time in which an empty bucket is refilled.
    capacity: Duration,
}

impl Quota {
    /// Returns the quota of a limit with this name and rate.
    pub fn new(name: &'static str, rate: Rate) -> Self {
        let (interval, capacity) = rate.times();
        Self {
            name,
            burst: rate.burst.max(1),
            interval,
            capacity,
        }
    }

    /// Returns the time until a bucket is full again that has so many tokens after `wait`.
    pub fn refill_of_empty(&self, tokens: u32, wait: Duration) -> Duration {
        self.capacity
            .saturating_sub(self.interval.saturating_mul(tokens))
            .saturating_add(wait)
    }

    /// Adds the two fields for a bucket that is full again after `refill`.
    pub fn tell(&self, refill: Duration, headers: &mut HeaderMap) {
        let Self { name, burst, .. } = self;
        let window = seconds(self.capacity).max(1);
        let missing = refill.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        let left = u128::from(*burst).saturating_sub(missing);
        let time = seconds(refill);
        for (field, value) in [
            (
                RATE_LIMIT_POLICY,
                format!("\"{name}\";q={burst};w={window}"),
            ),
            (RATE_LIMIT, format!("\"{name}\";r={left};t={time}")),
        ] {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(field, value);
            }
        }
    }
}

/// Returns whole seconds, rounded up: a client that waits so long never comes too early.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rate: Rate, refill: Duration) -> (String, String) {
        let mut headers = HeaderMap::new();
        Quota::new("shorten", rate).tell(refill, &mut headers);
        let text = |name: HeaderName| headers[name].to_str().unwrap().to_owned();
        (text(RATE_LIMIT_POLICY), text(RATE_LIMIT))
    }

    const PER_MINUTE: Rate = Rate {
        requests: 60,
        period: Duration::from_secs(60),
        burst: 20,
    };

    #[test]
    fn a_bucket_is_a_quota_of_its_burst_in_the_time_that_it_takes_to_fill() {
        for (refill, expected) in [
            (0, "\"shorten\";r=20;t=0"),
            (1_000, "\"shorten\";r=19;t=1"),
            (1_001, "\"shorten\";r=18;t=2"),
            (17_000, "\"shorten\";r=3;t=17"),
            (19_500, "\"shorten\";r=0;t=20"),
            (20_000, "\"shorten\";r=0;t=20"),
        ] {
            let (policy, left) = told(PER_MINUTE, Duration::from_millis(refill));
            assert_eq!(policy, "\"shorten\";q=20;w=20");
            assert_eq!(left, expected, "{refill} ms");
        }
    }

    #[test]
    fn an_empty_bucket_has_nothing_left_however_short_the_wait() {
        let quota = Quota::new("shorten", PER_MINUTE);
        for wait in [1, 500, 1_000] {
            let refill = quota.refill_of_empty(1, Duration::from_millis(wait));
            assert!(told(PER_MINUTE, refill).1.contains(";r=0;"), "{wait} ms");
        }
    }

    #[test]
    fn a_window_is_one_second_at_least() {
        let rate = Rate {
            requests: 1_000_000,
            period: Duration::from_secs(1),
            burst: 0,
        };
        let (policy, left) = told(rate, Duration::from_micros(1));
        assert_eq!(policy, "\"shorten\";q=1;w=1");
        assert_eq!(left, "\"shorten\";r=0;t=1");
    }
}
