//! The objects and the history of their changes.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, json};

use super::{
    faults::WatchFault,
    route::{Collection, Key, Selector},
};

/// 2026-01-01T00:00:00Z; every change is a second later than the one before.
const EPOCH: i64 = 1_767_225_600;
/// Kinds with a spec but without a generation.
const NO_GENERATION: [&str; 3] = ["persistentvolumeclaims", "pods", "services"];

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct StoredChange {
    pub(super) version: u64,
    pub(super) key: Key,
    pub(super) old: Option<Value>,
    pub(super) new: Option<Value>,
}

/// A change that a webhook makes of an object.
pub(super) type Webhook = fn(&mut Value);

/// The objects and the history of their changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) objects: BTreeMap<Key, Value>,
    pub(super) history: Vec<StoredChange>,
    pub(super) version: u64,
    /// Version before which watches have expired.
    pub(super) oldest: u64,
    /// Last version that lists and watches show, while changes are withheld.
    pub(super) held_at: Option<u64>,
    /// True while the garbage collector deletes nothing.
    pub(super) collector_sleeps: bool,
    /// Plural of a kind, and the change that a webhook makes of each object of it.
    pub(super) webhook: Option<(String, Webhook)>,
    /// Fault of every watch; the number of a dropped change is its version.
    pub(super) watch_fault: Option<WatchFault>,
}

impl Store {
    pub(super) fn list(
        &self,
        collection: &Collection,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Value {
        let wanted = |(key, object): &(&Key, &Value)| {
            key.collection == *collection
                && namespace.is_none_or(|wanted| wanted == key.namespace)
                && selector.matches(object)
        };
        let (version, objects) = self.shown();
        let items: Vec<&Value> = objects
            .iter()
            .filter(wanted)
            .map(|(_, object)| object)
            .collect();
        json!({
            "kind": "List",
            "apiVersion": collection.api_version,
            "metadata": {"resourceVersion": version.to_string()},
            "items": items,
        })
    }

    /// Returns the version that lists and watches show, and the objects of that time.
    fn shown(&self) -> (u64, Cow<'_, BTreeMap<Key, Value>>) {
        let Some(held_at) = self.held_at else {
            return (self.version, Cow::Borrowed(&self.objects));
        };
        let mut objects = self.objects.clone();
        let withheld = self.history.iter().rev();
        for change in withheld.take_while(|change| change.version > held_at) {
            match &change.old {
                Some(old) => objects.insert(change.key.clone(), old.clone()),
                None => objects.remove(&change.key),
            };
        }
        (held_at, Cow::Owned(objects))
    }

    /// Stores an object as a real server would. Returns the stored object, and true if anything changed.
    pub(super) fn put(&mut self, key: &Key, object: Value) -> (Value, bool) {
        self.put_at(key, object, &time(self.version + 1))
    }

    /// Does the same, and a new object is created at this time.
    pub(super) fn put_at(&mut self, key: &Key, mut object: Value, time: &str) -> (Value, bool) {
        let old = self.objects.get(key);
        let next = self.version + 1;
        if let Some((_, change)) = self
            .webhook
            .as_ref()
            .filter(|(plural, _)| *plural == key.collection.plural)
        {
            change(&mut object);
        }
        let metadata = &mut object["metadata"];
        metadata["name"] = key.name.clone().into();
        metadata["namespace"] = key.namespace.clone().into();
        match old {
            Some(old) => {
                for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
                    metadata[field] = old["metadata"][field].clone();
                }
            }
            None => {
                metadata["uid"] = format!("00000000-0000-4000-8000-{next:012x}").into();
                metadata["creationTimestamp"] = time.into();
                metadata["generation"] = Value::Null;
            }
        }
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        if old == Some(&object) {
            return (object, false);
        }
        let counted = object.get("spec").is_some()
            && !NO_GENERATION.contains(&key.collection.plural.as_str());
        if counted && old.is_none_or(|old| old["spec"] != object["spec"]) {
            let generation = object["metadata"]["generation"]
                .as_i64()
                .unwrap_or_default()
                + 1;
            object["metadata"]["generation"] = generation.into();
        }
        self.commit(key, Some(object));
        let stored = self.objects[key].clone();
        if !self.collector_sleeps && self.is_orphan(&stored) {
            self.delete(key);
        }
        (stored, true)
    }

    /// Returns true when every owner of the object is gone, so that the garbage collector deletes it too.
    fn is_orphan(&self, object: &Value) -> bool {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| {
            let lives = |owner: &Value| {
                let mut objects = self.objects.values();
                objects.any(|object| object["metadata"]["uid"] == owner["uid"])
            };
            !owners.is_empty() && !owners.iter().any(lives)
        })
    }

    /// Deletes an object and everything that it owns. An object with finalizers is only marked for deletion.
    pub(super) fn delete(&mut self, key: &Key) -> Option<Value> {
        let mut object = self.objects.get(key)?.clone();
        if object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty())
        {
            if object["metadata"]["deletionTimestamp"].is_string() {
                return Some(object);
            }
            object["metadata"]["deletionTimestamp"] = time(self.version + 1).into();
            return Some(self.put(key, object).0);
        }
        self.commit(key, None);
        if self.collector_sleeps {
            return Some(object);
        }
        let uid = object["metadata"]["uid"].clone();
        let owned = |object: &Value| {
            object["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
        };
        let orphans: Vec<Key> = self
            .objects
            .iter()
            .filter(|(_, object)| owned(object))
            .map(|(key, _)| key.clone())
            .collect();
        for orphan in orphans {
            self.delete(&orphan);
        }
        Some(object)
    }

    /// Deletes every object without a live owner, like a garbage collector that wakes up.
    pub(super) fn collect(&mut self) {
        self.collector_sleeps = false;
        let orphans: Vec<Key> = self
            .objects
            .iter()
            .filter(|(_, object)| self.is_orphan(object))
            .map(|(key, _)| key.clone())
            .collect();
        for orphan in orphans {
            self.delete(&orphan);
        }
    }

    pub(super) fn commit(&mut self, key: &Key, new: Option<Value>) {
        self.version += 1;
        let stamped = new.map(|mut object| {
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            object
        });
        let old = match &stamped {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(key),
        };
        self.history.push(StoredChange {
            version: self.version,
            key: key.clone(),
            old,
            new: stamped,
        });
    }
}

fn time(version: u64) -> String {
    let seconds = EPOCH + i64::try_from(version).unwrap();
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}
