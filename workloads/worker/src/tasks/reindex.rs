//! `{"task":"reindex"}`: makes the collection of the vector store equal to the documents in the database.

use futures::future::BoxFuture;
use shortener_common::{database::StoreError, documents::IndexError, queue::job::Job};

use super::{Context, Outcome, Task, Vector, outcome_of};

/// The `reindex` task.
pub(super) struct Reindex;

impl Task for Reindex {
    fn handle<'a>(
        &'a self,
        _: &'a Job,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move {
            match &context.vector {
                Some(vector) => outcome_of(reindex(vector).await),
                None => context.disabled.outcome(),
            }
        })
    }
}

async fn reindex(vector: &Vector) -> Result<Outcome, IndexError> {
    // Every time, because the collection may have been replaced since the last check.
    let report = match vector.prepare().await? {
        Some(report) => report,
        None => vector.documents.reindex(&vector.store).await?,
    };
    tracing::info!(
        event = "reindexed",
        indexed = report.indexed,
        removed = report.removed,
        unfit = report.unfit.len(),
        "reindexed"
    );
    Ok(Outcome::done())
}
