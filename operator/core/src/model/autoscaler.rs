//! Autoscalers of the app's Deployment: the operator's own, and those that others made.

use std::sync::Arc;

use k8s_openapi::{
    api::autoscaling::v2::HorizontalPodAutoscaler,
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta},
};
use kube_core::ResourceExt;
use serde_json::json;

use super::{
    kinds::Deletion,
    metadata::{Component, FIELD_MANAGER, StackIdentity, component_name},
    ownership::is_ours,
    stack::Rival,
};

/// Field manager of the controllers of Kubernetes, among them that of the HorizontalPodAutoscalers.
const CONTROLLERS: &str = "kube-controller-manager";

/// Returns true when another manager than the operator owns the number of pods of a Deployment, so that it stays if the
/// operator leaves it out.
pub fn has_taken_over(meta: &ObjectMeta) -> bool {
    meta.managed_fields.iter().flatten().any(scales)
}

/// Returns true when the controller of the HorizontalPodAutoscalers owns the number of pods of a Deployment. It owns the
/// number that it set last also after its autoscaler is gone.
pub fn was_scaled(meta: &ObjectMeta) -> bool {
    let mut entries = meta.managed_fields.iter().flatten();
    entries.any(|entry| entry.manager.as_deref() == Some(CONTROLLERS) && scales(entry))
}

/// Returns true when an entry says that another manager than the operator owns the number of pods.
pub fn scales(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref();
    entry.manager.as_deref() != Some(FIELD_MANAGER)
        && fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
}

/// Returns as much of such an entry as says so.
pub fn reduced(entry: &ManagedFieldsEntry) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: entry.manager.clone(),
        fields_v1: Some(FieldsV1(json!({"f:spec": {"f:replicas": {}}}))),
        ..ManagedFieldsEntry::default()
    }
}

/// Returns an autoscaler of the app that the operator did not make. `all` are those of the namespace.
pub fn rival(all: &[Arc<HorizontalPodAutoscaler>], identity: &StackIdentity) -> Option<Rival> {
    let app = component_name(&identity.name, Component::App);
    let found = all.iter().find(|autoscaler| {
        let target = autoscaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
        let is_its = target.is_some_and(|target| target.kind == "Deployment" && target.name == app);
        let meta = &autoscaler.metadata;
        let is_own = autoscaler.name_any() == app && is_ours(meta, identity, Deletion::Pruned);
        is_its && !is_own && meta.deletion_timestamp.is_none()
    });
    found.map(|autoscaler| Rival {
        name: autoscaler.name_any(),
        most: autoscaler.spec.as_ref().map_or(0, |spec| spec.max_replicas),
    })
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::Value;

    use super::*;
    use crate::testing::stack::minimal_stack;

    fn meta(manager: &str, fields: Value) -> ObjectMeta {
        let entry = json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
        serde_json::from_value(json!({"managedFields": [entry]})).unwrap()
    }

    #[test]
    fn the_number_of_pods_is_taken_over_by_a_manager_that_owns_it() {
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let template = json!({"f:spec": {"f:template": {}}});
        let controller = "kube-controller-manager";
        assert!(has_taken_over(&meta(controller, replicas.clone())));
        assert!(!has_taken_over(&meta(controller, template)));
        assert!(!has_taken_over(&meta(FIELD_MANAGER, replicas)));
        assert!(!has_taken_over(&ObjectMeta::default()));
    }

    #[test]
    fn a_rival_scales_the_app_and_is_not_the_operators() {
        let identity = minimal_stack().identity;
        let autoscaler = |name: &str, kind: &str, target: &str, owners: Value| {
            let spec = json!({"maxReplicas": 3, "scaleTargetRef": {"kind": kind, "name": target}});
            let meta = json!({"name": name, "ownerReferences": owners});
            let found: HorizontalPodAutoscaler =
                serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap();
            Arc::new(found)
        };
        let own = json!([identity.owner]);
        for (one, expected) in [
            (autoscaler("acme-app", "Deployment", "acme-app", own), None),
            (
                autoscaler("mine", "Deployment", "acme-app", json!([])),
                Some(Rival {
                    name: "mine".to_owned(),
                    most: 3,
                }),
            ),
            (
                autoscaler("mine", "Deployment", "other-app", json!([])),
                None,
            ),
            (
                autoscaler("mine", "ShortenerStack", "acme-app", json!([])),
                None,
            ),
        ] {
            assert_eq!(rival(slice::from_ref(&one), &identity), expected, "{one:?}");
        }
    }
}
