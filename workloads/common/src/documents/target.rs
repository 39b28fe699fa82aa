//! The vector store that counts.
//!
//! While the settings change, programs with the earlier and with the new store run at the same time, and both index. One row
//! of the database has the target ([`VectorStore::target`](crate::vector::VectorStore::target)) that counts. What a program
//! with another target has indexed stays due, so that one with the right target indexes it too.

use sqlx::PgConnection;

use super::Documents;
use crate::database::StoreError;

/// Of the target that counts: is it this one, is it complete, and was it last seen too long ago to keep the row, or to count?
const READ: &str = "SELECT target = $1, is_complete, seen_at < now() - interval '30 seconds', \
    seen_at < now() - interval '5 minutes' FROM vector_target";

/// Records that a program has this complete target, unless another one counts.
const KEEP: &str = "INSERT INTO vector_target (target, is_complete) VALUES ($1, true) ON CONFLICT (is_only) \
    DO UPDATE SET is_complete = true, seen_at = now() WHERE vector_target.target = excluded.target";

const TAKE: &str = "INSERT INTO vector_target (target) VALUES ($1) ON CONFLICT (is_only) \
    DO UPDATE SET target = excluded.target, is_complete = false, seen_at = now()";

const SEEN: &str = "UPDATE vector_target SET seen_at = now() WHERE target = $1";

/// There is no row until a program of this release has found its collection.
const COUNTS: &str = "SELECT NOT EXISTS (SELECT FROM vector_target WHERE target <> $1)";

/// The row, as [`READ`] returns it.
type Row = (bool, bool, bool, bool);

/// What a target is to the program that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It counts.
    Counts,
    /// It counts, and the row has to say that a program has it.
    Keeps,
    /// Another one counts, which programs have.
    Waits,
    /// The one that counts is another one that no program has, or was left incomplete.
    Takes,
}

fn standing(row: Option<Row>) -> Standing {
    match row {
        None | Some((true, true, true, _)) => Standing::Keeps,
        Some((true, true, false, _)) => Standing::Counts,
        Some((_, _, _, true)) => Standing::Takes,
        // Another program makes the documents due at the moment.
        Some((true, false, _, false)) => Standing::Counts,
        Some((false, _, _, false)) => Standing::Waits,
    }
}

impl Documents {
    /// Returns the standing of a target whose collection exists, after the row says that a program has it.
    pub(super) async fn standing(&self, target: &str) -> Result<Standing, StoreError> {
        let row = self.0.run("SELECT vector_target", |pool| async move {
            let read = sqlx::query_as(READ).bind(target);
            read.fetch_optional(&pool).await
        });
        match standing(row.await?) {
            Standing::Keeps => {
                self.write_target(KEEP, target).await?;
                Ok(Standing::Counts)
            }
            standing => Ok(standing),
        }
    }

    /// Makes this target the one that counts, and all documents due after `delay` seconds. Returns their number.
    pub(super) async fn take(&self, target: &str, delay: f64) -> Result<usize, StoreError> {
        self.write_target(TAKE, target).await?;
        let forgotten = self.forget(target, delay).await?;
        self.write_target(KEEP, target).await?;
        Ok(forgotten)
    }

    /// Records that a program still has this target.
    pub(super) async fn seen(&self, target: &str) -> Result<(), StoreError> {
        self.write_target(SEEN, target).await
    }

    async fn write_target(&self, statement: &'static str, target: &str) -> Result<(), StoreError> {
        let written = self.0.run("UPDATE vector_target", |pool| async move {
            sqlx::query(statement).bind(target).execute(&pool).await
        });
        written.await.map(drop)
    }
}

/// Returns true if this target counts.
pub(super) async fn counts(
    connection: &mut PgConnection,
    target: &str,
) -> Result<bool, sqlx::Error> {
    let counts = sqlx::query_scalar(COUNTS).bind(target);
    counts.fetch_one(connection).await
}

#[cfg(test)]
mod tests {
    use shortener_testing::database::TestDatabase;
    use sqlx::ConnectOptions;

    use super::*;
    use crate::{
        documents::{DocumentId, tests::documents},
        queue::origin::Origin,
    };

    #[tokio::test]
    async fn a_document_with_a_job_for_another_store_than_the_one_that_counts_stays_due() {
        let database = TestDatabase::new().await;
        let documents = documents(&database).await;
        documents.take("later", 0.0).await.unwrap();
        let id = DocumentId::new(1).unwrap();
        let put = documents.put(id, &[1.0], "{}".into(), &Origin::Internal);
        let (version, _) = put.await.unwrap();
        let mut connection = database.connect().await.unwrap();
        for (target, is_soon) in [("earlier", true), ("later", false)] {
            documents.queued(version, target).await.unwrap();
            let soon = "SELECT due_at < now() + interval '1 minute' FROM documents";
            let soon = sqlx::query_scalar::<_, bool>(soon).fetch_one(&mut connection);
            assert_eq!(soon.await.unwrap(), is_soon, "{target}");
        }
        let hurry = sqlx::query("UPDATE documents SET due_at = now()").execute(&mut connection);
        hurry.await.unwrap();
        for (target, claimed) in [("earlier", vec![]), ("later", vec![version])] {
            assert_eq!(documents.claim(9, target).await.unwrap(), claimed);
        }
    }

    #[test]
    fn a_target_counts_until_no_program_has_it() {
        for (row, expected) in [
            (None, Standing::Keeps),
            (Some((true, true, false, false)), Standing::Counts),
            (Some((true, true, true, false)), Standing::Keeps),
            (Some((true, true, true, true)), Standing::Keeps),
            (Some((true, false, true, false)), Standing::Counts),
            (Some((true, false, true, true)), Standing::Takes),
            (Some((false, true, true, false)), Standing::Waits),
            (Some((false, true, true, true)), Standing::Takes),
            (Some((false, false, false, false)), Standing::Waits),
        ] {
            assert_eq!(standing(row), expected, "{row:?}");
        }
    }
}
