//! Waiting for the cluster: by condition, never by time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long a test waits for anything that has no promised time. Generous, because two cores carry the whole cluster.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Between two looks at what has no promised time: each costs the API server something.
const UNHURRIED: Duration = Duration::from_millis(300);
/// Between two looks at what is measured.
const INTERVAL: Duration = Duration::from_millis(100);

/// Polls until `check` succeeds and returns its value. An error means "not yet"; the last one explains a time-out.
pub async fn await_condition<T>(what: &str, check: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    poll(PATIENCE, UNHURRIED, what, check)
        .await
        .map(|(value, _)| value)
}

/// Like [`await_condition`] with a time limit of its own; also returns how long it took.
pub async fn await_within<T>(
    limit: Duration,
    what: &str,
    check: impl AsyncFnMut() -> Result<T>,
) -> Result<(T, Duration)> {
    poll(limit, INTERVAL, what, check).await
}

async fn poll<T>(
    limit: Duration,
    interval: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T>,
) -> Result<(T, Duration)> {
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        let reason = match tokio::time::timeout(limit, check()).await {
            Ok(Ok(value)) => return Ok((value, begin.elapsed())),
            Ok(Err(reason)) => format!("{reason:#}"),
            Err(_) => "the check itself did not come back".to_owned(),
        };
        if begin.elapsed() >= limit {
            bail!(
                "waited {} s in vain for: {what}; last seen: {reason}",
                limit.as_secs()
            );
        }
    }
}

/// Watches that `check` keeps succeeding for the whole time; fails at the first error.
pub async fn holds_for(
    time: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(INTERVAL);
    while begin.elapsed() < time {
        ticks.tick().await;
        if let Err(reason) = check().await {
            let seconds = begin.elapsed().as_secs_f32();
            bail!("did not hold after {seconds:.1} s: {what}; seen: {reason:#}");
        }
    }
    Ok(())
}
