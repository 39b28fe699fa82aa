//! The watch of one kind: it fills a store with what is kept of the objects, and tells their changes.

use futures::{Stream, StreamExt, future, stream::BoxStream};
use kube::{
    Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store},
        watcher::{self, Event},
    },
};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        autoscaler,
        kinds::Presence,
        metadata::{FIELD_MANAGER, INSTANCE_LABEL, MANAGED_BY_LABEL},
    },
};
use tokio_util::sync::CancellationToken;

use super::{Cached, Change, LAST_APPLIED, cache_policy::CachePolicy};
use crate::kubernetes::watch_report::WatchReport;

/// Feeds a watch into a store. Returns the store and the stream of its changes. `known` is cancelled when the kind has been
/// listed, or when the watch fails.
pub(super) fn keep<F, K>(
    events: impl Stream<Item = watcher::Result<Event<F::Kept>>> + Send + 'static,
    presence: Presence,
    mut report: WatchReport,
    known: CancellationToken,
) -> (Store<F::Kept>, BoxStream<'static, Change>)
where
    F: CachePolicy<K> + 'static,
    K: 'static,
    F::Kept: Cached,
{
    let (store, mut writer) = reflector::store();
    let before = store.clone();
    // Every stack is reconciled after the first lists anyway, so these are no relists. A kind that is optional or was
    // refused may be listed later, so its first list counts as one.
    let mut listed = presence == Presence::Optional || !F::NEEDED;
    let changes = events
        .default_backoff()
        .modify(prune::<F, K>)
        .inspect(move |event| report.see(event))
        .filter_map(move |event| {
            let Ok(event) = event else {
                known.cancel();
                return future::ready(None);
            };
            let change = match &event {
                Event::Apply(kept) => news::<F, K>(&before, kept).then(|| change(kept, false)),
                Event::Delete(kept) => Some(change(kept, true)),
                Event::InitDone => {
                    known.cancel();
                    std::mem::replace(&mut listed, true).then_some(Change::Relisted)
                }
                // It is in the store from the end of the list on, and every stack is reconciled after that.
                Event::Init | Event::InitApply(_) => None,
            };
            writer.apply_watcher_event(&event);
            future::ready(change)
        })
        .boxed();
    (store, changes)
}

/// Removes what nothing reads. Of the managed fields, which are several times as large as the rest of an object, who else
/// scales it is read.
fn prune<F, K>(kept: &mut F::Kept)
where
    F: CachePolicy<K>,
    F::Kept: Cached,
{
    let meta = kept.meta_mut();
    let entries = meta.managed_fields.take().unwrap_or_default();
    let scalers = entries.iter().filter(|entry| autoscaler::scales(entry));
    let scalers: Vec<_> = scalers.map(autoscaler::reduced).collect();
    meta.managed_fields = (!scalers.is_empty()).then_some(scalers);
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    F::trim(kept);
}

/// Returns true when a changed object may concern stacks.
fn news<F, K>(known: &Store<F::Kept>, kept: &F::Kept) -> bool
where
    F: CachePolicy<K>,
    F::Kept: Cached,
{
    let before = known.get(&ObjectRef::from_obj(kept));
    let Some(before) = before.filter(|_| F::IGNORES_TRIMMED) else {
        return true;
    };
    let mut now = kept.clone();
    now.meta_mut().resource_version = before.resource_version();
    serde_json::to_value(now).ok() != serde_json::to_value(&*before).ok()
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
pub(super) fn labelled<K: Resource<DynamicType = ()>>(kept: &K) -> Option<&str> {
    let labels = kept.labels();
    let manager = labels.get(MANAGED_BY_LABEL)?;
    let stack = labels.get(INSTANCE_LABEL)?;
    (manager == FIELD_MANAGER).then_some(stack.as_str())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Secret,
    };
    use serde_json::{Value, json};
    use shortener_operator_core::model::gateway_api::{Gateway, PROGRAMMED};

    use super::*;
    use crate::kubernetes::inventory::cache_policy::{AllAutoscalers, SharedGateways, WholeObject};

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
        assert_eq!(labelled(&owned), None);
    }

    #[test]
    fn who_else_scales_an_object_is_kept_and_nothing_else_of_its_managed_fields() {
        let fields = |of: &str| json!({of: {"f:replicas": {}, "f:template": {}}});
        let entry =
            |of: &str| json!({"manager": "hpa", "operation": "Update", "fieldsV1": fields(of)});
        let mut live: Deployment = serde_json::from_value(json!({"metadata": {
            "managedFields": [entry("f:spec"), entry("f:status")],
            "annotations": {LAST_APPLIED: "{}", "a": "b"},
        }}))
        .unwrap();
        prune::<WholeObject, Deployment>(&mut live);
        let kept = json!({
            "managedFields": [{"manager": "hpa", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
            "annotations": {"a": "b"},
        });
        assert_eq!(serde_json::to_value(live.metadata).unwrap(), kept);
    }

    /// Returns true when an object that changes to another one may concern stacks.
    fn wakes<F, K>(before: Value, after: Value) -> bool
    where
        F: CachePolicy<K>,
        F::Kept: Cached,
    {
        let parse = |object: Value, version: &str| {
            let mut kept: F::Kept = serde_json::from_value(object).unwrap();
            kept.meta_mut().name = Some("mine".to_owned());
            kept.meta_mut().resource_version = Some(version.to_owned());
            prune::<F, K>(&mut kept);
            kept
        };
        let (known, mut writer) = reflector::store();
        writer.apply_watcher_event(&Event::Apply(parse(before, "1")));
        news::<F, K>(&known, &parse(after, "2"))
    }

    #[test]
    fn an_autoscaler_that_counts_wakes_no_stack_and_one_that_is_edited_does() {
        let autoscaler = |desired: i32, most: i32, label: &str| {
            json!({
                "metadata": {"labels": {"a": label}},
                "spec": {"maxReplicas": most, "scaleTargetRef": {"kind": "Deployment", "name": "x"}},
                "status": {"desiredReplicas": desired},
            })
        };
        let wakes =
            |after| wakes::<AllAutoscalers, HorizontalPodAutoscaler>(autoscaler(1, 3, ""), after);
        assert!(!wakes(autoscaler(2, 3, "")));
        assert!(wakes(autoscaler(1, 4, "")));
        assert!(wakes(autoscaler(1, 3, "x")));
    }

    #[test]
    fn a_gateway_whose_routes_are_counted_anew_wakes_no_stack() {
        let gateway = |status: Value, listeners: Value| json!({"metadata": {}, "spec": {"listeners": listeners}, "status": status});
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "Because", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let programmed = condition(PROGRAMMED, "True");
        let before = gateway(json!({"conditions": [programmed]}), json!([]));
        let counted = json!({
            "conditions": [condition("Accepted", "True"), programmed],
            "listeners": [{"name": "http", "attachedRoutes": 7}],
        });
        let wakes = |after| wakes::<SharedGateways, Gateway>(before.clone(), after);
        assert!(!wakes(gateway(counted, json!([]))));
        let failing = json!({"conditions": [condition(PROGRAMMED, "False")]});
        assert!(wakes(gateway(failing, json!([]))));
        let listeners = json!([{"name": "https"}]);
        assert!(wakes(gateway(
            json!({"conditions": [programmed]}),
            listeners
        )));
    }
}
