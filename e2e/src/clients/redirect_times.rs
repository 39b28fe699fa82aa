//! Redirect times while a dependency that redirects can do without is down.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::clients::GatewayClient;

const FOLLOWED: usize = 60;
/// A redirect that waited for an isolated or frozen server would take 5 s or longer. On a busy machine, one that is slower
/// than the requests beside it proves nothing below this time.
const WAITS: Duration = Duration::from_secs(3);
/// The median redirect may take this much longer than the median request without a look-up: once the cache's circuit
/// breaker is open, redirects do not wait for the cache at all.
const USUALLY_MORE: Duration = Duration::from_millis(250);
/// The times that a redirect may take as long as a request without a look-up, which needs no other server.
const TIMES: u32 = 4;

/// Creates a link, follows it, checks the times and prints them. They are compared with those of requests beside them that
/// need no look-up, so a slow machine is no failure.
pub async fn redirects_are_right_and_quick(gateway: &GatewayClient) -> Result<()> {
    let url = "https://example.com/during-the-outage";
    let code = gateway.shorten(url).await?;
    let mut redirects = Vec::with_capacity(FOLLOWED);
    let mut others = Vec::with_capacity(FOLLOWED);
    for _ in 0..FOLLOWED {
        let begin = Instant::now();
        gateway.assert_redirects(&code, url).await?;
        redirects.push(begin.elapsed());
        let begin = Instant::now();
        let health = gateway.get("/health").await?;
        others.push(begin.elapsed());
        ensure!(health.status == 200, "/health: {health:?}");
    }
    let [(usual, slowest), (usual_other, slowest_other)] = [redirects, others].map(|mut times| {
        times.sort();
        (times[FOLLOWED / 2], times[FOLLOWED - 1])
    });
    println!(
        "during the outage: median {usual:?}, slowest {slowest:?} of {FOLLOWED} redirects; of requests without a look-up \
         {usual_other:?} and {slowest_other:?}"
    );
    let usual_limit = TIMES * usual_other + USUALLY_MORE;
    let slowest_limit = (TIMES * slowest_other).max(WAITS);
    ensure!(
        usual <= usual_limit && slowest <= slowest_limit,
        "redirects took {usual:?} at the median (limit {usual_limit:?}), {slowest:?} at most (limit {slowest_limit:?})"
    );
    Ok(())
}
