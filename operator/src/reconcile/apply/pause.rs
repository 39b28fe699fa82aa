//! The only write to a stack that is paused: nothing starts by itself any more, so that the database is left alone.

use futures::TryFutureExt;
use k8s_openapi::api::batch::v1::CronJob;
use kube::{Resource, ResourceExt, api::Patch};
use serde_json::json;
use shortener_operator_core::model::{kinds::Deletion, metadata::Component, ownership::is_ours};

use super::{
    error::Cause,
    pass::{Pass, child},
};
use crate::kubernetes::{patches::merging, refusal::is_absent};

impl Pass<'_> {
    /// Suspends the CronJobs. The rest of each stays as it is, even where it was edited.
    pub(super) async fn suspend(&mut self) {
        for component in [Component::Purge, Component::Backup, Component::Verify] {
            self.suspend_one(component).await;
        }
    }

    async fn suspend_one(&mut self, component: Component) {
        let live = self.scope.child::<CronJob>(self.identity, component);
        let Some(live) = live.filter(|live| {
            let spec = live.spec.as_ref();
            spec.is_some_and(|spec| spec.suspend != Some(true))
                && is_ours(live.meta(), self.identity, Deletion::Pruned)
        }) else {
            return;
        };
        let name = live.name_any();
        // The uid restricts the write to this very object.
        let change = Patch::Merge(json!({
            "metadata": {"uid": live.uid()}, "spec": {"suspend": true},
        }));
        let (cron_jobs, params) = (self.api::<CronJob>(), merging());
        let change = cron_jobs.patch(&name, &params, &change);
        match self.limited(change.map_err(Cause::Api)).await {
            Ok(_) => {
                tracing::info!(child = %child::<CronJob>(&name), stack = %self.identity.name, "suspended while the stack is paused");
            }
            Err(Cause::Api(kube::Error::Api(status))) if is_absent(&status) => {}
            Err(cause) => self.fail::<CronJob>(live.meta(), cause),
        }
    }
}
