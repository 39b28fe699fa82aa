//! `{"task":"index","id":7}`: makes the point in the vector store equal to the document in the database, which may
//! have been deleted.

use std::time::Duration;

use shortener_common::{
    documents::{DocumentId, IndexError},
    queue::job::Job,
};

use super::{Attempt, Context, Outcome, Task, Vector, outcome_of};

pub(super) struct Index;

impl Task for Index {
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> Attempt<'a> {
        Box::pin(async move {
            let vector = match context.vector_of(job) {
                Ok(vector) => vector,
                Err(elsewhere) => return Ok(elsewhere),
            };
            let id = match job.fields.document() {
                Ok(id) => id,
                Err(error) => return Ok(Outcome::Reject(error.to_string())),
            };
            outcome_of(index(vector, id, job, context.time_limit).await)
        })
    }
}

async fn index(
    vector: &Vector,
    id: DocumentId,
    job: &Job,
    limit: Duration,
) -> Result<Outcome, IndexError> {
    let Vector { documents, store } = vector;
    // A job that creates the collection also fills it.
    if store.ready().is_err() && vector.prepare().await? {
        documents.reindex(job.id, store, limit).await?;
    }
    let report = documents.index([id], store).await?;
    Ok(match report.unfit.first() {
        None => Outcome::done(),
        Some((id, unfit)) => Outcome::Reject(format!(
            "the vector of document {} {unfit}, as the collection requires: store the document again",
            id.get()
        )),
    })
}
