//! `{"task":"purge_expired"}`: removes expired data, see [`shortener_common::purge`].

use futures::future::BoxFuture;
use shortener_common::{database::StoreError, purge::remove_expired, queue::job::Job};

use super::{Context, Limit, Outcome, Task};

pub(super) struct PurgeExpired;

impl Task for PurgeExpired {
    fn handle<'a>(
        &'a self,
        _: &'a Job,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move {
            remove_expired(&context.database, context.keep_days).await?;
            Ok(Outcome::done())
        })
    }

    /// The database limits the time of each batch.
    fn limit(&self) -> Limit {
        Limit::Step
    }
}
