//! Names of objects by a key that lookups use, so that no lookup visits every object of a kind.

use std::{collections::BTreeSet, sync::Arc};

use kube::{Resource, ResourceExt, runtime::watcher::Event};
use parking_lot::RwLock;

use super::digest::Digest;

/// A namespace and a name in it, for example of the stack that an object belongs to.
pub type IndexKey = (String, String);

/// The digest of a key and a name under it, in this order. Most keys have few names, so a set of its own for each of them
/// would take several times as much memory.
type Entry = (Digest, Box<str>);

/// The names of the objects under each key; clones share them.
///
/// An object whose keys change stays under the earlier ones until the kind is listed again, so the caller checks what
/// it finds.
#[derive(Clone, Debug, Default)]
pub struct Index(Arc<RwLock<BTreeSet<Entry>>>);

impl Index {
    /// Returns the names under a key.
    pub fn names(&self, namespace: &str, name: &str) -> Vec<String> {
        let key = Digest::of(&[namespace, name]);
        let entries = self.0.read();
        let from = entries.range((key, Box::<str>::default())..);
        let found = from.take_while(|(other, _)| *other == key);
        found.map(|(_, name)| name.to_string()).collect()
    }
}

/// The writer of an index, which follows the events of a watch.
pub struct Indexer<K> {
    keys: fn(&K) -> Vec<IndexKey>,
    index: Index,
    /// Entries from a list that is not complete yet.
    listed: BTreeSet<Entry>,
}

impl<K: Resource<DynamicType = ()>> Indexer<K> {
    /// Creates an empty index. The function returns the keys of an object.
    pub fn new(keys: fn(&K) -> Vec<IndexKey>) -> (Index, Self) {
        let index = Index::default();
        let indexer = Self {
            keys,
            index: index.clone(),
            listed: BTreeSet::new(),
        };
        (index, indexer)
    }

    /// Follows an event.
    pub fn see(&mut self, event: &Event<K>) {
        match event {
            Event::Init => self.listed = BTreeSet::new(),
            Event::InitApply(object) => {
                let entries = self.entries(object);
                self.listed.extend(entries);
            }
            Event::InitDone => *self.index.0.write() = std::mem::take(&mut self.listed),
            Event::Apply(object) => self.index.0.write().extend(self.entries(object)),
            Event::Delete(object) => {
                let mut entries = self.index.0.write();
                for entry in self.entries(object) {
                    entries.remove(&entry);
                }
            }
        }
    }

    fn entries(&self, object: &K) -> Vec<Entry> {
        let keys = (self.keys)(object).into_iter();
        keys.map(|(namespace, name)| (Digest::of(&[&namespace, &name]), object.name_any().into()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(name: &str, team: &str) -> ConfigMap {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "links", "labels": {"team": team}},
        }))
        .unwrap()
    }

    fn by_team() -> (Index, Indexer<ConfigMap>) {
        Indexer::new(|map: &ConfigMap| {
            let team = map.labels().get("team").cloned();
            team.into_iter()
                .map(|team| (map.namespace().unwrap_or_default(), team))
                .collect()
        })
    }

    #[test]
    fn an_object_is_found_under_its_key_until_it_is_deleted() {
        let (index, mut indexer) = by_team();
        indexer.see(&Event::Apply(map("a", "red")));
        indexer.see(&Event::Apply(map("b", "red")));
        indexer.see(&Event::Apply(map("c", "blue")));
        assert_eq!(index.names("links", "red"), ["a", "b"]);
        assert_eq!(index.names("other", "red"), [] as [String; 0]);
        indexer.see(&Event::Delete(map("a", "red")));
        indexer.see(&Event::Delete(map("b", "red")));
        assert_eq!(index.names("links", "red"), [] as [String; 0]);
        assert_eq!(index.names("links", "blue"), ["c"]);
        assert_eq!(index.0.read().len(), 1, "nothing is left of the others");
    }

    #[test]
    fn a_new_list_replaces_everything_once_it_is_complete() {
        let (index, mut indexer) = by_team();
        indexer.see(&Event::Apply(map("gone", "red")));
        indexer.see(&Event::Init);
        indexer.see(&Event::InitApply(map("a", "red")));
        assert_eq!(index.names("links", "red"), ["gone"]);
        indexer.see(&Event::InitDone);
        assert_eq!(index.names("links", "red"), ["a"]);
    }
}
