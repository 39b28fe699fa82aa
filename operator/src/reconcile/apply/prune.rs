//! End of a pass: deletes children that are no longer desired.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
    networking::v1::{Ingress, NetworkPolicy},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::json;
use shortener_operator_core::model::{
    metadata::{Component, FIELD_MANAGER, component_name},
    ownership::{Ownership, ownership},
    prometheus::{PrometheusRule, ServiceMonitor},
};

use super::pass::{Pass, child, kind};
use crate::kubernetes::{inventory::Child, refusal::is_absent};

/// A uid that no object has.
const ABSENT_OWNER_UID: &str = "00000000-0000-0000-0000-000000000000";

impl Pass<'_> {
    /// Deletes children that are no longer desired. The kinds are listed here on purpose: volumes and Secrets are not
    /// among them.
    pub(super) async fn prune(&mut self) {
        self.prune_kind::<Ingress>().await;
        self.prune_kind::<PodDisruptionBudget>().await;
        self.prune_kind::<Deployment>().await;
        self.prune_kind::<StatefulSet>().await;
        self.prune_kind::<Service>().await;
        self.prune_kind::<ConfigMap>().await;
        self.prune_kind::<ServiceAccount>().await;
        self.prune_kind::<NetworkPolicy>().await;
    }

    /// Deletes monitoring objects that are no longer desired.
    pub(super) async fn prune_monitoring(&mut self) {
        self.prune_kind::<ServiceMonitor>().await;
        self.prune_kind::<PrometheusRule>().await;
    }

    /// Hands the volumes and Secrets of stores to the garbage collector by an owner reference to an object that does
    /// not exist. The operator therefore needs no permission to delete objects that hold data.
    pub(super) async fn discard(&mut self, stores: &[Component]) {
        for &store in stores {
            self.discard_kind::<PersistentVolumeClaim>(store).await;
            self.discard_kind::<Secret>(store).await;
        }
    }

    async fn prune_kind<K: Child>(&mut self) {
        for kept in self
            .scope
            .inventory
            .of_stack::<K>(&self.identity.namespace, &self.identity.name)
        {
            let (name, meta) = (kept.name_any(), kept.meta());
            if self.wanted.contains(&(kind::<K>(), name.clone()))
                || ownership(meta, self.identity) != Ownership::Ours
                || meta.deletion_timestamp.is_some()
            {
                continue;
            }
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: meta.uid.clone(),
                    resource_version: None,
                }),
                propagation_policy: Some(PropagationPolicy::Background),
                ..DeleteParams::default()
            };
            match self.api::<K>().delete(&name, &params).await {
                Ok(_) => {
                    tracing::info!(child = %child::<K>(&name), stack = %self.identity.name, "deleted an object that is no longer desired")
                }
                Err(kube::Error::Api(status)) if is_absent(&status) => {}
                Err(error) => self.fail::<K>(&name, error.into()),
            }
        }
    }

    async fn discard_kind<K: Child>(&mut self, store: Component) {
        let name = component_name(&self.identity.name, store);
        let live = self
            .scope
            .inventory
            .metadata::<K>(&self.identity.namespace, &name);
        let Some(live) = live.filter(|live| {
            ownership(live, self.identity) == Ownership::Ours && live.deletion_timestamp.is_none()
        }) else {
            return;
        };
        let gone = json!({"metadata": {"uid": live.uid, "ownerReferences": [{
            "apiVersion": StatefulSet::api_version(&()),
            "kind": StatefulSet::kind(&()),
            "name": name,
            "uid": ABSENT_OWNER_UID,
        }]}});
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match self
            .api::<K>()
            .patch(&name, &params, &Patch::Merge(gone))
            .await
        {
            Ok(_) => {
                tracing::info!(child = %child::<K>(&name), stack = %self.identity.name, "handed to the garbage collector: its profile is off")
            }
            Err(kube::Error::Api(status)) if is_absent(&status) => {}
            Err(error) => self.fail::<K>(&name, error.into()),
        }
    }
}
