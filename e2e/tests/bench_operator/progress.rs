//! Steps that take long: a sign of life every 10 s, and a limit.

use std::{pin::pin, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::time::{Instant, interval_at};

/// The interval between two lines about a step.
const BEAT: Duration = Duration::from_secs(10);

/// Does a step and returns its outcome with its time. `shown` is what has been done of it so far.
pub(crate) async fn step<T>(
    what: &str,
    limit: Duration,
    shown: impl Fn() -> String,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Duration)> {
    let begin = Instant::now();
    let mut beat = interval_at(begin + BEAT, BEAT);
    let mut work = pin!(work);
    println!("==> {what}");
    loop {
        tokio::select! {
            outcome = &mut work => {
                let value = outcome.with_context(|| format!("{what}: {}", shown()))?;
                println!("    done in {:.1} s", begin.elapsed().as_secs_f64());
                return Ok((value, begin.elapsed()));
            }
            _ = beat.tick() => {
                let seconds = begin.elapsed().as_secs();
                println!("    ... {seconds} s: {}", shown());
                ensure!(begin.elapsed() < limit, "{what} has not ended after {seconds} s: {}", shown());
            }
        }
    }
}
