//! The volume of a store. It is a separate child and not a template of the StatefulSet, so that it grows by an edit,
//! without a new StatefulSet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};

use crate::model::{
    metadata::{Component, POSTGRES_MAJOR, component_name},
    stack::{ManagedStore, ValidatedStack},
};

/// Returns the PersistentVolumeClaim `<stack>-<component>`, or `None` for a store that keeps all its data in memory.
pub(in crate::plan) fn claim(
    stack: &ValidatedStack,
    component: Component,
    store: &ManagedStore,
) -> Option<PersistentVolumeClaim> {
    let volume = store.volume.as_ref()?;
    let name = component_name(&stack.identity.name, component);
    let mut metadata = stack.data_metadata(name, component);
    if let Some(major) = volume.postgres_major {
        // The claim outlives its StatefulSet, so its own annotation records the server version that can read it.
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(POSTGRES_MAJOR.to_owned(), major.to_string());
    }
    Some(PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    volume.size.clone(),
                )])),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: volume.class.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::stores,
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    fn claims(stack: &ValidatedStack) -> Vec<(Component, PersistentVolumeClaim)> {
        let stores = stores::managed(stack).into_iter();
        stores
            .filter_map(|(store, managed)| {
                let component = store.component;
                Some((component, claim(stack, component, managed)?))
            })
            .collect()
    }

    #[test]
    fn a_claim_outlives_its_stack() {
        for (component, claim) in claims(&every_profile()) {
            golden(&format!("claim-{}", component.as_str()), &claim);
        }
    }

    #[test]
    fn a_cache_has_no_volume() {
        let with_volume: Vec<_> = claims(&minimal_stack().caching())
            .into_iter()
            .map(|(component, _)| component)
            .collect();
        assert_eq!(with_volume, [Component::Postgres]);
    }

    #[test]
    fn a_claim_goes_with_a_stack_that_deletes_its_data() {
        let stack = every_profile().deleting_data();
        for (component, claim) in claims(&stack) {
            let owners = claim.metadata.owner_references;
            assert_eq!(
                owners,
                Some(vec![stack.identity.owner.clone()]),
                "{component:?}"
            );
        }
    }

    #[test]
    fn the_storage_class_of_the_user_is_asked_for() {
        for (component, claim) in claims(&every_profile().user_settings()) {
            let class = claim.spec.unwrap().storage_class_name;
            assert_eq!(class.as_deref(), Some("fast"), "{component:?}");
        }
    }
}
