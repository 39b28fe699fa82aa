//! End of a pass: deletes children that are no longer desired.

use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::json;
use shortener_operator_core::model::{
    kinds::Deletion,
    metadata::{Component, FIELD_MANAGER, component_name, component_of},
    ownership::{Ownership, ownership},
};

use super::{
    error::Cause,
    pass::{Pass, child, kind},
};
use crate::kubernetes::{inventory::Child, refusal::is_absent};

/// A uid that no object has.
const ABSENT_OWNER_UID: &str = "00000000-0000-0000-0000-000000000000";

type Prune = for<'p, 's> fn(&'p mut Pass<'s>) -> BoxFuture<'p, ()>;
type Discard = for<'p, 's> fn(&'p mut Pass<'s>, Component) -> BoxFuture<'p, ()>;

/// The function for the objects of a kind that are no longer desired. A retained kind has none that deletes.
pub(super) enum End {
    /// Deletes them.
    Prune(Prune),
    /// Hands the object of a store to the garbage collector.
    Discard(Discard),
}

impl End {
    pub(super) fn of<K: Child>(deletion: Deletion) -> Self {
        match deletion {
            Deletion::Pruned => Self::Prune(|pass| pass.prune_kind::<K>().boxed()),
            Deletion::Retained => {
                Self::Discard(|pass, store| pass.discard_kind::<K>(store).boxed())
            }
        }
    }
}

impl Pass<'_> {
    /// Deletes children that are no longer desired, kind by kind.
    pub(super) async fn prune(&mut self, kinds: &[End]) {
        for kind in kinds {
            if let End::Prune(prune) = kind {
                prune(self).await;
            }
        }
    }

    /// Hands the volumes and Secrets of stores to the garbage collector by an owner reference to an object that does
    /// not exist. The operator therefore needs no permission to delete objects that hold data.
    pub(super) async fn discard(&mut self, kinds: &[End], stores: &[Component]) {
        for &store in stores {
            for kind in kinds {
                if let End::Discard(discard) = kind {
                    discard(self, store).await;
                }
            }
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
                || self.held.contains(&component_of(meta))
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
            let children = self.api::<K>();
            let deletion = children.delete(&name, &params).map_err(Cause::Api);
            match self.limited(deletion).await {
                Ok(_) => {
                    tracing::info!(child = %child::<K>(&name), stack = %self.identity.name, "deleted an object that is no longer desired")
                }
                Err(Cause::Api(kube::Error::Api(status))) if is_absent(&status) => {}
                Err(cause) => self.fail::<K>(meta, cause),
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
        let (children, patch) = (self.api::<K>(), Patch::Merge(gone));
        let change = children.patch(&name, &params, &patch).map_err(Cause::Api);
        match self.limited(change).await {
            Ok(_) => {
                tracing::info!(child = %child::<K>(&name), stack = %self.identity.name, "handed to the garbage collector: its profile is off")
            }
            Err(Cause::Api(kube::Error::Api(status))) if is_absent(&status) => {}
            Err(cause) => self.fail::<K>(&live, cause),
        }
    }
}
