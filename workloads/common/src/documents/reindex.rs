//! A run makes the whole collection equal to the documents: it indexes every document, then removes all other points.
//! After each batch it records its position, so that a worker continues where another one stopped.
//!
//! A position is only replaced by the process that worked from it. Otherwise another one has changed it: a second
//! worker with the same job, or a worker that replaced the collection. The run then continues from the new position.

use std::{collections::HashSet, time::Duration};

use qdrant_client::qdrant::{PointId, point_id::PointIdOptions};
use sqlx::PgConnection;
use tokio::time::timeout;
use uuid::Uuid;

use super::{DocumentId, Documents, IndexError, Report};
use crate::{database::StoreError, vector::VectorStore};

/// The number of documents or points that are processed at once.
const BATCH: i32 = 100;

const READ_NEXT: &str = "SELECT id FROM documents WHERE id > $1 ORDER BY id LIMIT $2";
const KNOWN: &str = "SELECT id FROM documents WHERE id = ANY($1)";

/// Begins a run. One of another collection begins anew.
const BEGIN: &str = "INSERT INTO reindex_runs (message_id, collection, phase, after_id) \
    VALUES ($1::uuid, $2, 'documents', -1) ON CONFLICT (message_id) DO UPDATE SET collection = excluded.collection, \
    phase = excluded.phase, after_id = excluded.after_id, page = NULL, updated_at = now() \
    WHERE reindex_runs.collection <> excluded.collection";

const POSITION: &str = "SELECT phase, after_id, page FROM reindex_runs WHERE message_id = $1::uuid";

const ADVANCE: &str = "UPDATE reindex_runs SET phase = $5, after_id = $6, page = $7, updated_at = now() \
    WHERE message_id = $1::uuid AND phase = $2 AND after_id = $3 AND page IS NOT DISTINCT FROM $4";

const RESTART: &str = "UPDATE reindex_runs SET phase = 'documents', after_id = -1, page = NULL, updated_at = now() \
    WHERE collection = $1";

const END: &str = "DELETE FROM reindex_runs WHERE message_id = $1::uuid";

/// The position of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Position {
    /// The documents up to this identifier are indexed.
    After(i64),
    /// All documents are indexed, and the points before this page are checked; `None` is the first page.
    Page(Option<String>),
}

/// The columns of a position.
type Row = (String, i64, Option<String>);

impl Position {
    /// The position of a new run.
    const START: Self = Self::After(-1);

    fn of((phase, after, page): Row) -> Self {
        match phase.as_str() {
            "documents" => Self::After(after),
            _ => Self::Page(page),
        }
    }

    fn columns(&self) -> (&'static str, i64, Option<&str>) {
        match self {
            Self::After(id) => ("documents", *id, None),
            Self::Page(page) => ("strays", -1, page.as_deref()),
        }
    }
}

impl Documents {
    /// Makes the whole collection equal to the documents, or continues a run that did not end. A batch may take
    /// `step_limit`; the run as a whole has no time limit. The report is about the batches of this call.
    ///
    /// # Errors
    /// Fails if that is not certain. Another call with the same `run` continues.
    pub async fn reindex(
        &self,
        run: Uuid,
        store: &VectorStore,
        step_limit: Duration,
    ) -> Result<Report, IndexError> {
        let mut report = Report::default();
        let mut next = self.begin(run, store.collection()).await?;
        if let Some(position) = next.as_ref().filter(|next| **next != Position::START) {
            tracing::info!(event = "reindex_resumed", ?position, "reindex_resumed");
        }
        while let Some(position) = next {
            let step = timeout(step_limit, self.step(&position, store)).await;
            let (done, reached) = step.map_err(|_| IndexError::Stalled(step_limit))??;
            report.join(done);
            // At the end as well, because the collection may have been replaced meanwhile.
            let to = reached.as_ref().unwrap_or(&position);
            let advanced = self.advance(run, &position, to).await?;
            next = if advanced {
                reached
            } else {
                self.position(run).await?
            };
        }
        Ok(report)
    }

