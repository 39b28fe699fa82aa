//! Ownership of an object that has a child's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::model::metadata::{INSTANCE_LABEL, StackIdentity};

/// Owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This stack.
    Ours,
    /// An earlier stack of the same name. The garbage collector is about to delete the object.
    Previous,
    /// Anything else. The object is never changed.
    Foreign,
}

/// Determines the owner of an object by the uid of its controller. An object without a controller is identified by
/// its instance label, because retained volumes and credentials have no owner reference, and a user can remove one.
pub fn ownership(meta: &ObjectMeta, identity: &StackIdentity) -> Ownership {
    let owner = meta
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    match owner {
        Some(owner) if owner.uid == identity.owner.uid => Ownership::Ours,
        Some(owner) if owner.kind == identity.owner.kind && owner.name == identity.name => {
            Ownership::Previous
        }
        Some(_) => Ownership::Foreign,
        None if labelled(meta, identity) => Ownership::Ours,
        None => Ownership::Foreign,
    }
}

fn labelled(meta: &ObjectMeta, identity: &StackIdentity) -> bool {
    let labels = meta.labels.as_ref();
    labels.and_then(|labels| labels.get(INSTANCE_LABEL)) == Some(&identity.name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;
    use crate::model::metadata::Component;

    fn identity(uid: &str) -> StackIdentity {
        StackIdentity {
            name: "acme".to_owned(),
            namespace: "links".to_owned(),
            owner: OwnerReference {
                api_version: "shortener.dev/v1alpha1".to_owned(),
                kind: "ShortenerStack".to_owned(),
                name: "acme".to_owned(),
                uid: uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            },
        }
    }

    #[test]
    fn the_owners_uid_decides() {
        let child = identity("1").child("acme-app", Component::App);
        assert_eq!(ownership(&child, &identity("1")), Ownership::Ours);
        assert_eq!(ownership(&child, &identity("2")), Ownership::Previous);
        let mut other = child;
        other.owner_references.get_or_insert_default()[0].name = "other".to_owned();
        assert_eq!(ownership(&other, &identity("2")), Ownership::Foreign);
    }

    #[test]
    fn a_retained_object_is_ours_by_the_label_of_its_instance_alone() {
        let mut retained = identity("1").retained("acme-postgres", Component::Postgres);
        assert_eq!(ownership(&retained, &identity("2")), Ownership::Ours);
        let labels = retained.labels.get_or_insert_default();
        labels.retain(|key, _| key == INSTANCE_LABEL);
        assert_eq!(ownership(&retained, &identity("2")), Ownership::Ours);
        assert_eq!(
            ownership(&ObjectMeta::default(), &identity("2")),
            Ownership::Foreign
        );
    }
}
