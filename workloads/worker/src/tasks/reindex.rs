//! `{"task":"reindex"}`: makes the collection of the vector store equal to the documents in the database.

use std::time::Duration;

use shortener_common::{documents::IndexError, queue::job::Job};

use super::{Attempt, Context, Limit, Outcome, Task, Vector, outcome_of};

pub(super) struct Reindex;

impl Task for Reindex {
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> Attempt<'a> {
        Box::pin(async move {
            match context.vector_of(job) {
                Ok(vector) => outcome_of(reindex(vector, job, context.time_limit).await),
                Err(elsewhere) => Ok(elsewhere),
            }
        })
    }

    /// A collection may take any time to fill, but each batch makes progress.
    fn limit(&self) -> Limit {
        Limit::Step
    }
}

async fn reindex(vector: &Vector, job: &Job, limit: Duration) -> Result<Outcome, IndexError> {
    // Every time, because the collection may have been replaced since the last check.
    vector.prepare().await?;
    let Vector { documents, store } = vector;
    let report = documents.reindex(job.id, store, limit).await?;
    tracing::info!(
        event = "reindexed",
        indexed = report.indexed,
        removed = report.removed,
        unfit = report.unfit.len(),
        "reindexed"
    );
    Ok(Outcome::done())
}
