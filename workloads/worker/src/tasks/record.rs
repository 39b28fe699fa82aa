//! The default task: stores the job as it was sent in its record.

use shortener_common::queue::{job::Job, origin::Origin};

use super::{Attempt, Context, Outcome, Task};

const KEEP: &str = "UPDATE jobs SET payload = $2::json WHERE message_id = $1";

/// The maximum size in bytes of a job that anyone could send, to be stored: 50 such jobs a second must not fill the
/// database.
const MAX_ANONYMOUS: usize = 1024;

/// The default task.
pub(super) struct Record;

impl Task for Record {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> Attempt<'a> {
        let is_kept = job.origin != Origin::Anonymous || job.text.len() <= MAX_ANONYMOUS;
        let (id, text) = (job.id, job.text.clone());
        Box::pin(async move {
            if !is_kept {
                return Ok(Outcome::done());
            }
            Ok(Outcome::Done(Box::new(move |connection| {
                Box::pin(async move {
                    let keep = sqlx::query(KEEP).bind(id).bind(text);
                    keep.execute(connection).await.map(drop)
                })
            })))
        })
    }
}
