//! Attempts to write, side by side and each within its time.

use std::time::Duration;

use futures::{StreamExt, future, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use tokio::time::{Instant, timeout};

use super::{
    error::Cause,
    pass::{Pass, Treatment, kind},
};
use crate::kubernetes::inventory::Child;

/// Number of objects of a kind that are written at the same time.
const AT_ONCE: usize = 4;
/// Shortest time limit of a request, which counts only once the step has used up its time.
const SHORTEST: Duration = Duration::from_secs(1);

impl Pass<'_> {
    /// Writes the objects of a kind that differ, several at the same time, and returns the failures.
    pub(super) async fn attempt<K: Child>(
        &mut self,
        desired: Vec<K>,
        treatment: Treatment,
    ) -> Vec<(ObjectMeta, Cause)> {
        let names = desired
            .iter()
            .map(|object| (kind::<K>(), object.name_any()));
        self.wanted.extend(names);
        let pass = &*self;
        let writes: Vec<_> = desired
            .into_iter()
            .map(|object| pass.attempt_one(object, treatment))
            .collect();
        stream::iter(writes)
            .buffered(AT_ONCE)
            .filter_map(future::ready)
            .collect()
            .await
    }

    async fn attempt_one<K: Child>(
        &self,
        object: K,
        treatment: Treatment,
    ) -> Option<(ObjectMeta, Cause)> {
        let metadata = object.meta().clone();
        let name = object.name_any();
        let written = self.limited(self.apply_one(object, &name, treatment)).await;
        written.err().map(|cause| (metadata, cause))
    }

    /// Carries out a request. It may take three fifths of the time that is left, so that requests that hang, as with a
    /// webhook that does not answer, leave time for those after them and for the status. The first of them has more
    /// than the usual timeout of a webhook.
    pub(super) async fn limited<T>(
        &self,
        request: impl Future<Output = Result<T, Cause>>,
    ) -> Result<T, Cause> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let limit = (left * 3 / 5).max(SHORTEST);
        let answer = timeout(limit, request).await;
        answer.unwrap_or(Err(Cause::Timeout))
    }
}
