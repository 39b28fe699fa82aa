//! Ownership of an object that has a child's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::model::{
    kinds::Deletion,
    metadata::{
        APPLIED_HASH, FIELD_MANAGER, INSTANCE_LABEL, MANAGED_BY_LABEL, StackIdentity, component_of,
        labels,
    },
};

/// A uid that no object has. The garbage collector deletes an object whose only owner has it.
pub const ABSENT_OWNER_UID: &str = "00000000-0000-0000-0000-000000000000";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This stack.
    Ours,
    /// An owner that is gone: an earlier stack of the same name, or a profile that was switched off. The garbage
    /// collector is about to delete the object.
    Previous,
    /// Anything else. The object is never changed.
    Foreign,
}

/// Determines the owner of an object by the uid of its controller, or of one without a controller by its marks. Retained
/// volumes and credentials have no owner reference, so there a label is enough. Of the other kinds, a child loses its owner
/// by `kubectl delete --cascade=orphan` or in a backup. Labels say nothing about them: other tools label what they install
/// under the name of a stack alike. The hash is the mark that only the operator writes.
pub fn ownership(meta: &ObjectMeta, identity: &StackIdentity, deletion: Deletion) -> Ownership {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    match owners.iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) if owner.uid == identity.owner.uid => Ownership::Ours,
        Some(owner) if owner.kind == identity.owner.kind && owner.name == identity.name => {
            Ownership::Previous
        }
        Some(_) => Ownership::Foreign,
        None if !is_marked(meta, identity, deletion) => Ownership::Foreign,
        None if is_discarded(owners) => Ownership::Previous,
        None => Ownership::Ours,
    }
}

/// Returns true when an object belongs to the stack.
pub fn is_ours(meta: &ObjectMeta, identity: &StackIdentity, deletion: Deletion) -> bool {
    ownership(meta, identity, deletion) == Ownership::Ours
}

/// Returns true when an object without a controller has the marks of the stack's children.
fn is_marked(meta: &ObjectMeta, identity: &StackIdentity, deletion: Deletion) -> bool {
    match deletion {
        Deletion::Retained => labelled(meta, identity),
        Deletion::Pruned => {
            let (found, annotations) = (meta.labels.as_ref(), meta.annotations.as_ref());
            let is_applied = annotations.is_some_and(|all| all.contains_key(APPLIED_HASH));
            let labels = labels(&identity.name, component_of(meta));
            let mut labels = labels.iter();
            is_applied
                && labels.all(|(key, value)| found.and_then(|all| all.get(key)) == Some(value))
        }
    }
}

/// Returns true when an object has the instance label of the stack and is managed by no other tool.
fn labelled(meta: &ObjectMeta, identity: &StackIdentity) -> bool {
    let labels = meta.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key));
    label(INSTANCE_LABEL) == Some(&identity.name)
        && label(MANAGED_BY_LABEL).is_none_or(|manager| manager == FIELD_MANAGER)
}

fn is_discarded(owners: &[OwnerReference]) -> bool {
    !owners.is_empty() && owners.iter().all(|owner| owner.uid == ABSENT_OWNER_UID)
}

#[cfg(test)]
mod tests {
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

    fn of(meta: &ObjectMeta, uid: &str) -> [Ownership; 2] {
        let identity = identity(uid);
        [Deletion::Pruned, Deletion::Retained].map(|kind| ownership(meta, &identity, kind))
    }

    #[test]
    fn the_owners_uid_decides() {
        let child = identity("1").child("acme-app", Component::App);
        assert_eq!(of(&child, "1"), [Ownership::Ours; 2]);
        assert_eq!(of(&child, "2"), [Ownership::Previous; 2]);
        let mut other = child;
        other.owner_references.get_or_insert_default()[0].name = "other".to_owned();
        assert_eq!(of(&other, "2"), [Ownership::Foreign; 2]);
    }

    #[test]
    fn only_data_and_credentials_without_an_owner_are_ours_by_the_label_of_their_instance() {
        let mut retained = identity("1").retained("acme-postgres", Component::Postgres);
        let by_label = [Ownership::Foreign, Ownership::Ours];
        assert_eq!(of(&retained, "2"), by_label);
        let labels = retained.labels.get_or_insert_default();
        labels.retain(|key, _| key == INSTANCE_LABEL);
        assert_eq!(of(&retained, "2"), by_label);
        assert_eq!(of(&ObjectMeta::default(), "2"), [Ownership::Foreign; 2]);
    }

    #[test]
    fn another_child_without_an_owner_is_ours_by_all_its_labels_and_the_hash_of_its_last_apply() {
        let mut child = identity("1").child("acme-app", Component::App);
        child.owner_references = None;
        assert_eq!(of(&child, "2")[0], Ownership::Foreign);
        let annotations = child.annotations.get_or_insert_default();
        annotations.insert(APPLIED_HASH.to_owned(), "1".to_owned());
        assert_eq!(of(&child, "2")[0], Ownership::Ours);
        for key in labels("acme", Component::App).keys() {
            for value in [None, Some("another")] {
                let mut child = child.clone();
                let labels = child.labels.get_or_insert_default();
                labels.remove(key);
                labels.extend(value.map(|value| (key.clone(), value.to_owned())));
                assert_eq!(of(&child, "2")[0], Ownership::Foreign, "{key} {value:?}");
            }
        }
        let mut other = identity("1").owner;
        other.name = "other".to_owned();
        child.owner_references = Some(vec![other]);
        assert_eq!(of(&child, "2")[0], Ownership::Foreign);
    }

    #[test]
    fn data_of_another_tool_is_foreign_whatever_its_instance_is_called() {
        let mut theirs = identity("1").retained("acme-rabbitmq", Component::Rabbitmq);
        let labels = theirs.labels.get_or_insert_default();
        labels.insert(MANAGED_BY_LABEL.to_owned(), "Helm".to_owned());
        assert_eq!(of(&theirs, "1"), [Ownership::Foreign; 2]);
    }

    #[test]
    fn data_that_was_given_up_does_not_count_as_live() {
        let mut discarded = identity("1").retained("acme-qdrant", Component::Qdrant);
        let owners = discarded.owner_references.get_or_insert_default();
        owners.push(OwnerReference {
            uid: ABSENT_OWNER_UID.to_owned(),
            ..OwnerReference::default()
        });
        let of_collector = [Ownership::Foreign, Ownership::Previous];
        assert_eq!(of(&discarded, "1"), of_collector);
    }
}
