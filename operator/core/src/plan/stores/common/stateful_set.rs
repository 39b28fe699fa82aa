//! The StatefulSet of a store: one pod with a stable name.

use k8s_openapi::api::{
    apps::v1::{
        RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
    },
    core::v1::{
        ContainerPort, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodTemplateSpec,
        Volume,
    },
};

use crate::{
    model::{
        drill::DRILL,
        metadata::{Component, StackIdentity, component_name, selector},
        stack::{ManagedStore, ValidatedStack},
    },
    plan::{objects::pod, stores::Definition},
};

/// Returns the StatefulSet `<stack>-<component>`. A change of the credentials or of the configuration restarts the pod. A
/// drill takes the pod away and marks the object, so that it is given back in any case.
pub(in crate::plan) fn stateful_set(
    stack: &ValidatedStack,
    definition: &Definition,
    store: &ManagedStore,
) -> StatefulSet {
    let (identity, component) = (&stack.identity, definition.component);
    let checksum = match (definition.configuration)(stack) {
        Some(configuration) => format!("{}.{configuration}", store.checksum),
        None => store.checksum.clone(),
    };
    let pod_spec = (definition.pod)(stack, store);
    let template = pod::without_sidecar(stack, component, checksum, pod_spec);
    let drill = stack.drill_of(component);
    let replicas = if drill.is_some() { 0 } else { store.replicas };
    let mut set = with_template(identity, component, replicas, template);
    if let Some(drill) = drill {
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(DRILL.to_owned(), drill.name.clone());
    }
    set
}

/// Returns the StatefulSet `<stack>-<component>` with this pod template.
pub(in crate::plan::stores) fn with_template(
    identity: &StackIdentity,
    component: Component,
    replicas: i32,
    template: PodTemplateSpec,
) -> StatefulSet {
    let name = component_name(&identity.name, component);
    StatefulSet {
        metadata: identity.child(&name, component),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            selector: selector(&identity.name, component),
            service_name: Some(name),
            revision_history_limit: Some(pod::REVISION_HISTORY),
            min_ready_seconds: Some(0),
            // With the ordered policy, a pod that cannot start is never replaced by a pod of the corrected template.
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(0),
                    ..RollingUpdateStatefulSetStrategy::default()
                }),
            }),
            template,
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// Returns the ports of a store's server.
pub(in crate::plan::stores) fn container_ports(store: &Definition) -> Vec<ContainerPort> {
    let ports = store.ports.iter();
    ports
        .map(|port| pod::port(port.name, port.number))
        .collect()
}

/// Returns the volume `data` from the claim of a store.
pub(in crate::plan::stores) fn data_volume(stack: &ValidatedStack, component: Component) -> Volume {
    Volume {
        name: "data".to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: component_name(&stack.identity.name, component),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Returns the security context of a pod whose processes run as `user` and write to a volume.
pub(in crate::plan) fn security_context(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        fs_group: Some(user),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        ..pod::security_context(user)
    }
}

#[cfg(test)]
mod tests {
    use crate::{plan::build::build, testing::stack::every_profile};

    #[test]
    fn the_stores_of_a_stopped_stack_have_no_pod() {
        for set in build(&every_profile().stopped()).children.stateful_sets {
            assert_eq!(set.spec.unwrap().replicas, Some(0));
        }
    }
}
