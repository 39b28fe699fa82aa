//! `{"task":"index","id":7}`: makes the point in the vector store equal to the document in the database, which may
//! have been deleted.

use std::time::Duration;

use serde_json::{Map, Value};
use shortener_common::{
    documents::{DocumentId, IndexError},
    queue::job::Job,
};

use super::{Attempt, Context, Outcome, Task, Vector, outcome_of};

pub(super) struct Index;

impl Task for Index {
    fn handle<'a>(&'a self, job: &'a Job, context: &'a Context) -> Attempt<'a> {
        Box::pin(async move {
            let Some(vector) = &context.vector else {
                return context.disabled.outcome();
            };
            let Some(id) = id(&job.payload) else {
                let rule = format!("`id` must be a whole number from 0 to {}", DocumentId::MAX);
                return Ok(Outcome::Reject(rule));
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

fn id(payload: &Map<String, Value>) -> Option<DocumentId> {
    DocumentId::new(payload.get("id")?.as_u64()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_named_by_an_unsigned_integer() {
        for (value, expected) in [
            (json!(0), Some(0)),
            (json!(DocumentId::MAX), Some(DocumentId::MAX)),
            (json!(DocumentId::MAX + 1), None),
            (json!(-1), None),
            (json!(1.5), None),
            (json!("1"), None),
            (json!(null), None),
        ] {
            let payload = json!({"id": value}).as_object().cloned().unwrap();
            assert_eq!(id(&payload).map(DocumentId::get), expected, "{value}");
        }
        assert_eq!(id(&Map::new()), None);
    }
}
