//! The order in which workers are removed, which is written before there are fewer of them.

use std::collections::BTreeSet;

use futures::TryFutureExt;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Resource, ResourceExt, api::Patch};
use serde_json::json;
use shortener_operator_core::{
    model::{
        desired::Children,
        metadata::{Component, DELETION_COST, component_name},
    },
    plan::deletion_costs,
};

use super::{error::Cause, pass::Pass};
use crate::kubernetes::{patches::merging, refusal::is_absent};

impl Pass<'_> {
    /// Marks the workers that process a job, so that the others are removed first. If that fails, all of them stay.
    pub(super) async fn spare(&mut self, busy: &BTreeSet<String>, children: &mut Children) {
        let (namespace, stack) = (&self.identity.namespace, &self.identity.name);
        let pods = self.scope.inventory.of_stack::<Pod>(namespace, stack);
        for (pod, cost) in deletion_costs(&pods, busy) {
            let name = pod.name_any();
            // The uid restricts the write to this very pod.
            let change = Patch::Merge(json!({"metadata": {
                "uid": pod.uid(), "annotations": {DELETION_COST: cost},
            }}));
            let (workers, params) = (self.api::<Pod>(), merging());
            let change = workers.patch(&name, &params, &change).map_err(Cause::Api);
            let Err(cause) = self.limited(change).await else {
                continue;
            };
            if !matches!(&cause, Cause::Api(kube::Error::Api(status)) if is_absent(status)) {
                self.fail::<Pod>(pod.meta(), cause);
                self.keep_workers(children);
                return;
            }
        }
    }

    /// Keeps the number of workers that the cluster has.
    fn keep_workers(&self, children: &mut Children) {
        let (namespace, stack) = (&self.identity.namespace, &self.identity.name);
        let name = component_name(stack, Component::Worker);
        let live = self.scope.inventory.kept::<Deployment>(namespace, &name);
        let live = live.and_then(|live| live.spec.as_ref()?.replicas);
        let mut deployments = children.deployments.iter_mut();
        let workers = deployments.find(|deployment| deployment.name_any() == name);
        if let Some(spec) = workers.and_then(|workers| workers.spec.as_mut()) {
            spec.replicas = live;
        }
    }
}
