//! The objects of one kind, their index, and the stream of their changes.

use std::sync::Arc;

use futures::{Stream, StreamExt, future, stream::BoxStream};
use kube::{
    Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        kinds::Presence,
        metadata::{FIELD_MANAGER, INSTANCE_LABEL, MANAGED_BY_LABEL},
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    Cached, Change, LAST_APPLIED,
    form::Form,
    packed::{Packed, Packer},
};
use crate::kubernetes::{
    index::{Index, IndexKey, Indexer},
    ledger,
    news::News,
    watch_report::WatchReport,
};

/// The objects of one kind.
pub struct Shelf<K> {
    objects: Packed<K>,
    by_stack: Index,
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Shelf<K> {
    pub(super) fn objects(&self) -> &Packed<K> {
        &self.objects
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.objects.get(namespace, name)
    }

    /// Returns the objects that carry a stack's instance label and the operator's managed-by label and whose names match.
    pub(super) fn of_stack(
        &self,
        namespace: &str,
        stack: &str,
        matches: impl Fn(&str) -> bool,
    ) -> Vec<Arc<K>> {
        let names = self.by_stack.names(namespace, stack).into_iter();
        names
            .filter(|name| matches(name))
            .filter_map(|name| self.get(namespace, &name))
            .filter(|kept| labelled(&**kept) == Some(stack))
            .collect()
    }
}

/// Feeds a watch into a shelf. Returns the shelf and the stream of its changes. `missed` is cancelled when the watch
/// fails.
pub(super) fn keep<F, K>(
    events: impl Stream<Item = watcher::Result<Event<F::Kept>>> + Send + 'static,
    presence: Presence,
    mut report: WatchReport,
    missed: CancellationToken,
) -> (Shelf<F::Kept>, BoxStream<'static, Change>)
where
    F: Form<K> + 'static,
    K: 'static,
    F::Kept: Cached,
{
    let (objects, mut packer) = Packer::new(F::claim as fn(&F::Kept) -> _);
    let (by_stack, mut indexer) = Indexer::<F::Kept>::new(keys);
    let (trim, mut news) = (
        F::trim as fn(&mut F::Kept),
        News::<F::Kept>::new(F::essence),
    );
    // Every stack is reconciled after the first lists anyway, so these are no relists. A kind that is optional or was
    // refused may be listed later, so its first list counts as one.
    let mut listed = presence == Presence::Optional || !F::NEEDED;
    let changes = events
        .default_backoff()
        .modify(move |kept| {
            let meta = kept.meta_mut();
            ledger::keep_fingerprint(meta);
            if let Some(annotations) = &mut meta.annotations {
                annotations.remove(LAST_APPLIED);
            }
            trim(kept);
        })
        .inspect(move |event| {
            report.see(event);
            match event {
                Ok(event) => {
                    indexer.see(event);
                    packer.see(event);
                }
                Err(_) => missed.cancel(),
            }
        })
        .filter_map(move |event| {
            future::ready(match event {
                Ok(Event::Apply(kept)) => news.see(&kept).then(|| change(&kept, false)),
                // It is in the cache from the end of the list on, and every stack is reconciled after that. Tens of
                // thousands of changes would wait for that, too.
                Ok(Event::InitApply(kept)) => {
                    news.see(&kept);
                    None
                }
                Ok(Event::Delete(kept)) => {
                    news.forget(&kept);
                    Some(change(&kept, true))
                }
                Ok(Event::InitDone) => {
                    std::mem::replace(&mut listed, true).then_some(Change::Relisted)
                }
                Ok(Event::Init) | Err(_) => None,
            })
        })
        .boxed();
    (Shelf { objects, by_stack }, changes)
}

fn change<K: Resource<DynamicType = ()>>(kept: &K, deleted: bool) -> Change {
    Change::Object {
        kind: K::kind(&()).into_owned(),
        namespace: kept.namespace().unwrap_or_default(),
        name: kept.name_any(),
        stack: owner(kept).map(str::to_owned),
        deleted,
    }
}

/// Returns the stack that an object belongs to: that of its controller or, without a controller, of the operator's own
/// labels. The instance label alone says nothing: Helm, Argo CD and others set it as well.
fn owner<K: Resource<DynamicType = ()>>(kept: &K) -> Option<&str> {
    let owners = kept.owner_references().iter();
    let mut stacks = owners
        .filter(|owner| owner.controller == Some(true) && owner.kind == ShortenerStack::kind(&()));
    let stack = stacks.next().map(|owner| owner.name.as_str());
    stack.or_else(|| labelled(kept))
}

/// Returns the stack of an object by the operator's own labels.
fn labelled<K: Resource<DynamicType = ()>>(kept: &K) -> Option<&str> {
    let labels = kept.labels();
    let manager = labels.get(MANAGED_BY_LABEL)?;
    let stack = labels.get(INSTANCE_LABEL)?;
    (manager == FIELD_MANAGER).then_some(stack.as_str())
}

fn keys<K: Resource<DynamicType = ()>>(kept: &K) -> Vec<IndexKey> {
    let stack = labelled(kept).map(str::to_owned);
    let key = stack.map(|stack| (kept.namespace().unwrap_or_default(), stack));
    key.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};

    use super::*;

    fn secret(metadata: Value) -> Secret {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn an_object_belongs_to_its_owner_or_to_the_stack_of_the_operators_labels() {
        let foreign = secret(json!({"labels": {
            INSTANCE_LABEL: "release", MANAGED_BY_LABEL: "Helm",
        }}));
        assert_eq!(owner(&foreign), None);
        let retained = secret(json!({"labels": {
            INSTANCE_LABEL: "acme", MANAGED_BY_LABEL: FIELD_MANAGER,
        }}));
        assert_eq!(owner(&retained), Some("acme"));
        let owned = secret(json!({"ownerReferences": [{
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerStack",
            "name": "acme", "uid": "1", "controller": true,
        }]}));
        assert_eq!(owner(&owned), Some("acme"));
        assert_eq!(keys(&owned), [] as [IndexKey; 0]);
    }
}
