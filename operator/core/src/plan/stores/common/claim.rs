//! The volume of a store. It is a separate child and not a template of the StatefulSet, so that it grows by an edit,
//! without a new StatefulSet.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::{
    model::{
        metadata::{Component, DATA_VERSION, component_name},
        stack::{ManagedStore, ValidatedStack},
    },
    plan::objects::volume,
};

/// Returns the PersistentVolumeClaim `<stack>-<component>`, or `None` for a store that keeps all its data in memory.
pub(in crate::plan) fn claim(
    stack: &ValidatedStack,
    component: Component,
    store: &ManagedStore,
) -> Option<PersistentVolumeClaim> {
    let disk = store.volume.as_ref()?;
    let name = component_name(&stack.identity.name, component);
    let mut metadata = stack.data_metadata(name, component);
    if let Some(version) = disk.version {
        // The claim outlives its StatefulSet, so its own annotation records the server version that can read it.
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(DATA_VERSION.to_owned(), version.to_string());
    }
    Some(PersistentVolumeClaim {
        metadata,
        spec: Some(volume::claim(disk)),
        ..PersistentVolumeClaim::default()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde_json::json;

    use super::*;
    use crate::{
        model::{facts::ClaimFact, stack::Store},
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
    fn an_existing_claim_keeps_what_nobody_can_change() {
        let existing = |request: &str, capacity: Option<&str>| {
            let capacity = capacity.map(|size| json!({"storage": size}));
            let claim = json!({
                "metadata": {},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "theirs",
                    "resources": {"requests": {"storage": request}},
                },
                "status": {"capacity": capacity},
            });
            ClaimFact::of(&serde_json::from_value(claim).unwrap())
        };
        for (spec, request, capacity, expected) in [
            ("1Gi", "20Gi", Some("20Gi"), "20Gi"),
            ("1Gi", "1Gi", Some("20Gi"), "1Gi"),
            ("30Gi", "20Gi", Some("20Gi"), "30Gi"),
            // The provisioner rounded up. Kubernetes takes no request below the volume.
            ("2Gi", "1Gi", Some("4Gi"), "1Gi"),
            // A growth that failed is taken back to more than the volume has, and not to as much.
            ("2Gi", "10Gi", Some("1Gi"), "2Gi"),
            ("1Gi", "10Gi", Some("1Gi"), "10Gi"),
            // Without a volume there is nothing to take back.
            ("1Gi", "20Gi", None, "20Gi"),
            ("1Gi", "1024Mi", Some("1Gi"), "1Gi"),
        ] {
            let mut stack = minimal_stack().user_settings();
            for store in stack.stores_mut() {
                if let Store::Managed(store) = store
                    && let Some(volume) = &mut store.volume
                {
                    volume.size = Quantity(spec.to_owned());
                    volume.existing = Some(existing(request, capacity));
                }
            }
            for (_, claim) in claims(&stack) {
                let spec = serde_json::to_value(claim.spec.unwrap()).unwrap();
                assert_eq!(
                    spec["resources"]["requests"]["storage"], expected,
                    "{request}"
                );
                assert_eq!(spec["storageClassName"], "theirs");
                assert_eq!(spec["accessModes"], json!(["ReadWriteMany"]));
            }
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
