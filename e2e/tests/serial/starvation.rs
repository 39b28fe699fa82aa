//! Loads that pile up: records that a frozen collector does not take, slow clients, clients that left, codes that do
//! not exist, and jobs that a stalled broker does not take. With the default limits, the memory of the app and the
//! gateway stays flat, nothing restarts, redirects are about as quick as beside as many ordinary requests, and everything
//! works again afterwards.
//!
//! `E2E_STARVE_SECONDS` sets the time of each load: 10 by default. The curves of the memory are printed.
//!
//! Specification: 7.

mod subject;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use shortener_e2e::{Flood, Space};

use self::subject::Subject;
use crate::undisturbed;

/// The times that a load may have, in seconds.
const TIMES: std::ops::RangeInclusive<u64> = 10..=600;

#[tokio::test]
async fn what_piles_up_neither_fills_the_memory_nor_slows_redirects() -> Result<()> {
    let _alone = undisturbed().await?;
    let time = time_of_a_load()?;
    Space::with("starve", async |space| {
        let subject = Subject::start(space, time).await?;
        let mut failures = Vec::new();
        for flood in Flood::HARMFUL {
            if let Err(failure) = endures(&subject, flood).await {
                println!("   {failure:#}");
                failures.push(format!("{}: {failure:#}", flood.as_str()));
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    })
    .await
}

fn time_of_a_load() -> Result<Duration> {
    let seconds = std::env::var("E2E_STARVE_SECONDS");
    let seconds = seconds.map_or(Ok(10), |seconds| seconds.parse::<u64>());
    let seconds = seconds.context("E2E_STARVE_SECONDS is not a number")?;
    ensure!(
        TIMES.contains(&seconds),
        "E2E_STARVE_SECONDS is {seconds}: set it to {} to {}",
        TIMES.start(),
        TIMES.end()
    );
    Ok(Duration::from_secs(seconds))
}

/// Sends a flood while what it needs is out of order, and checks the stack meanwhile and afterwards.
async fn endures(subject: &Subject<'_>, flood: Flood) -> Result<()> {
    let before = subject.pods().await?;
    let outcome = match flood {
        Flood::LongPaths => subject.without_collector(flood).await,
        Flood::LargeJobs => subject.without_broker(flood).await,
        Flood::KnownCode | Flood::SlowBodies | Flood::HalfClosed | Flood::UnknownCodes => {
            subject.during(flood).await
        }
    };
    let works = subject.works().await;
    outcome?;
    works?;
    let after = subject.pods().await?;
    ensure!(
        after == before,
        "pods were replaced or restarted: {before:?} became {after:?}"
    );
    Ok(())
}
