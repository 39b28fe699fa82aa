//! `{"task":"purge_expired"}`: removes expired data in small batches, so that no lock is held for long.
//!
//! An expired link becomes a tombstone: its destination is removed, and its code is never assigned again.

use futures::future::BoxFuture;
use shortener_common::{database::StoreError, queue::job::Job};

use super::{Context, Outcome, Task};

/// Query summaries and statements. Each removes a batch of at most 1,000 rows, and skips rows that another worker
/// is removing.
const PURGES: [(&str, &str); 3] = [
    (
        "UPDATE links",
        "UPDATE links SET url = NULL WHERE code IN (SELECT code FROM links \
         WHERE expires_at <= now() AND url IS NOT NULL ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
    ),
    // Longer than the validity of a key, so that no key is removed during a request that has just found it.
    (
        "DELETE job_keys",
        "DELETE FROM job_keys WHERE key IN (SELECT key FROM job_keys \
         WHERE created_at < now() - interval '2 days' ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
    ),
    // Longer than any message stays at the broker, so that every redelivery still finds its record.
    (
        "DELETE jobs",
        "DELETE FROM jobs WHERE message_id IN (SELECT message_id FROM jobs \
         WHERE finished_at < now() - interval '30 days' ORDER BY finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
    ),
];

/// The `purge_expired` task.
pub(super) struct PurgeExpired;

impl Task for PurgeExpired {
    fn handle<'a>(
        &'a self,
        _: &'a Job,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move {
            for (summary, purge) in PURGES {
                let mut rows = 0;
                loop {
                    let batch = context.database.run(summary, |pool| async move {
                        sqlx::query(purge).execute(&pool).await
                    });
                    match batch.await?.rows_affected() {
                        0 => break,
                        purged => rows += purged,
                    }
                }
                tracing::info!(event = "purged", db.query.summary = summary, rows, "purged");
            }
            Ok(Outcome::done())
        })
    }
}
