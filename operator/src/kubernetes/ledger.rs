//! Records of the last write to each child, so that the steady state writes nothing.
//!
//! A record holds the uid of the object, the hash of the rendered object and a fingerprint of the fields that the
//! operator owns according to the API server (`metadata.managedFields`). Another manager that changes such a field
//! takes over its ownership, so an equal fingerprint means that nothing drifted. `metadata.generation` is not enough:
//! many kinds have none, and edits of labels do not change it.
//!
//! A cluster may have tens of thousands of children, so a record holds digests of the texts, which are only compared.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use parking_lot::Mutex;
use serde_json::Value;
use shortener_operator_core::model::{autoscaler, metadata::FIELD_MANAGER};

use super::digest::Digest;

/// Operation of a server-side apply in the managed fields.
const APPLY: &str = "Apply";

/// Kind, namespace and name of a child object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildKey(Digest);

impl ChildKey {
    /// Returns the key of a child.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self(Digest::of(&[kind, namespace, name]))
    }
}

/// The state of an object after the operator last wrote or checked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Uid of the object, as a recreated one has another, and hash of the rendered object.
    written: Digest,
    /// Fingerprint of the fields that the operator owns.
    fields: u64,
    /// `metadata.generation` after the write, for kinds that have one.
    pub generation: Option<i64>,
    /// `metadata.resourceVersion` in the watch cache before the write. As long as the cache still shows it, the cache
    /// lags behind the write.
    before: Option<Digest>,
}

impl Record {
    /// Creates the record of a live object for a rendering with this hash. `before` is the resource version that the watch
    /// cache showed before the write.
    pub fn of(meta: &ObjectMeta, rendered: &str, before: Option<&str>) -> Self {
        let uid = meta.uid.as_deref().unwrap_or_default();
        Self {
            written: Digest::of(&[uid, rendered]),
            fields: own_fields(meta),
            generation: meta.generation,
            before: before.map(version),
        }
    }

    /// Returns true when the live object is still as it was written.
    pub fn holds_for(&self, meta: &ObjectMeta, rendered: &str) -> bool {
        let is_same = |uid: &str| self.written == Digest::of(&[uid, rendered]);
        let shown = meta.resource_version.as_deref().map(version);
        let lagging = self.before.is_some() && self.before == shown;
        meta.uid.as_deref().is_some_and(is_same) && (lagging || self.fields == own_fields(meta))
    }
}

fn version(text: &str) -> Digest {
    Digest::of(&[text])
}

/// Replaces the managed fields of an object by what is read of them: the fingerprint of the operator's own, which is all
/// that [`Record::holds_for`] needs, and who else scales the object. In full they are trees of JSON, several times as large
/// as the rest of the object.
pub fn keep_fingerprint(meta: &mut ObjectMeta) {
    let fields = own_fields(meta);
    let entries = meta.managed_fields.take().unwrap_or_default();
    let own = entries.iter().any(is_own).then(|| ManagedFieldsEntry {
        manager: Some(FIELD_MANAGER.to_owned()),
        operation: Some(APPLY.to_owned()),
        fields_v1: Some(FieldsV1(fields.into())),
        ..ManagedFieldsEntry::default()
    });
    let scalers = entries.iter().filter(|entry| autoscaler::scales(entry));
    let kept: Vec<_> = own
        .into_iter()
        .chain(scalers.map(autoscaler::reduced))
        .collect();
    meta.managed_fields = (!kept.is_empty()).then_some(kept);
}

/// Returns a fingerprint of the fields that server-side apply records as the operator's.
fn own_fields(meta: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    let entries = meta.managed_fields.iter().flatten();
    for entry in entries.filter(|entry| is_own(entry)) {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        // Fields are an object, so a number is the fingerprint that was left of them.
        if let Some(fingerprint) = fields.and_then(Value::as_u64) {
            return fingerprint;
        }
        fields.map(Value::to_string).hash(&mut hasher);
    }
    hasher.finish()
}

fn is_own(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some(APPLY)
        && entry.subresource.is_none()
}

