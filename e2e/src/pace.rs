//! How long redirects take while something that they can do without is away.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::Door;

/// Redirects that are followed.
const FOLLOWED: usize = 60;
/// A cache that does not answer costs the app 100 ms, and whoever waited for what is cut off or frozen would wait for
/// seconds. Between them is what a busy machine may add.
const QUICK: Duration = Duration::from_millis(1500);
/// What most redirects take although the machine is busy; past the cache's breaker they do not wait at all.
const USUAL: Duration = Duration::from_millis(250);

/// Creates a link and follows it; prints the slowest.
pub async fn redirects_are_right_and_quick(door: &Door) -> Result<()> {
    let url = "https://example.com/during-the-outage";
    let code = door.shorten(url).await?;
    let mut times = Vec::with_capacity(FOLLOWED);
    for _ in 0..FOLLOWED {
        let begin = Instant::now();
        door.leads_to(&code, url).await?;
        times.push(begin.elapsed());
    }
    times.sort();
    let (usual, slowest) = (times[FOLLOWED / 2], times[FOLLOWED - 1]);
    println!("during the outage: usual {usual:?}, slowest {slowest:?} of {FOLLOWED} redirects");
    ensure!(
        usual < USUAL && slowest < QUICK,
        "usual {usual:?}, slowest {slowest:?}"
    );
    Ok(())
}
