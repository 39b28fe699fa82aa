//! The removal of expired data, in small batches, so that no lock is held for long.
//!
//! An expired link becomes a tombstone: its destination is removed, and its code is never assigned again.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::database::{Database, StoreError};

/// The row of `schedules` with the time of the last purge that succeeded.
pub const SUCCESS: &str = "purge_done";

const NOTE_SUCCESS: &str = "INSERT INTO schedules (name, ran_at) VALUES ($1, now()) \
    ON CONFLICT (name) DO UPDATE SET ran_at = excluded.ran_at";

/// A kind of data that expires.
struct Removal {
    /// The query summary.
    summary: &'static str,
    table: &'static str,
    /// Removes a batch of at most 1,000 rows, and skips rows that another process is removing.
    statement: &'static str,
    /// True if `$1` in the statement is the number of days for which finished jobs stay.
    takes_days: bool,
}

const REMOVALS: [Removal; 6] = [
    Removal {
        summary: "UPDATE links",
        table: "links",
        statement: "UPDATE links SET url = NULL WHERE code IN (SELECT code FROM links \
            WHERE expires_at <= now() AND url IS NOT NULL ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    // A disabled link keeps its destination in another column.
    Removal {
        summary: "UPDATE links",
        table: "links",
        statement: "UPDATE links SET disabled_url = NULL WHERE code IN (SELECT code FROM links \
            WHERE disabled_at IS NOT NULL AND disabled_url IS NOT NULL AND expires_at <= now() \
            ORDER BY disabled_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    // Longer than the validity of a key, so that no key is removed during a request that has just found it.
    Removal {
        summary: "DELETE link_keys",
        table: "link_keys",
        statement: "DELETE FROM link_keys WHERE key IN (SELECT key FROM link_keys \
            WHERE created_at < now() - interval '2 days' LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    Removal {
        summary: "DELETE job_keys",
        table: "job_keys",
        statement: "DELETE FROM job_keys WHERE key IN (SELECT key FROM job_keys \
            WHERE created_at < now() - interval '2 days' ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
    Removal {
        summary: "DELETE jobs",
        table: "jobs",
        statement: "DELETE FROM jobs WHERE message_id IN (SELECT message_id FROM jobs \
            WHERE finished_at < now() - $1 * interval '1 day' ORDER BY finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: true,
    },
    // A run that goes on is much younger, because it writes its position after each batch.
    Removal {
        summary: "DELETE reindex_runs",
        table: "reindex_runs",
        statement: "DELETE FROM reindex_runs WHERE message_id IN (SELECT message_id FROM reindex_runs \
            WHERE updated_at < now() - interval '1 day' LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        takes_days: false,
    },
];

/// The metrics of the purge; clones share the same series.
#[derive(Clone, Debug)]
pub struct PurgeMetrics {
    done: Counter,
    failed: Counter,
    rows: Family<[(&'static str, &'static str); 1], Counter>,
}

impl PurgeMetrics {
    /// Registers the metrics. Every series exists from the first scrape on.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let runs = Family::<[(&str, &str); 1], Counter>::default();
        let metrics = Self {
            done: runs.get_or_create_owned(&[("result", "done")]),
            failed: runs.get_or_create_owned(&[("result", "failed")]),
            rows: Family::default(),
        };
        for Removal { table, .. } in REMOVALS {
            drop(metrics.rows.get_or_create(&[("table", table)]));
        }
        registry.register("purge_runs", "Removals of expired data, by result", runs);
        registry.register(
            "purged_rows",
            "Rows whose expired data was removed, by table",
            metrics.rows.clone(),
        );
        metrics
    }
}

/// The removal of expired data.
#[derive(Clone, Debug)]
pub struct Purge {
    /// The number of days for which finished jobs stay.
    pub keep_days: u32,
    pub metrics: PurgeMetrics,
}

impl Purge {
    /// Removes all data that has expired, over one connection at a time.
    ///
    /// # Errors
    /// Fails if the database is down. What was removed until then stays removed.
    pub async fn run(&self, database: &Database) -> Result<(), StoreError> {
        let result = self.remove_all(database).await;
        match &result {
            Ok(()) => self.metrics.done.inc(),
            Err(_) => self.metrics.failed.inc(),
        };
        result
    }

    async fn remove_all(&self, database: &Database) -> Result<(), StoreError> {
        for removal in REMOVALS {
            let mut rows = 0;
            loop {
                match self.remove(&removal, database).await? {
                    0 => break,
                    removed => rows += removed,
                }
            }
            let (table, summary) = (removal.table, removal.summary);
            tracing::info!(event = "purged", db.query.summary = summary, rows, "purged");
            let counter = self.metrics.rows.get_or_create(&[("table", table)]);
            counter.inc_by(rows);
        }
        let noted = database.run("INSERT schedules", |pool| async move {
            let note = sqlx::query(NOTE_SUCCESS).bind(SUCCESS);
            note.execute(&pool).await
        });
        noted.await.map(drop)
    }

    /// Removes one batch. Returns the number of its rows.
    async fn remove(&self, removal: &Removal, database: &Database) -> Result<u64, StoreError> {
        let days = removal.takes_days.then(|| i64::from(self.keep_days));
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
}
