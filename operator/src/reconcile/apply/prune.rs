//! End of a pass: deletes children that are no longer desired.

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::json;
use shortener_operator_core::model::{
    kinds::Deletion,
    metadata::{Component, FIELD_MANAGER, component_name},
    ownership::{ABSENT_OWNER_UID, Ownership, ownership},
};

use super::{
    error::Cause,
    pass::{Pass, child, kind},
};
use crate::kubernetes::{inventory::Child, refusal::is_absent};

type Prune = for<'p, 's> fn(&'p mut Pass<'s>) -> BoxFuture<'p, ()>;
type Keeps = for<'p, 's> fn(&'p Pass<'s>, Component) -> bool;
type Discard = for<'p, 's> fn(&'p mut Pass<'s>, Component) -> BoxFuture<'p, bool>;

/// The function for the objects of a kind that are no longer desired. A retained kind has none that deletes.
pub(super) enum End {
    /// Deletes them.
    Prune(Prune),
    /// Tells if the stack keeps the object of a store, and hands it to the garbage collector.
    Discard(Keeps, Discard),
}

impl End {
    pub(super) fn of<K: Child>(deletion: Deletion) -> Self {
        match deletion {
            Deletion::Pruned => Self::Prune(|pass| pass.prune_kind::<K>().boxed()),
            Deletion::Retained => Self::Discard(
                |pass, store| pass.keeps::<K>(store),
                |pass, store| pass.discard_kind::<K>(store).boxed(),
            ),
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
    /// not exist. The operator therefore needs no permission to delete objects that hold data. A volume comes before
    /// its Secret, which stays with a volume that cannot be given up.
    pub(super) async fn discard(&mut self, kinds: &[End], stores: &[Component]) {
        let ends = kinds.iter().filter_map(|end| match end {
            End::Discard(keeps, discard) => Some((keeps, discard)),
            End::Prune(_) => None,
        });
        for &store in stores {
            if !ends.clone().any(|(keeps, _)| keeps(self, store)) {
                continue;
            }
            for (_, discard) in ends.clone() {
                if !discard(self, store).await {
                    break;
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
                || ownership(meta, self.identity, Deletion::Pruned) != Ownership::Ours
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

    /// Returns true when the stack keeps an object of a kind for a store.
    fn keeps<K: Child>(&self, store: Component) -> bool {
        let name = component_name(&self.identity.name, store);
        let live = self
            .scope
            .inventory
            .metadata::<K>(&self.identity.namespace, &name);
        live.is_some_and(|live| {
            live.deletion_timestamp.is_none()
                && ownership(&live, self.identity, Deletion::Retained) == Ownership::Ours
        })
    }

    /// Hands the object of a kind to the garbage collector. Returns true when it is gone, or is about to be.
    async fn discard_kind<K: Child>(&mut self, store: Component) -> bool {
        let name = component_name(&self.identity.name, store);
        let discarded = self.discard_object::<K>(&name).await;
        discarded.unwrap_or_else(|cause| {
            self.fail::<K>(&name, cause);
            false
        })
    }

    async fn discard_object<K: Child>(&self, name: &str) -> Result<bool, Cause> {
        let Some(live) = self.live_metadata::<K>(name).await? else {
            return Ok(true);
        };
        if live.deletion_timestamp.is_some() {
            return Ok(true);
        }
        match ownership(&live, self.identity, Deletion::Retained) {
            Ownership::Previous => return Ok(true),
            Ownership::Foreign => return Ok(false),
            Ownership::Ours => {}
        }
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
            .patch(name, &params, &Patch::Merge(gone))
            .await
        {
            Ok(_) => {
                tracing::info!(child = %child::<K>(name), stack = %self.identity.name, "handed to the garbage collector: its profile is off")
            }
            Err(kube::Error::Api(status)) if is_absent(&status) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}
