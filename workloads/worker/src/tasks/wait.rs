//! `{"task":"wait","ms":5000}`: only sleeps, to demonstrate several workers, unacknowledged messages and
//! redelivery.

use std::time::Duration;

use serde_json::{Map, Value};
use shortener_common::queue::job::Job;
use tokio::time::sleep;

use super::{Attempt, Context, Outcome, Task};

/// The maximum time in milliseconds.
const MAX_MS: u64 = 60_000;

pub(super) struct Wait;

impl Task for Wait {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> Attempt<'a> {
        Box::pin(async move {
            let Some(time) = time(&job.payload) else {
                let rule = format!("`ms` must be a whole number of milliseconds up to {MAX_MS}");
                return Ok(Outcome::Reject(rule));
            };
            sleep(time).await;
            Ok(Outcome::done())
        })
    }
}

fn time(payload: &Map<String, Value>) -> Option<Duration> {
    let ms = payload.get("ms")?.as_u64()?;
    (ms <= MAX_MS).then_some(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_time_is_bounded() {
        for (ms, expected) in [
            (json!(0), Some(0)),
            (json!(60_000), Some(60_000)),
            (json!(60_001), None),
            (json!(-1), None),
            (json!(1.5), None),
            (json!("1"), None),
            (json!(null), None),
        ] {
            let payload = json!({"ms": ms}).as_object().cloned().unwrap();
            assert_eq!(time(&payload), expected.map(Duration::from_millis), "{ms}");
        }
        assert_eq!(time(&Map::new()), None);
    }
}
