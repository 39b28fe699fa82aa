//! The background task that removes changed links from the cache once more, a few seconds after the change.
//!
//! The first removal comes before the response to the change. It is not enough if the cache did not confirm it, or if the
//! replica ended in between.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use shortener_common::database::StoreError;
use tokio::time::sleep;

use super::{
    cache::Cache,
    management::{BATCH, Management},
};
use crate::code::Code;

/// The longest interval of the task. Replicas start at different times, and their intervals differ.
const INTERVAL: Duration = Duration::from_secs(5);
/// The factor of the interval.
const JITTER: std::ops::RangeInclusive<f64> = 0.6..=1.0;
/// The time for which the state of a claimed link is new enough for the cache. A link that changes meanwhile is due 6 s after
/// the change, and what is written then must be the last word.
const FRESH: Duration = Duration::from_secs(3);

/// The task; there is one in each replica with a cache.
pub struct PurgeSweeper {
    management: Management,
    cache: Arc<Cache>,
}

impl PurgeSweeper {
    pub fn new(management: Management, cache: Arc<Cache>) -> Self {
        Self { management, cache }
    }

    /// Runs without end.
    pub async fn run(self) {
        let mut last_reason = String::new();
        loop {
            sleep(INTERVAL.mul_f64(rand::random_range(JITTER))).await;
            // Another replica may reach the cache.
            if !self.cache.connection().is_up() {
                continue;
            }
            match self.sweep().await {
                Ok(()) => last_reason.clear(),
                Err(error) => {
                    let reason = error.to_string();
                    if reason != last_reason {
                        tracing::warn!(
                            event = "purge_failed",
                            error.message = reason,
                            "purge_failed"
                        );
                        last_reason = reason;
                    }
                }
            }
        }
    }

    /// Removes all links that are due, until the cache fails to confirm one, or until the claim is old. Those that are left
    /// become due again when their claims end.
    async fn sweep(&self) -> Result<(), StoreError> {
        loop {
            let begun = Instant::now();
            let claimed = self.management.claim().await?;
            for due in &claimed {
                if begun.elapsed() > FRESH {
                    return Ok(());
                }
                if let Ok(code) = Code::parse(&due.code)
                    && !self.cache.purge(code, due.takedown.as_ref()).await
                {
                    return Ok(());
                }
                self.management.purged(due).await?;
            }
            if claimed.len() < BATCH {
                return Ok(());
            }
        }
    }
}
