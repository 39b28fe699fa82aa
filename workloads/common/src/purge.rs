//! The removal of expired data, in small batches, so that no lock is held for long.
//!
//! An expired link becomes a tombstone: its destination is removed, and its code is never assigned again.

use jiff_sqlx::Timestamp as Time;
use sqlx::PgPool;

use crate::{
    config::PurgeArgs,
    database::{Database, StoreError},
};

/// The number of days for which finished jobs of clients without a key stay in the ledger.
pub const ANONYMOUS_JOB_DAYS: u32 = 1;

/// The number of rows in a batch.
const BATCH: i64 = 1000;
/// The number of rows in a batch after one that took too long.
const SMALL_BATCH: i64 = 100;

/// A kind of data that expires.
struct Removal {
    /// The query summary.
    summary: &'static str,
    /// Removes the oldest rows from the time `$1` on that are older than `$2` days, at most `$3` of them. Returns their
    /// times, and skips rows that another process is removing.
    statement: &'static str,
    age: Age,
}

/// The age up to which rows stay.
#[derive(Clone, Copy)]
enum Age {
    /// This many days.
    Days(u32),
    /// That of finished jobs.
    OfJobs,
    /// That of documents of clients without a key.
    OfDocuments,
    /// That of entries of the audit log.
    OfAudit,
    /// That of clicks.
    OfClicks,
}

impl Age {
    /// Returns the number of days; `None` for ever.
    fn days(self, extent: PurgeArgs) -> Option<u32> {
        match self {
            Self::Days(days) => Some(days),
            Self::OfJobs => Some(extent.purge_retention_days),
            Self::OfDocuments => extent.purge_document_days,
            Self::OfAudit => Some(extent.purge_audit_days),
            Self::OfClicks => Some(extent.purge_click_days),
        }
    }
}

/// Makes a row of [`REMOVALS`] from the change, the condition, the key of the table, the time by which its rows age, and the
/// age. An index serves each: a batch begins where the one before ended, behind the entries of what is removed.
macro_rules! removal {
    (DELETE FROM $table:literal $($rest:tt)+) => {
        removal! { "DELETE", ("DELETE FROM ", $table), $table $($rest)+ }
    };
    (UPDATE $table:literal SET $set:literal $($rest:tt)+) => {
        removal! { "UPDATE", ("UPDATE ", $table, " SET ", $set), $table $($rest)+ }
    };
    (
        $verb:literal, ($($change:literal),+), $table:literal WHERE $condition:literal;
        $key:literal, $time:literal, $age:expr
    ) => {
        Removal {
            summary: concat!($verb, " ", $table),
            statement: concat!(
                $($change,)+ " WHERE ", $key, " IN (SELECT ", $key, " FROM ", $table,
                " WHERE ", $time, " >= coalesce($1, '-infinity') AND ",
                $time, " <= now() - $2 * interval '1 day' AND ", $condition,
                " ORDER BY ", $time, " LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING ", $time
            ),
            age: $age,
        }
    };
}