    /// Removes the record of a run that has ended.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn end_run(connection: &mut PgConnection, run: Uuid) -> Result<(), sqlx::Error> {
        let end = sqlx::query(END).bind(run.to_string());
        end.execute(connection).await.map(drop)
    }

    /// Returns every run to its start, because the collection is going to be a new one.
    pub(super) async fn restart_runs(&self, collection: &str) -> Result<(), StoreError> {
        let restart = self.0.run("UPDATE reindex_runs", |pool| async move {
            sqlx::query(RESTART).bind(collection).execute(&pool).await
        });
        restart.await.map(drop)
    }

    /// Returns the position of a run, and begins the run if it is new.
    async fn begin(&self, run: Uuid, collection: &str) -> Result<Option<Position>, StoreError> {
        let begin = self.0.run("INSERT reindex_runs", |pool| async move {
            let begin = sqlx::query(BEGIN).bind(run.to_string()).bind(collection);
            begin.execute(&pool).await
        });
        begin.await?;
        self.position(run).await
    }

    /// Returns the position of a run; `None` if another process ended it.
    async fn position(&self, run: Uuid) -> Result<Option<Position>, StoreError> {
        let row: Option<Row> = self
            .0
            .run("SELECT reindex_runs", |pool| async move {
                let position = sqlx::query_as(POSITION).bind(run.to_string());
                position.fetch_optional(&pool).await
            })
            .await?;
        Ok(row.map(Position::of))
    }

    /// Replaces the position of a run. Returns false if the position is no longer `from`.
    async fn advance(&self, run: Uuid, from: &Position, to: &Position) -> Result<bool, StoreError> {
        let (from, to) = (from.columns(), to.columns());
        let advance = self.0.run("UPDATE reindex_runs", |pool| async move {
            sqlx::query(ADVANCE)
                .bind(run.to_string())
                .bind(from.0)
                .bind(from.1)
                .bind(from.2)
                .bind(to.0)
                .bind(to.1)
                .bind(to.2)
                .execute(&pool)
                .await
        });
        Ok(advance.await?.rows_affected() == 1)
    }

    /// Processes the batch at a position. Returns the next position, or `None` at the end.
    async fn step(
        &self,
        position: &Position,
        store: &VectorStore,
    ) -> Result<(Report, Option<Position>), IndexError> {
        match position {
            Position::After(id) => {
                let (report, last) = self.index_after(*id, store).await?;
                Ok((
                    report,
                    Some(last.map_or(Position::Page(None), Position::After)),
                ))
            }
            Position::Page(page) => {
                let (report, next) = self.remove_strays(page.as_deref(), store).await?;
                Ok((report, next.map(|next| Position::Page(Some(next)))))
            }
        }
    }

    /// Indexes the documents after this identifier. Returns the last of them.
    async fn index_after(
        &self,
        after: i64,
        store: &VectorStore,
    ) -> Result<(Report, Option<i64>), IndexError> {
        let next = self.0.run("SELECT documents", |pool| async move {
            let next = sqlx::query_scalar(READ_NEXT).bind(after).bind(BATCH);
            next.fetch_all(&pool).await
        });
        let ids: Vec<i64> = next.await?;
        let last = ids.last().copied();
        let ids = ids.into_iter().map(DocumentId);
        Ok((self.index(ids, store).await?, last))
    }

    /// Removes points without a document on this page. Returns the next page.
    async fn remove_strays(
        &self,
        page: Option<&str>,
        store: &VectorStore,
    ) -> Result<(Report, Option<String>), IndexError> {
        let mut report = Report::default();
        let (points, next) = store.page(page.map(point), BATCH.unsigned_abs()).await?;
        let (own, foreign): (Vec<_>, Vec<_>) = points.into_iter().map(own).partition(Result::is_ok);
        let foreign: Vec<PointId> = foreign.into_iter().filter_map(Result::err).collect();
        if !foreign.is_empty() {
            report.removed += foreign.len();
            store.delete(foreign).await?;
        }
        let own: Vec<i64> = own.into_iter().flatten().collect();
        let ids = &own;
        let known = self.0.run("SELECT documents", |pool| async move {
            let known = sqlx::query_scalar(KNOWN).bind(ids);
            known.fetch_all(&pool).await
        });
        let known: HashSet<i64> = known.await?.into_iter().collect();
        let strays = own.into_iter().filter(|id| !known.contains(id));
        report.join(self.index(strays.map(DocumentId), store).await?);
        Ok((report, next.and_then(name)))
    }
}

