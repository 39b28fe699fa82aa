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
    let mut reason = "the check itself did not end in time".to_owned();
    loop {
        ticks.tick().await;
        let rest = limit.saturating_sub(begin.elapsed());
        match tokio::time::timeout(rest, check()).await {
            Ok(Ok(value)) => return Ok((value, begin.elapsed())),
            Ok(Err(seen)) => reason = format!("{seen:#}"),
            // What was seen before says more.
            Err(_) => {}
        }
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

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test]
    async fn a_check_that_begins_in_time_and_ends_later_is_too_late() {
        let mut checks = 0;
        let waited = await_within(Duration::from_millis(100), "the second check", async || {
            tokio::time::sleep(Duration::from_millis(80)).await;
            checks += 1;
            ensure!(checks > 1, "it is the first check");
            Ok(())
        });
        assert!(waited.await.is_err());
    }
}
