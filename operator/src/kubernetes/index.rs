//! Names of objects by a key that lookups use, so that no lookup visits every object of a kind.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Resource, ResourceExt, runtime::watcher::Event};
use parking_lot::RwLock;

/// A namespace and a name in it, for example of the stack that an object belongs to.
pub type IndexKey = (String, String);

type Names = HashMap<IndexKey, BTreeSet<String>>;

/// The names of the objects under each key; clones share them.
///
/// An object whose keys change stays under the earlier ones until the kind is listed again, so the caller checks what
/// it finds.
#[derive(Clone, Debug, Default)]
pub struct Index(Arc<RwLock<Names>>);

impl Index {
    /// Returns the names under a key.
    pub fn names(&self, namespace: &str, name: &str) -> Vec<String> {
        let key = (namespace.to_owned(), name.to_owned());
        let names = self.0.read();
        let found = names.get(&key);
        found.into_iter().flatten().cloned().collect()
    }
}

/// The writer of an index, which follows the events of a watch.
pub struct Indexer<K> {
    keys: fn(&K) -> Vec<IndexKey>,
    index: Index,
    /// Names from a list that is not complete yet.
    listed: Names,
}

impl<K: Resource<DynamicType = ()>> Indexer<K> {
    /// Creates an empty index. The function returns the keys of an object.
    pub fn new(keys: fn(&K) -> Vec<IndexKey>) -> (Index, Self) {
        let index = Index::default();
        let indexer = Self {
            keys,
            index: index.clone(),
            listed: Names::new(),
        };
        (index, indexer)
    }

    /// Follows an event.
    pub fn see(&mut self, event: &Event<K>) {
        match event {
            Event::Init => self.listed = Names::new(),
            Event::InitApply(object) => {
                for key in (self.keys)(object) {
                    self.listed
                        .entry(key)
                        .or_default()
                        .insert(object.name_any());
                }
            }
            Event::InitDone => *self.index.0.write() = std::mem::take(&mut self.listed),
            Event::Apply(object) => {
                let mut names = self.index.0.write();
                for key in (self.keys)(object) {
                    names.entry(key).or_default().insert(object.name_any());
                }
            }
            Event::Delete(object) => {
                let mut names = self.index.0.write();
                for key in (self.keys)(object) {
                    remove(&mut names, &key, &object.name_any());
                }
            }
        }
    }
}

/// Removes a name, and the key with its last name.
fn remove(names: &mut Names, key: &IndexKey, name: &str) {
    let Some(found) = names.get_mut(key) else {
        return;
    };
    found.remove(name);
    if found.is_empty() {
        names.remove(key);
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
        assert_eq!(index.0.read().len(), 1, "a key without names is gone");
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
