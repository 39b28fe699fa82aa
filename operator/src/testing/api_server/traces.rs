//! Objects that tests compare after two runs, without the fields that differ in every run, and the history of the
//! objects. Events are left out, because they are best effort.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    FakeApiServer, ServerState,
    route::Key,
    store::{Store, StoredChange},
};

/// Metadata that differ in every run.
const TRANSIENT: [&str; 5] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
];

impl FakeApiServer {
    /// Returns another server with the same objects and kinds, and without a history, planned faults and recorded
    /// writes.
    pub fn fork(&self) -> Self {
        let state = self.state();
        let store = Store {
            objects: state.store.objects.clone(),
            version: state.store.version,
            oldest: state.store.version,
            ..Store::default()
        };
        Self::of(store, &state)
    }

    /// Returns another server with the same objects and kinds. Its lists and watches show the objects as they were
    /// after this number of changes, until they are released.
    pub fn fork_showing(&self, changes: usize) -> Self {
        let state = self.state();
        let mut store = state.store.clone();
        let hidden = store.history.get(changes).map(|change| change.version - 1);
        store.held_at = Some(hidden.unwrap_or(store.version));
        Self::of(store, &state)
    }

    fn of(store: Store, state: &ServerState) -> Self {
        let state = ServerState {
            store,
            added: state.added.clone(),
            ..ServerState::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            ..Self::default()
        }
    }

    /// Returns every object as `plural/name`, without that which differs in every run.
    pub fn objects(&self) -> BTreeMap<String, Value> {
        self.with_store(|store| {
            let counted = store.objects.iter().filter(|(key, _)| counts(key));
            counted
                .map(|(key, object)| (name(key), comparable(object)))
                .collect()
        })
    }

    /// Returns the uid of every object.
    pub fn uids(&self) -> BTreeMap<String, Value> {
        self.with_store(|store| {
            let counted = store.objects.iter().filter(|(key, _)| counts(key));
            counted
                .map(|(key, object)| (name(key), object["metadata"]["uid"].clone()))
                .collect()
        })
    }

    /// Returns the object of each change since the server was forked, Events included.
    pub fn changed_objects(&self) -> Vec<String> {
        self.with_store(|store| {
            let history = store.history.iter();
            history.map(|change| name(&change.key)).collect()
        })
    }

    /// Returns the numbers of creations and deletions of each object, by anyone, since the server was forked.
    pub fn turnover(&self) -> BTreeMap<String, [usize; 2]> {
        self.with_store(|store| {
            let mut turnover: BTreeMap<String, [usize; 2]> = BTreeMap::new();
            for StoredChange { key, old, new, .. } in &store.history {
                if counts(key) && (old.is_none() || new.is_none()) {
                    let [created, deleted] = turnover.entry(name(key)).or_default();
                    *created += usize::from(old.is_none());
                    *deleted += usize::from(new.is_none());
                }
            }
            turnover
        })
    }

    /// Returns the entries of Secrets that have had more than one value since the server was forked.
    pub fn changed_credentials(&self) -> BTreeSet<String> {
        self.with_store(|store| {
            let (mut first, mut changed) = (BTreeMap::new(), BTreeSet::new());
            let secrets = store.history.iter();
            for change in secrets.filter(|change| change.key.collection.plural == "secrets") {
                let versions = [&change.old, &change.new].into_iter().flatten();
                let data = versions.filter_map(|secret| secret["data"].as_object());
                for (entry, value) in data.flatten() {
                    let entry = format!("{}/{entry}", change.key.name);
                    if *first.entry(entry.clone()).or_insert(value) != value {
                        changed.insert(entry);
                    }
                }
            }
            changed
        })
    }
}

fn counts(key: &Key) -> bool {
    key.collection.plural != "events"
}

fn name(key: &Key) -> String {
    format!("{}/{}", key.collection.plural, key.name)
}

fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !TRANSIENT.contains(&field.as_str()));
    }
    if object["kind"] == "Secret"
        && let Some(data) = object["data"].as_object_mut()
    {
        data.values_mut().for_each(|value| *value = "hidden".into());
    }
    mask(&mut object);
    object
}

/// Replaces what is made from random values or from the time.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => *text = masked(text),
        _ => {}
    }
}

/// Returns a text without the parts between its dots that are a checksum of 128 bits in hexadecimal, whose key is random.
fn masked(text: &str) -> String {
    let is_checksum =
        |part: &&str| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = text.split('.');
    let parts = parts.map(|part| if is_checksum(&part) { "checksum" } else { part });
    parts.collect::<Vec<_>>().join(".")
}
