//! The background task that fills in the hosts of links which an earlier release created, so that they can be listed.
//!
//! Once a day one replica reads all links in small batches, because an earlier release may run beside this one. The
//! database cannot do it alone: it has no names of international hosts in ASCII.

use std::time::Duration;

use shortener_common::database::{Database, StoreError};
use tokio::time::sleep;

use super::management::Management;
use crate::target;

/// The interval at which a replica looks for a day that has begun.
const INTERVAL: Duration = Duration::from_secs(3600);
/// The time after the start of a replica, in seconds. A rollout needs the database for other things.
const DELAY: std::ops::RangeInclusive<f64> = 60.0..=300.0;
/// The pause between batches, which leaves the database to requests.
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum number of links in a batch.
const BATCH: usize = 1000;

/// Succeeds for one replica a day. A replica that ends meanwhile leaves the rest to the next day.
const CLAIM: &str = "INSERT INTO schedules (name, ran_at) VALUES ('link_hosts', now()) \
    ON CONFLICT (name) DO UPDATE SET ran_at = excluded.ran_at WHERE schedules.ran_at < now() - interval '1 day'";

/// Reads a batch by the primary key, so that its size does not depend on how many links have a host.
const READ: &str = "SELECT code, CASE WHEN host IS NULL THEN coalesce(url, disabled_url) END FROM links \
    WHERE code > $1 ORDER BY code LIMIT $2";

/// Leaves links alone whose destination was removed meanwhile.
const FILL: &str = "UPDATE links SET host = found.host FROM unnest($1::text[], $2::text[]) AS found (code, host) \
    WHERE links.code = found.code AND links.host IS NULL AND coalesce(links.url, links.disabled_url) IS NOT NULL";

/// The task; there is one in each replica.
pub struct HostFiller(Database);

impl HostFiller {
    /// Creates the task.
    #[must_use]
    pub fn new(management: Management) -> Self {
        Self(management.database().clone())
    }

    /// Runs without end.
    pub async fn run(self) {
        sleep(Duration::from_secs_f64(rand::random_range(DELAY))).await;
        loop {
            match self.fill_all().await {
                Ok(0) => {}
                Ok(links) => {
                    tracing::info!(event = "link_hosts_filled", links, "link_hosts_filled")
                }
                Err(error) => tracing::warn!(
                    event = "link_hosts_not_filled",
                    error.message = %error,
                    "link_hosts_not_filled"
                ),
            }
            sleep(INTERVAL).await;
        }
    }

    /// Fills in all hosts if no replica has done so for a day. Returns the number of links that got one.
    ///
    /// # Errors
    /// Fails if the database is down. What was filled in until then stays.
    pub async fn fill_all(&self) -> Result<u64, StoreError> {
        self.0.up().await;
        let claimed = self.0.run("INSERT schedules", |pool| async move {
            sqlx::query(CLAIM).execute(&pool).await
        });
        if claimed.await?.rows_affected() == 0 {
            return Ok(0);
        }
        let mut filled = 0;
        let mut last = String::new();
        loop {
            let after = last.as_str();
            let batch = self.0.run("SELECT links", |pool| async move {
                let read = sqlx::query_as(READ).bind(after).bind(BATCH as i64);
                read.fetch_all(&pool).await
            });
            let batch: Vec<(String, Option<String>)> = batch.await?;
            filled += self.fill(&batch).await?;
            match batch.into_iter().nth(BATCH - 1) {
                Some((code, _)) => last = code,
                None => return Ok(filled),
            }
            sleep(PAUSE).await;
        }
    }

    async fn fill(&self, batch: &[(String, Option<String>)]) -> Result<u64, StoreError> {
        let found = batch.iter().filter_map(|(code, url)| {
            let host = target::host(url.as_deref()?)?;
            Some((code.as_str(), host))
        });
        let (codes, hosts): (Vec<&str>, Vec<String>) = found.unzip();
        if codes.is_empty() {
            return Ok(0);
        }
        let (codes, hosts) = (&codes, &hosts);
        let filled = self.0.run("UPDATE links", |pool| async move {
            let fill = sqlx::query(FILL).bind(codes).bind(hosts);
            fill.execute(&pool).await
        });
        Ok(filled.await?.rows_affected())
    }
}
