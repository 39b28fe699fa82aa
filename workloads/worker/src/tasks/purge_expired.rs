//! `{"task":"purge_expired"}`: removes expired data, see [`shortener_common::purge`].

use shortener_common::{purge::remove_expired, queue::job::Job};

use super::{Attempt, Context, Limit, Outcome, Task};

pub(super) struct PurgeExpired;

impl Task for PurgeExpired {
    fn handle<'a>(&'a self, _: &'a Job, context: &'a Context) -> Attempt<'a> {
        Box::pin(async move {
            remove_expired(&context.database, context.purge).await?;
            Ok(Outcome::done())
        })
    }

    /// The database limits the time of each batch.
    fn limit(&self) -> Limit {
        Limit::Step
    }
}