const REMOVALS: [Removal; 13] = [
    removal! { UPDATE "links" SET "url = NULL" WHERE "url IS NOT NULL"; "code", "expires_at", Age::Days(0) },
    // A disabled link keeps its destination in another column.
    removal! {
        UPDATE "links" SET "disabled_url = NULL" WHERE "disabled_url IS NOT NULL";
        "code", "expires_at", Age::Days(0)
    },
    // Longer than the validity of a key, so that no key is removed during a request that has just found it.
    removal! { DELETE FROM "link_keys" WHERE "true"; "key", "created_at", Age::Days(2) },
    removal! { DELETE FROM "job_keys" WHERE "true"; "key", "created_at", Age::Days(2) },
    removal! { DELETE FROM "jobs" WHERE "true"; "message_id", "finished_at", Age::OfJobs },
    // The latest job stays: it shows that the jobs before it do not wait.
    removal! {
        DELETE FROM "jobs" WHERE "origin = 'anonymous' \
            AND message_id < (SELECT message_id FROM jobs ORDER BY message_id DESC LIMIT 1)";
        "message_id", "finished_at", Age::Days(ANONYMOUS_JOB_DAYS)
    },
    // As if they were deleted: the vector store has them until they are indexed. The time of the last change stays, because
    // it is the position of the purge.
    removal! {
        UPDATE "documents" SET "vector = NULL, payload = NULL, version = nextval('document_versions'), \
            indexed_at = NULL, due_at = now()" WHERE "origin = 'anonymous' AND vector IS NOT NULL";
        "id", "changed_at", Age::OfDocuments
    },
    // Jobs whose worker died at their last delivery.
    removal! { DELETE FROM "jobs" WHERE "finished_at IS NULL"; "message_id", "started_at", Age::OfJobs },
    removal! { DELETE FROM "audit_log" WHERE "true"; "id", "at", Age::OfAudit },
    // The place of a row is its key here, because a day has several rows.
    Removal {
        summary: "DELETE clicks",
        statement: concat!(
            "DELETE FROM clicks WHERE (code, day) IN (SELECT code, day FROM clicks ",
            "WHERE day >= coalesce(($1 AT TIME ZONE 'UTC')::date, '-infinity') ",
            "AND day < (now() AT TIME ZONE 'UTC')::date - $2::int ",
            "ORDER BY day LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING day::timestamp AT TIME ZONE 'UTC'"
        ),
        age: Age::OfClicks,
    },
    // Longer than an outage of the connection between a replica and a database that others reach.
    removal! { DELETE FROM "click_batches" WHERE "true"; "id", "created_at", Age::Days(2) },
    // Until then, management can send them again.
    removal! { DELETE FROM "webhook_deliveries" WHERE "true"; "id", "given_up_at", Age::Days(7) },
    // What nobody sends: a receiver without a secret, or one that was removed while a link was created.
    removal! { DELETE FROM "webhook_deliveries" WHERE "true"; "id", "at", Age::Days(30) },
];

/// Removes all data that has expired, over one connection at a time. A kind of data that cannot be removed does not keep
/// the others.
///
/// # Errors
/// Returns the first error. What was removed stays removed.
pub async fn remove_expired(database: &Database, extent: PurgeArgs) -> Result<(), StoreError> {
    let mut result = Ok(());
    for removal in REMOVALS {
        let Some(days) = removal.age.days(extent) else {
            continue;
        };
        let mut rows = 0;
        let removed = remove_all(&removal, database, days, &mut rows).await;
        let summary = removal.summary;
        tracing::info!(event = "purged", db.query.summary = summary, rows, "purged");
        if let Err(error) = removed {
            tracing::warn!(
                event = "removal_failed",
                db.query.summary = summary,
                error.message = %error,
                "removal_failed"
            );
            result = result.and(Err(error));
        }
    }
    result
}

/// Removes one kind of data, and adds the number of its rows.
async fn remove_all(
    removal: &Removal,
    database: &Database,
    days: u32,
    rows: &mut usize,
) -> Result<(), StoreError> {
    let (mut from, mut batch) = (None, BATCH);
    loop {
        match remove(removal, database, (from, days, batch)).await {
            Ok(times) if times.is_empty() => return Ok(()),
            Ok(times) => {
                *rows += times.len();
                from = times.into_iter().max();
            }
            Err(StoreError::TimedOut(_)) if batch > SMALL_BATCH => batch = SMALL_BATCH,
            Err(error) => return Err(error),
        }
    }
}

/// Removes at most `batch` rows from a time on that are older than these days. Returns their times.
async fn remove(
    removal: &Removal,
    database: &Database,
    (from, days, batch): (Option<Time>, u32, i64),
) -> Result<Vec<Time>, StoreError> {
    let statement = removal.statement;
    let remove = |pool: PgPool| async move {
        let remove = sqlx::query_scalar(statement).bind(from);
        let remove = remove.bind(i64::from(days)).bind(batch);
        remove.fetch_all(&pool).await
    };
    database.run(removal.summary, remove).await
}
