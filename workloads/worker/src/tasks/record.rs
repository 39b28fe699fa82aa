//! The default task: stores the job as it was sent in its record.

use futures::future::BoxFuture;
use shortener_common::{database::StoreError, queue::job::Job};

use super::{Context, Outcome, Task};

const KEEP: &str = "UPDATE jobs SET payload = $2::json WHERE message_id = $1";

/// The default task.
pub(super) struct Record;

impl Task for Record {
    fn handle<'a>(
        &'a self,
        job: &'a Job,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        let (id, text) = (job.id, job.text.clone());
        Box::pin(async move {
            Ok(Outcome::Done(Box::new(move |connection| {
                Box::pin(async move {
                    let keep = sqlx::query(KEEP).bind(id).bind(text);
                    keep.execute(connection).await.map(drop)
                })
            })))
        })
    }
}
