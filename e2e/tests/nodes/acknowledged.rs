//! Checks that a fault loses no acknowledged link or job.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    balancer::Balancer,
    users::{Request, Wish, destination},
};

/// Number of concurrent requests.
const ASKED_AT_ONCE: usize = 16;

/// Checks that the database has every acknowledged link and that every acknowledged job is done.
pub async fn nothing_lost(entry: &Balancer, seen: &[Request]) -> Result<()> {
    let acknowledged = |wish| {
        let of_kind = seen.iter().filter(move |request| request.wish == wish);
        of_kind.filter_map(|request| Some((request.number, request.outcome.as_ref().ok()?)))
    };
    let links: Vec<_> = acknowledged(Wish::Create).collect();
    let jobs: Vec<_> = acknowledged(Wish::Enqueue).collect();
    ensure!(
        !links.is_empty() && !jobs.is_empty(),
        "nothing was acknowledged"
    );
    stream::iter(&links)
        .map(|(number, code)| async move {
            let gateway = entry.pick();
            gateway.assert_stored(code, &destination(*number)).await
        })
        .buffer_unordered(ASKED_AT_ONCE)
        .try_collect::<()>()
        .await?;
    stream::iter(&jobs)
        .map(|(_, id)| async move {
            let done = entry.pick().wait_for_job_status(id, "done").await;
            done.context("an acknowledged job is lost").map(|_| ())
        })
        .buffer_unordered(ASKED_AT_ONCE)
        .try_collect::<()>()
        .await?;
    println!(
        "{} acknowledged links are stored, and {} acknowledged jobs are done",
        links.len(),
        jobs.len()
    );
    Ok(())
}