/// The records of every child that this process has written or checked.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<ChildKey, Record>>);

impl Ledger {
    /// Returns the record of a child.
    pub fn get(&self, key: ChildKey) -> Option<Record> {
        self.0.lock().get(&key).copied()
    }

    /// Stores the record of a child.
    pub fn put(&self, key: ChildKey, record: Record) {
        self.0.lock().insert(key, record);
    }

    /// Removes the record of a deleted child.
    pub fn forget(&self, key: ChildKey) {
        self.0.lock().remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(uid: &str, fields: serde_json::Value) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            managed_fields: Some(vec![ManagedFieldsEntry {
                manager: Some(FIELD_MANAGER.to_owned()),
                operation: Some("Apply".to_owned()),
                fields_v1: Some(FieldsV1(fields)),
                ..ManagedFieldsEntry::default()
            }]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_record_holds_until_a_field_is_taken_the_object_is_recreated_or_the_rendering_changes() {
        let written = meta("1", json!({"f:spec": {"f:replicas": {}}}));
        let record = Record::of(&written, "abc", None);
        assert!(record.holds_for(&written, "abc"));
        assert!(!record.holds_for(&written, "def"));
        assert!(!record.holds_for(&meta("2", json!({"f:spec": {"f:replicas": {}}})), "abc"));
        assert!(!record.holds_for(&meta("1", json!({"f:spec": {}})), "abc"));
    }

    #[test]
    fn a_watch_that_lags_behind_our_write_is_no_drift() {
        let mut stale = meta("1", json!({}));
        stale.resource_version = Some("7".to_owned());
        let record = Record::of(
            &meta("1", json!({"f:spec": {}})),
            "abc",
            stale.resource_version.as_deref(),
        );
        assert!(record.holds_for(&stale, "abc"));
        stale.resource_version = Some("9".to_owned());
        assert!(!record.holds_for(&stale, "abc"));
    }

    #[test]
    fn who_else_scales_an_object_is_kept_and_nothing_else_of_others() {
        let mut live = meta("1", json!({"f:spec": {}}));
        let foreign = |fields| ManagedFieldsEntry {
            manager: Some("kube-controller-manager".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        };
        live.managed_fields.get_or_insert_default().extend([
            foreign(json!({"f:spec": {"f:replicas": {}}})),
            foreign(json!({"f:status": {"f:replicas": {}}})),
        ]);
        keep_fingerprint(&mut live);
        assert_eq!(live.managed_fields.as_ref().unwrap().len(), 2);
        assert!(autoscaler::has_taken_over(&live));
    }

    #[test]
    fn a_fingerprint_stands_for_the_fields_that_it_was_made_of() {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:metadata": {}}}});
        let written = meta("1", fields.clone());
        let record = Record::of(&written, "abc", None);
        let watched = |fields: Value| {
            let mut meta = meta("1", fields);
            keep_fingerprint(&mut meta);
            // A second pass changes nothing.
            keep_fingerprint(&mut meta);
            meta
        };
        let kept = watched(fields);
        assert!(record.holds_for(&kept, "abc"));
        assert!(!record.holds_for(&watched(json!({"f:spec": {"f:replicas": {}}})), "abc"));
        assert!(serde_json::to_string(&kept.managed_fields).unwrap().len() < 100);
        let mut foreign = ObjectMeta::default();
        keep_fingerprint(&mut foreign);
        assert_eq!(foreign.managed_fields, None);
    }

    #[test]
    fn fields_of_other_managers_do_not_matter() {
        let mut live = meta("1", json!({"f:spec": {}}));
        let record = Record::of(&live, "abc", None);
        live.managed_fields
            .get_or_insert_default()
            .push(ManagedFieldsEntry {
                manager: Some("kubectl".to_owned()),
                operation: Some("Update".to_owned()),
                fields_v1: Some(FieldsV1(json!({"f:metadata": {}}))),
                ..ManagedFieldsEntry::default()
            });
        assert!(record.holds_for(&live, "abc"));
    }
}
