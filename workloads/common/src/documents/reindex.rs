//! The rebuilding of the whole collection: every document is indexed, then all other points are removed.
//!
//! A document that was indexed after the job began is up to date. So a job that is interrupted leaves out what it has
//! done, and nothing has to record how far it came.

use std::{collections::HashSet, time::Duration};

use qdrant_client::qdrant::{PointId, point_id::PointIdOptions};
use tokio::time::timeout;
use uuid::Uuid;

use super::{DocumentId, Documents, IndexError, Report};
use crate::{database::StoreError, vector::VectorStore};

/// The number of documents or points that are processed at once.
const BATCH: i32 = 100;

const READ_NEXT: &str = "SELECT id, coalesce(indexed_at < (SELECT created_at FROM jobs WHERE message_id = $3), true) \
    FROM documents WHERE id > $1 ORDER BY id LIMIT $2";
const KNOWN: &str = "SELECT id FROM documents WHERE id = ANY($1)";

impl Documents {
    /// Makes the whole collection equal to the documents, on behalf of a job. A batch may take `step_limit`; the whole has
    /// no time limit. The report is about the batches of this call.
    ///
    /// # Errors
    /// Fails if that is not certain. Another call for the same job continues.
    pub async fn reindex(
        &self,
        job: Uuid,
        store: &VectorStore,
        step_limit: Duration,
    ) -> Result<Report, IndexError> {
        let stalled = |_| IndexError::Stalled(step_limit);
        let mut report = Report::default();
        let mut after = Some(-1);
        while let Some(id) = after {
            let step = timeout(step_limit, self.index_after(id, job, store));
            let (done, last) = step.await.map_err(stalled)??;
            report.join(done);
            after = last;
        }
        let mut page = None;
        loop {
            let step = timeout(step_limit, self.remove_strays(page, store));
            let (done, next) = step.await.map_err(stalled)??;
            report.join(done);
            if next.is_none() {
                return Ok(report);
            }
            page = next;
        }
    }

    /// Indexes the documents after this identifier. Returns the last of them.
    async fn index_after(
        &self,
        after: i64,
        job: Uuid,
        store: &VectorStore,
    ) -> Result<(Report, Option<i64>), IndexError> {
        let next = self.next(after, job).await?;
        let last = next.last().map(|(id, _)| *id);
        let left = next.into_iter().filter(|(_, is_left)| *is_left);
        let ids = left.map(|(id, _)| DocumentId(id));
        Ok((self.index(ids, store).await?, last))
    }

    /// Returns the next documents, each with true if the job has yet to index it.
    async fn next(&self, after: i64, job: Uuid) -> Result<Vec<(i64, bool)>, StoreError> {
        let next = self.0.run("SELECT documents", |pool| async move {
            let next = sqlx::query_as(READ_NEXT).bind(after).bind(BATCH);
            next.bind(job).fetch_all(&pool).await
        });
        next.await
    }

    /// Removes points without a document on this page; `None` is the first one. Returns the next page.
    async fn remove_strays(
        &self,
        page: Option<PointId>,
        store: &VectorStore,
    ) -> Result<(Report, Option<PointId>), IndexError> {
        let mut report = Report::default();
        let (points, next) = store.page(page, BATCH.unsigned_abs()).await?;
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
        Ok((report, next))
    }
}

/// Returns the number of a point that can belong to a document, and otherwise the point itself.
fn own(point: PointId) -> Result<i64, PointId> {
    match point.point_id_options {
        Some(PointIdOptions::Num(number)) => number.try_into().map_err(|_| PointId::from(number)),
        _ => Err(point),
    }
}

#[cfg(test)]
mod tests {
    use shortener_testing::database::TestDatabase;
    use sqlx::{ConnectOptions, Executor};

    use super::*;
    use crate::documents::tests::documents;

    #[tokio::test]
    async fn a_document_that_was_indexed_after_the_job_began_is_left_out() {
        let database = TestDatabase::new().await;
        let documents = documents(&database).await;
        let mut connection = database.connect().await.unwrap();
        let job = Uuid::now_v7();
        let rows = format!(
            "INSERT INTO jobs (message_id, task, state, created_at) VALUES ('{job}', 'reindex', 'running', now() - interval '1 h'); \
            INSERT INTO documents (id, vector, payload, indexed_at, due_at) VALUES \
            (1, '{{1}}', '{{}}', NULL, now()), (2, '{{1}}', '{{}}', now() - interval '2 h', NULL), (3, '{{1}}', '{{}}', now(), NULL)"
        );
        connection.execute(sqlx::AssertSqlSafe(rows)).await.unwrap();
        let next = documents.next(-1, job).await.unwrap();
        assert_eq!(next, [(1, true), (2, true), (3, false)]);
        let unknown = documents.next(1, Uuid::now_v7()).await.unwrap();
        assert_eq!(unknown, [(2, true), (3, true)]);
    }
}
