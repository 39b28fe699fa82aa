//! The erasure of a client's name: a pseudonym takes its place wherever the database has it.
//!
//! Free texts, such as reasons, titles and notes, stay as they are.

use serde_json::json;
use shortener_common::database::{StoreError, begin};

use super::Management;
use crate::store::audit::{self, Action, Cause, NewEntry};

/// The beginning of a pseudonym. No client has such a name.
pub const PSEUDONYM: &str = "erased/";

/// The rows of one step.
const BATCH: u64 = 1000;

/// Returns the pseudonym of a name, which is random, and true if the erasure begins. The row keeps requests for the same name
/// apart, and leads from one of them to the next.
const BEGIN: &str = "INSERT INTO erasures (client, pseudonym) VALUES ($1, 'erased/' || gen_random_uuid()) \
    ON CONFLICT (client) DO UPDATE SET client = excluded.client RETURNING pseudonym, xmax = 0";

/// Makes another erasure wait for the end of this one: two that cross would wait for rows of each other.
const ALONE: &str = "LOCK TABLE erasures IN EXCLUSIVE MODE";

const END: &str = "DELETE FROM erasures WHERE client = $1";

/// Puts the pseudonym `$2` where the name `$1` is, in up to [`BATCH`] rows that an index finds.
macro_rules! step {
    ($table:literal, $key:literal, $set:literal, $condition:literal) => {
        concat!(
            "UPDATE ",
            $table,
            " SET ",
            $set,
            " WHERE ",
            $key,
            " IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE ",
            $condition,
            " ORDER BY ",
            $key,
            " LIMIT 1000 FOR UPDATE)"
        )
    };
}

/// Every column that has names of clients.
pub const STEPS: [&str; 8] = [
    step! { "links", "code", "created_by = $2", "created_by = $1" },
    step! { "links", "code", "disabled_by = $2", "disabled_by = $1" },
    step! { "audit_log", "id", "actor = $2", "actor = $1" },
    step! {
        "audit_log", "id", "detail = json_build_object( \
        'from', CASE detail->>'from' WHEN $1 THEN $2 ELSE detail->>'from' END, \
        'to', CASE detail->>'to' WHEN $1 THEN $2 ELSE detail->>'to' END)",
        "action = 'link_transferred' AND ARRAY[detail->>'from', detail->>'to'] @> ARRAY[$1]"
    },
    step! { "jobs", "message_id", "origin = 'key:' || $2", "origin = 'key:' || $1 AND origin LIKE 'key:%'" },
    step! { "documents", "id", "origin = 'key:' || $2", "origin = 'key:' || $1 AND origin LIKE 'key:%'" },
    // The name stands before a space. `!` is the character behind it.
    step! {
        "link_keys", "key", "key = $2 || substr(key, length($1) + 1)",
        "key >= $1 || ' ' AND key < $1 || '!'"
    },
    step! {
        "job_keys", "key", "key = $2 || substr(key, length($1) + 1)",
        "key >= $1 || ' ' AND key < $1 || '!'"
    },
];

/// The result of a request for an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erased {
    /// The number of places.
    pub erased: u64,
    /// True if the name is left somewhere.
    pub remaining: bool,
}

impl Management {
    /// Replaces the name of a client by a pseudonym, in a bounded number of rows. The next call for the name continues with the
    /// same pseudonym, until none remains. The audit log gets an entry, without the name, when something is erased first.
    ///
    /// # Errors
    /// Fails if the database is down. The names may then have been erased.
    pub async fn erase(&self, client: &str, cause: &Cause) -> Result<Erased, StoreError> {
        self.0
            .run("UPDATE links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                sqlx::query(ALONE).execute(&mut *transaction).await?;
                let begin = sqlx::query_as(BEGIN).bind(client);
                let (pseudonym, is_new): (String, bool) =
                    begin.fetch_one(&mut *transaction).await?;
                let (mut erased, mut remaining) = (0, false);
                for step in STEPS {
                    let step = sqlx::query(step).bind(client).bind(&pseudonym);
                    let rows = step.execute(&mut *transaction).await?.rows_affected();
                    erased += rows;
                    // The rest is for the next request, or this one might take longer than it may.
                    if rows == BATCH {
                        remaining = true;
                        break;
                    }
                }
                if is_new && erased > 0 {
                    let entry = NewEntry {
                        action: Action::ClientErased,
                        subject: None,
                        detail: Some(json!({"pseudonym": pseudonym})),
                    };
                    audit::write(&mut *transaction, cause, &entry).await?;
                }
                if !remaining {
                    let end = sqlx::query(END).bind(client);
                    end.execute(&mut *transaction).await?;
                }
                transaction.commit().await?;
                Ok(Erased { erased, remaining })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_ends_after_a_batch() {
        let end = format!(" LIMIT {BATCH} FOR UPDATE)");
        assert!(STEPS.iter().all(|step| step.ends_with(&end)));
    }
}
