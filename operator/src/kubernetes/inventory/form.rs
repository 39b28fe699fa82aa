//! The forms in which the cache keeps the objects of a kind.

use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Pod, Secret},
    networking::v1::Ingress,
};
use kube::core::PartialObjectMeta;
use shortener_operator_core::model::{
    facts::HostClaim,
    gateway_api::{Gateway, HttpRoute, PROGRAMMED},
    metadata::managed_by_selector,
};

use super::PAGE;

/// A form in which the cache keeps the objects of kind `K`.
pub trait Form<K> {
    /// The cached object.
    type Kept;

    /// True when decisions depend on the objects, so that the operator does not start without a list of them. If the
    /// others may not be listed, it asks the API server for each, and it deletes none that it does not know.
    const NEEDED: bool = true;

    /// Number of objects of one page of a list.
    const PAGE: u32 = PAGE;

    /// Field selector of the watch; `None` for no selection.
    const FIELDS: Option<&'static str> = None;

    /// Returns the label selector of the watch; `None` for every object of the kind.
    fn selector() -> Option<String> {
        Some(managed_by_selector())
    }

    /// Removes the parts that nothing reads.
    fn trim(_: &mut Self::Kept) {}

    /// Returns the claim on a host that the object records.
    fn claim(_: &Self::Kept) -> Option<HostClaim> {
        None
    }

    /// Returns the parts on which stacks depend, so that a change of the others wakes none; `None` if every change counts.
    fn essence(_: &Self::Kept) -> Option<String> {
        None
    }
}

/// Number of objects of one page, if only their metadata is listed.
const PAGE_OF_METADATA: u32 = 250;

/// Prefixes of the labels and annotations that are read.
const KEPT_KEYS: [&str; 2] = ["app.kubernetes.io/", "shortener.dev/"];

/// The whole object, for kinds whose status or content is needed.
pub struct Whole;

/// The whole object, with the claim on a host that it records.
pub struct Routes;

/// Only the metadata.
pub struct Metadata;

/// Only the metadata, but of every object that a stack may refer to: a change of a user's Secret restarts the pods that
/// use it. A cluster may have thousands of them, so little of each is kept.
pub struct MetadataOfAll;

/// Every Gateway of the scope. Many stacks share one, and its status counts their routes.
pub struct OfOthers;

/// Every autoscaler of the scope, without its status: one that a user made may scale the app.
pub struct WithOthers;

/// A pod without its spec, because only its metadata, conditions and container states are read.
pub struct WithoutSpec;

impl<K> Form<K> for Whole {
    type Kept = K;
}

impl Form<Ingress> for Routes {
    type Kept = Ingress;

    fn claim(ingress: &Ingress) -> Option<HostClaim> {
        HostClaim::of_ingress(ingress)
    }
}

impl Form<HttpRoute> for Routes {
    type Kept = HttpRoute;

    fn claim(route: &HttpRoute) -> Option<HostClaim> {
        HostClaim::of_route(route)
    }
}

impl<K> Form<K> for Metadata {
    type Kept = PartialObjectMeta<K>;

    const NEEDED: bool = false;
    const PAGE: u32 = PAGE_OF_METADATA;
}

impl Form<Secret> for MetadataOfAll {
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

impl Form<Gateway> for OfOthers {
    type Kept = Gateway;

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

    fn essence(gateway: &Gateway) -> Option<String> {
        serde_json::to_string(&(&gateway.spec, &gateway.status)).ok()
    }
}

impl Form<HorizontalPodAutoscaler> for WithOthers {
    type Kept = HorizontalPodAutoscaler;

    const NEEDED: bool = false;

    fn selector() -> Option<String> {
        None
    }

    fn trim(autoscaler: &mut HorizontalPodAutoscaler) {
        autoscaler.status = None;
    }

    /// The status, which is written every few seconds, leaves only its traces in the metadata.
    fn essence(autoscaler: &HorizontalPodAutoscaler) -> Option<String> {
        let metadata = &autoscaler.metadata;
        let parts = (
            &metadata.uid,
            &metadata.labels,
            &metadata.annotations,
            &metadata.owner_references,
            &metadata.deletion_timestamp,
            &autoscaler.spec,
        );
        serde_json::to_string(&parts).ok()
    }
}

impl Form<Pod> for WithoutSpec {
    type Kept = Pod;

    fn trim(pod: &mut Pod) {
        pod.spec = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_autoscaler_that_counts_wakes_no_stack_and_one_that_is_edited_does() {
        let essence = |version: &str, most: i32, label: &str| {
            let mut autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
                "metadata": {"name": "mine", "resourceVersion": version, "labels": {"a": label}},
                "spec": {"maxReplicas": most, "scaleTargetRef": {"kind": "Deployment", "name": "x"}},
                "status": {"desiredReplicas": most},
            }))
            .unwrap();
            WithOthers::trim(&mut autoscaler);
            WithOthers::essence(&autoscaler).unwrap()
        };
        assert_eq!(essence("1", 3, ""), essence("2", 3, ""));
        assert_ne!(essence("1", 3, ""), essence("1", 4, ""));
        assert_ne!(essence("1", 3, ""), essence("1", 3, "x"));
    }

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

    #[test]
    fn a_gateway_whose_routes_are_counted_anew_wakes_no_stack() {
        let essence = |status: Value, listeners: Value| {
            let gateway = json!({
                "metadata": {"name": "public"},
                "spec": {"listeners": listeners},
                "status": status,
            });
            let mut gateway: Gateway = serde_json::from_value(gateway).unwrap();
            OfOthers::trim(&mut gateway);
            OfOthers::essence(&gateway).unwrap()
        };
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "Because", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let programmed = condition(PROGRAMMED, "True");
        let before = essence(json!({"conditions": [programmed]}), json!([]));
        let counted = json!({
            "conditions": [condition("Accepted", "True"), programmed],
            "listeners": [{"name": "http", "attachedRoutes": 7}],
        });
        assert_eq!(essence(counted, json!([])), before);
        let failing = json!({"conditions": [condition(PROGRAMMED, "False")]});
        assert_ne!(essence(failing, json!([])), before);
        let listeners = json!([{"name": "https"}]);
        assert_ne!(
            essence(json!({"conditions": [programmed]}), listeners),
            before
        );
    }
}
