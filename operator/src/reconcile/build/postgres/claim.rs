//! The volume of the managed database. It is a child of its own and not a template of the StatefulSet, so growing it
//! is an edit and not a new StatefulSet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};

use crate::{
    metadata::{Component, component_name},
    reconcile::stack::{ManagedDatabase, ValidatedStack},
};

/// The PersistentVolumeClaim `<stack>-postgres`.
pub fn claim(stack: &ValidatedStack, database: &ManagedDatabase) -> PersistentVolumeClaim {
    let name = component_name(&stack.identity.name, Component::Postgres);
    PersistentVolumeClaim {
        metadata: stack.data_metadata(name, Component::Postgres),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    database.storage.clone(),
                )])),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: database.storage_class.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    fn claim_of(stack: &ValidatedStack) -> PersistentVolumeClaim {
        claim(stack, stack.database.managed().unwrap())
    }

    #[test]
    fn the_claim_outlives_its_stack() {
        golden("claim-postgres", &claim_of(&minimal_stack()));
    }

    #[test]
    fn the_claim_goes_with_a_stack_that_deletes_its_data() {
        let stack = minimal_stack().deleting_data();
        let owners = claim_of(&stack).metadata.owner_references;
        assert_eq!(owners, Some(vec![stack.identity.owner]));
    }

    #[test]
    fn the_storage_class_of_the_user_is_asked_for() {
        let spec = claim_of(&minimal_stack().user_settings()).spec.unwrap();
        assert_eq!(spec.storage_class_name.as_deref(), Some("fast"));
    }
}
