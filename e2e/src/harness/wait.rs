//! Waiting for the cluster: for a condition, never for a fixed time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The time limit for a condition without a promised time. It is generous, because two cores run the whole cluster.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The interval between checks of a condition without a promised time: each check loads the API server.
const UNHURRIED: Duration = Duration::from_millis(300);
/// The interval between checks when the time is measured.
const INTERVAL: Duration = Duration::from_millis(100);

/// Polls until `check` succeeds and returns its value. An error means "not yet"; a timeout reports the last one.
pub async fn await_condition<T>(what: &str, check: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    poll(PATIENCE, UNHURRIED, what, check)
        .await
        .map(|(value, _)| value)
}

/// Polls like [`await_condition`], with a time limit of its own; also returns the elapsed time.
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
            Err(_) => "the check itself did not end in time".to_owned(),
        };
        if begin.elapsed() >= limit {
            bail!(
                "timed out after {} s waiting for: {what}; last seen: {reason}",
                limit.as_secs()
            );
        }
    }
}

/// Calls `check` repeatedly for the whole time; fails at its first error.
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
            bail!("violated after {seconds:.1} s: {what}; seen: {reason:#}");
        }
    }
    Ok(())
}
