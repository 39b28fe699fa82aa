//! End of a pass: deletes children that are no longer desired, and gives data that is no longer used its owners.

use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use k8s_openapi::{
    api::apps::v1::StatefulSet,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, Preconditions, PropagationPolicy},
};
use serde_json::json;
use shortener_operator_core::model::{
    kinds::{Deletion, data_name},
    metadata::{Component, component_of},
    ownership::{ABSENT_OWNER_UID, Ownership, is_ours, ownership},
};

use super::{
    error::Cause,
    pass::{Pass, child, kind},
};
use crate::kubernetes::{inventory::Child, patches::merging, refusal::is_absent};

type Prune = for<'p, 's> fn(&'p mut Pass<'s>) -> BoxFuture<'p, ()>;
type IsPending = for<'p, 's> fn(&'p Pass<'s>, Component, Fate) -> bool;
type HandOver = for<'p, 's> fn(&'p mut Pass<'s>, Component, Fate) -> BoxFuture<'p, bool>;

/// The end of data that this pass does not write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The garbage collector deletes it.
    Discarded,
    /// It outlives the stack.
    Released,
}

impl Fate {
    fn report(self) -> &'static str {
        match self {
            Self::Discarded => "handed to the garbage collector: its profile is off",
            Self::Released => "released from the stack: the deletion policy keeps data",
        }
    }
}

/// The function for the objects of a kind that are no longer desired. A retained kind has none that deletes.
pub(super) enum End {
    /// Deletes them.
    Prune(Prune),
    /// Tells if the object of a store has other owners than its fate demands, and gives it those.
    HandOver(IsPending, HandOver),
}

impl End {
    pub(super) fn of<K: Child>(deletion: Deletion) -> Self {
        match deletion {
            Deletion::Pruned => Self::Prune(|pass| pass.prune_kind::<K>().boxed()),
            Deletion::Retained => Self::HandOver(
                |pass, store, fate| pass.is_pending::<K>(store, fate),
                |pass, store, fate| pass.hand_over_kind::<K>(store, fate).boxed(),
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
    /// not exist. The operator therefore needs no permission to delete objects that hold data. In the reverse order of
    /// the kinds, a volume comes before its Secret, which stays with a volume that cannot be given up.
    pub(super) async fn discard(&mut self, kinds: &[End], stores: &[Component]) {
        self.hand_over(kinds, stores, Fate::Discarded).await;
    }

    /// Takes the stack's owner reference from the data of stores, as far as this pass does not write it. In the order of
    /// the kinds of a group, a Secret comes before its volume, which stays with a Secret that cannot be released.
    pub(super) async fn release(&mut self, kinds: &[End], stores: &[Component]) {
        self.hand_over(kinds, stores, Fate::Released).await;
    }

    async fn hand_over(&mut self, kinds: &[End], stores: &[Component], fate: Fate) {
        let ends = kinds.iter().filter_map(|end| match end {
            End::HandOver(is_pending, hand_over) => Some((is_pending, hand_over)),
            End::Prune(_) => None,
        });
        for &store in stores {
            let mut pending = ends.clone();
            if !pending.any(|(is_pending, _)| is_pending(self, store, fate)) {
                continue;
            }
            for (_, hand_over) in ends.clone() {
                if !hand_over(self, store, fate).await {
                    break;
                }
            }
        }
    }

    async fn prune_kind<K: Child>(&mut self) {
        let (namespace, stack) = (&self.identity.namespace, &self.identity.name);
        for kept in self.scope.inventory.of_stack::<K>(namespace, stack) {
            let (name, meta) = (kept.name_any(), kept.meta());
            if self.wanted.contains(&(kind::<K>(), name.clone()))
                || self.held.contains(&component_of(meta))
                || !is_ours(meta, self.identity, Deletion::Pruned)
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

    /// Returns the name of the object of a kind with data of a store, unless this pass has written it with its owners.
    fn left<K: Child>(&self, store: Component) -> Option<String> {
        let name = data_name(&kind::<K>(), &self.identity.name, store)?;
        let is_wanted = self.wanted.contains(&(kind::<K>(), name.clone()));
        (!is_wanted).then_some(name)
    }

    /// Returns true when the watched object of a kind has not yet the owners that its fate demands.
    fn is_pending<K: Child>(&self, store: Component, fate: Fate) -> bool {
        let Some(name) = self.left::<K>(store) else {
            return false;
        };
        let live = self
            .scope
            .inventory
            .kept::<K>(&self.identity.namespace, &name);
        live.is_some_and(|live| {
            let live = live.meta();
            live.deletion_timestamp.is_none()
                && is_ours(live, self.identity, Deletion::Retained)
                && self.owners(live, fate).is_some()
        })
    }

    /// Gives the object of a kind the owners that its fate demands. Returns true when the next object of the store may
    /// follow it.
    async fn hand_over_kind<K: Child>(&mut self, store: Component, fate: Fate) -> bool {
        let Some(name) = self.left::<K>(store) else {
            return false;
        };
        let change = self.hand_over_object::<K>(&name, fate);
        let handed_over = self.limited(change).await;
        handed_over.unwrap_or_else(|cause| {
            self.fail::<K>(&self.identity.retained(name, store), cause);
            false
        })
    }

    async fn hand_over_object<K: Child>(&self, name: &str, fate: Fate) -> Result<bool, Cause> {
        // A Secret that is gone may have been the first that the garbage collector took of the stack's data.
        let may_go_on = fate == Fate::Discarded;
        let Some(live) = self.live::<K>(name).await? else {
            return Ok(may_go_on);
        };
        let live = live.meta();
        let is_going = live.deletion_timestamp.is_some();
        match ownership(live, self.identity, Deletion::Retained) {
            Ownership::Foreign => return Ok(false),
            Ownership::Ours if !is_going => {}
            Ownership::Ours | Ownership::Previous => return Ok(may_go_on),
        }
        let Some(owners) = self.owners(live, fate) else {
            return Ok(true);
        };
        let patch = json!({"metadata": {"uid": live.uid, "ownerReferences": owners}});
        match self
            .api::<K>()
            .patch(name, &merging(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => {
                tracing::info!(child = %child::<K>(name), stack = %self.identity.name, "{}", fate.report());
                Ok(true)
            }
            Err(kube::Error::Api(status)) if is_absent(&status) => Ok(may_go_on),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the owners that an object gets, or `None` if it keeps those that it has.
    fn owners(&self, live: &ObjectMeta, fate: Fate) -> Option<Vec<OwnerReference>> {
        let stack = &self.identity.owner.uid;
        let owners = live.owner_references.iter().flatten();
        match fate {
            Fate::Discarded => Some(vec![OwnerReference {
                api_version: StatefulSet::api_version(&()).into_owned(),
                kind: StatefulSet::kind(&()).into_owned(),
                name: live.name.clone().unwrap_or_default(),
                uid: ABSENT_OWNER_UID.to_owned(),
                ..OwnerReference::default()
            }]),
            Fate::Released => owners.clone().any(|owner| owner.uid == *stack).then(|| {
                let others = owners.filter(|owner| owner.uid != *stack);
                others.cloned().collect()
            }),
        }
    }
}
