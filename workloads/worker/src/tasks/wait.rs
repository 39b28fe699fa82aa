//! `{"task":"wait","ms":5000}`: only sleeps, to demonstrate several workers, unacknowledged messages and
//! redelivery.

use shortener_common::queue::job::Job;
use tokio::time::sleep;

use super::{Attempt, Context, Outcome, Task};

pub(super) struct Wait;

impl Task for Wait {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> Attempt<'a> {
        Box::pin(async move {
            match job.fields.wait_time() {
                Ok(time) => sleep(time).await,
                Err(error) => return Ok(Outcome::Reject(error.to_string())),
            }
            Ok(Outcome::done())
        })
    }
}