/// Returns the number of a point that can belong to a document, and otherwise the point itself.
fn own(point: PointId) -> Result<i64, PointId> {
    match point.point_id_options {
        Some(PointIdOptions::Num(number)) => number.try_into().map_err(|_| PointId::from(number)),
        _ => Err(point),
    }
}

/// Returns the identifier of a point as text.
fn name(point: PointId) -> Option<String> {
    Some(match point.point_id_options? {
        PointIdOptions::Num(number) => number.to_string(),
        PointIdOptions::Uuid(uuid) => uuid,
    })
}

/// Returns the point with this identifier: a number or a UUID.
fn point(name: &str) -> PointId {
    match name.parse::<u64>() {
        Ok(number) => PointId::from(number),
        Err(_) => PointId::from(name),
    }
}

#[cfg(test)]
mod tests {
    use shortener_testing::database::TestDatabase;

    use super::*;
    use crate::documents::tests::documents;

    #[test]
    fn a_page_begins_at_a_point_whose_identifier_is_a_number_or_a_uuid() {
        for text in [
            "0",
            "18446744073709551615",
            "00000000-0000-4000-8000-000000000000",
        ] {
            assert_eq!(name(point(text)).as_deref(), Some(text));
        }
        assert_eq!(point("7"), PointId::from(7));
    }

    #[tokio::test]
    async fn a_run_continues_where_it_was_unless_the_collection_is_another_one() {
        let database = TestDatabase::new().await;
        let documents = documents(&database).await;
        let run = Uuid::now_v7();
        let (middle, page) = (Position::After(99), Position::Page(Some("7".to_owned())));
        let begin = async |collection: &str| documents.begin(run, collection).await.unwrap();
        assert_eq!(begin("docs").await, Some(Position::START));
        assert!(
            documents
                .advance(run, &Position::START, &middle)
                .await
                .unwrap()
        );
        assert_eq!(begin("docs").await, Some(middle.clone()));
        assert!(documents.advance(run, &middle, &page).await.unwrap());
        assert_eq!(begin("docs").await, Some(page));
        assert_eq!(begin("pages").await, Some(Position::START));
    }

    #[tokio::test]
    async fn a_position_that_another_process_has_changed_stays() {
        let database = TestDatabase::new().await;
        let documents = documents(&database).await;
        let run = Uuid::now_v7();
        let (middle, first_page) = (Position::After(99), Position::Page(None));
        documents.begin(run, "docs").await.unwrap();
        assert!(
            documents
                .advance(run, &Position::START, &middle)
                .await
                .unwrap()
        );
        assert!(
            !documents
                .advance(run, &Position::START, &first_page)
                .await
                .unwrap()
        );
        assert_eq!(documents.position(run).await.unwrap(), Some(middle.clone()));
        documents.restart_runs("docs").await.unwrap();
        assert!(!documents.advance(run, &middle, &first_page).await.unwrap());
        assert_eq!(
            documents.position(run).await.unwrap(),
            Some(Position::START)
        );

        let other = Uuid::now_v7();
        documents.begin(other, "docs").await.unwrap();
        let mut connection = sqlx::ConnectOptions::connect(&*database).await.unwrap();
        Documents::end_run(&mut connection, run).await.unwrap();
        assert_eq!(documents.position(run).await.unwrap(), None);
        assert_eq!(
            documents.position(other).await.unwrap(),
            Some(Position::START)
        );
    }
}
