//! The default task: stores the job as it was sent in its record.

use shortener_common::queue::job::Job;

use super::{Attempt, Context, Outcome, Task};

const KEEP: &str = "UPDATE jobs SET payload = $2::json WHERE message_id = $1";

/// The default task.
pub(super) struct Record;

impl Task for Record {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> Attempt<'a> {
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
