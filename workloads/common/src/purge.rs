//! The removal of expired data, in small batches, so that no lock is held for long.
//!
//! An expired link becomes a tombstone: its destination is removed, and its code is never assigned again.

use crate::database::{Database, StoreError};

/// A kind of data that expires.
struct Removal {
    /// The query summary.
    summary: &'static str,
    /// Removes a batch of at most 1,000 rows, and skips rows that another process is removing.
    statement: &'static str,
    /// True if `$1` in the statement is the number of days for which finished jobs stay.
    takes_days: bool,
}

const REMOVALS: [Removal; 6] = [
    Removal {
        summary: "UPDATE links",
        statement: "UPDATE links SET url = NULL WHERE code IN (SELECT code FROM links \
            WHERE expires_at <= now() AND url IS NOT NULL ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    // A disabled link keeps its destination in another column.
    Removal {
        summary: "UPDATE links",
        statement: "UPDATE links SET disabled_url = NULL WHERE code IN (SELECT code FROM links \
            WHERE disabled_at IS NOT NULL AND disabled_url IS NOT NULL AND expires_at <= now() \
            ORDER BY disabled_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    // Longer than the validity of a key, so that no key is removed during a request that has just found it.
    Removal {
        summary: "DELETE link_keys",
        statement: "DELETE FROM link_keys WHERE key IN (SELECT key FROM link_keys \
            WHERE created_at < now() - interval '2 days' LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    Removal {
        summary: "DELETE job_keys",
        statement: "DELETE FROM job_keys WHERE key IN (SELECT key FROM job_keys \
            WHERE created_at < now() - interval '2 days' ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    Removal {
        summary: "DELETE jobs",
        statement: "DELETE FROM jobs WHERE message_id IN (SELECT message_id FROM jobs \
            WHERE finished_at < now() - $1 * interval '1 day' ORDER BY finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: true,
    },
    // Jobs whose worker died at their last delivery.
    Removal {
        summary: "DELETE jobs",
        statement: "DELETE FROM jobs WHERE message_id IN (SELECT message_id FROM jobs \
            WHERE finished_at IS NULL AND started_at < now() - $1 * interval '1 day' \
            ORDER BY started_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: true,
    },
];

/// Removes all data that has expired, over one connection at a time. Finished jobs stay for `retention_days`.
///
/// # Errors
/// Fails if the database is down. What was removed until then stays removed.
pub async fn remove_expired(database: &Database, retention_days: u32) -> Result<(), StoreError> {
    for removal in REMOVALS {
        let mut rows = 0;
        loop {
            match remove(&removal, database, retention_days).await? {
                0 => break,
                removed => rows += removed,
            }
        }
        let summary = removal.summary;
        tracing::info!(event = "purged", db.query.summary = summary, rows, "purged");
    }
    Ok(())
}

/// Removes one batch. Returns the number of its rows.
async fn remove(
    removal: &Removal,
    database: &Database,
    retention_days: u32,
) -> Result<u64, StoreError> {
    let days = removal.takes_days.then(|| i64::from(retention_days));
    let statement = removal.statement;
    let removed = database.run(removal.summary, |pool| async move {
        let remove = sqlx::query(statement);
        match days {
            Some(days) => remove.bind(days).execute(&pool).await,
            None => remove.execute(&pool).await,
        }
    });
    Ok(removed.await?.rows_affected())
}
