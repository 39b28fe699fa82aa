//! The forms in which the cache keeps the objects of a kind.

use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Pod, PodSpec, Secret},
};
use kube::core::PartialObjectMeta;
use shortener_operator_core::model::{
    gateway_api::{Gateway, PROGRAMMED},
    metadata::managed_by_selector,
};

use super::PAGE;

/// A form in which the cache keeps the objects of kind `K`.
pub trait CachePolicy<K> {
    /// The cached object.
    type Kept;

    /// True when decisions depend on the objects, so that the operator does not start without a list of them. If the
    /// others may not be listed, it asks the API server for each, and it deletes none that it does not know.
    const NEEDED: bool = true;

    /// Number of objects of one page of a list.
    const PAGE: u32 = PAGE;

    /// Field selector of the watch; `None` for no selection.
    const FIELDS: Option<&'static str> = None;

    /// True when others often change what is trimmed, so that a change of nothing else wakes no stack.
    const IGNORES_TRIMMED: bool = false;

    /// Returns the label selector of the watch; `None` for every object of the kind.
    fn selector() -> Option<String> {
        Some(managed_by_selector())
    }

    /// Removes the parts that nothing reads.
    fn trim(_: &mut Self::Kept) {}
}

/// Number of objects of one page, if only their metadata is listed.
const PAGE_OF_METADATA: u32 = 250;

/// Prefixes of the labels and annotations that are read, or that the operator writes.
const KEPT_KEYS: [&str; 4] = [
    "app.kubernetes.io/",
    "argocd.argoproj.io/",
    "cnpg.io/operatorVersion",
    "shortener.dev/",
];

/// The whole object.
pub struct WholeObject;

/// The whole object, of a kind that is only compared with what is rendered.
pub struct RenderedObject;

/// Only the metadata, but of every object that a stack may refer to: a change of a user's Secret restarts the pods that
/// use it. A cluster may have thousands of them, so little of each is kept.
pub struct MetadataOfAll;

/// Every Gateway of the scope. Many stacks share one, and its status counts their routes.
pub struct SharedGateways;

/// Every autoscaler of the scope, without its status: one that a user made may scale the app.
pub struct AllAutoscalers;

/// A pod with nothing of its spec but its node: its metadata, conditions and container states are read.
pub struct WithoutSpec;

impl<K> CachePolicy<K> for WholeObject {
    type Kept = K;
}

impl<K> CachePolicy<K> for RenderedObject {
    type Kept = K;

    const NEEDED: bool = false;
}

impl CachePolicy<Secret> for MetadataOfAll {
    type Kept = PartialObjectMeta<Secret>;

    const PAGE: u32 = PAGE_OF_METADATA;

    /// Most Secrets of many clusters are of these types, and no stack can refer to one.
    const FIELDS: Option<&'static str> =
        Some("type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token");

    fn selector() -> Option<String> {
        None
    }

    fn trim(secret: &mut PartialObjectMeta<Secret>) {
        let metadata = &mut secret.metadata;
        for entries in [&mut metadata.labels, &mut metadata.annotations] {
            let ours = |key: &String| KEPT_KEYS.iter().any(|prefix| key.starts_with(prefix));
            if let Some(found) = entries {
                found.retain(|key, _| ours(key));
            }
            *entries = entries.take().filter(|found| !found.is_empty());
        }
        metadata.finalizers = None;
    }
}

impl CachePolicy<Gateway> for SharedGateways {
    type Kept = Gateway;

    const IGNORES_TRIMMED: bool = true;

    fn selector() -> Option<String> {
        None
    }

    fn trim(gateway: &mut Gateway) {
        if let Some(status) = &mut gateway.status {
            status
                .conditions
                .retain(|condition| condition.type_ == PROGRAMMED);
        }
    }
}

impl CachePolicy<HorizontalPodAutoscaler> for AllAutoscalers {
    type Kept = HorizontalPodAutoscaler;

    const NEEDED: bool = false;
    const IGNORES_TRIMMED: bool = true;

    fn selector() -> Option<String> {
        None
    }

    fn trim(autoscaler: &mut HorizontalPodAutoscaler) {
        autoscaler.status = None;
    }
}

impl CachePolicy<Pod> for WithoutSpec {
    type Kept = Pod;

    fn trim(pod: &mut Pod) {
        pod.spec = pod.spec.take().map(|spec| PodSpec {
            node_name: spec.node_name,
            ..PodSpec::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn little_of_a_foreign_secret_is_kept() {
        let mut secret: PartialObjectMeta<Secret> = serde_json::from_value(json!({"metadata": {
            "name": "links-db",
            "labels": {"app.kubernetes.io/instance": "release", "team": "links"},
            "annotations": {"reflector/data": "much", "shortener.dev/applied-hash": "1"},
            "finalizers": ["someone.dev/keep"],
        }}))
        .unwrap();
        MetadataOfAll::trim(&mut secret);
        let kept = json!({
            "name": "links-db",
            "labels": {"app.kubernetes.io/instance": "release"},
            "annotations": {"shortener.dev/applied-hash": "1"},
        });
        assert_eq!(serde_json::to_value(secret.metadata).unwrap(), kept);
    }
}
