//! Redirect times while a dependency that redirects can do without is down.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::clients::GatewayClient;

/// Redirects that are followed.
const FOLLOWED: usize = 60;
/// The limit for the slowest redirect. A cache that does not answer costs 100 ms; a request that waited for an
/// isolated or frozen server would take seconds. The limit leaves room between them for a busy machine.
const QUICK: Duration = Duration::from_millis(1500);
/// The limit for the median redirect on a busy machine; once the cache's circuit breaker is
/// open, redirects do not wait at all.
const USUAL: Duration = Duration::from_millis(250);

/// Creates a link, follows it, checks the times and prints them.
pub async fn redirects_are_right_and_quick(gateway: &GatewayClient) -> Result<()> {
    let url = "https://example.com/during-the-outage";
    let code = gateway.shorten(url).await?;
    let mut times = Vec::with_capacity(FOLLOWED);
    for _ in 0..FOLLOWED {
        let begin = Instant::now();
        gateway.assert_redirects(&code, url).await?;
        times.push(begin.elapsed());
    }
    times.sort();
    let (usual, slowest) = (times[FOLLOWED / 2], times[FOLLOWED - 1]);
    println!("during the outage: median {usual:?}, slowest {slowest:?} of {FOLLOWED} redirects");
    ensure!(
        usual < USUAL && slowest < QUICK,
        "redirects took {usual:?} at the median (limit {USUAL:?}), {slowest:?} at most (limit {QUICK:?})"
    );
    Ok(())
}
