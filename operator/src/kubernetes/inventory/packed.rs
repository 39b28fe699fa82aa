//! The objects of one kind, kept as JSON and parsed when they are read. A parsed object takes about eight times as many
//! bytes, because its types have room for every field of Kubernetes, and a cluster may have a thousand stacks.

use std::{collections::HashMap, marker::PhantomData, sync::Arc};

use futures::FutureExt;
use kube::{Resource, ResourceExt, runtime::watcher::Event};
use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};
use shortener_operator_core::model::facts::HostClaim;
use tokio::sync::watch;

/// An object as it is kept.
struct Entry {
    json: Box<[u8]>,
    /// The claim that a route records. All of them are compared in each reconcile, so they are not parsed each time.
    claim: Option<Box<HostClaim>>,
}

/// Objects by namespace and name.
type Objects = HashMap<String, HashMap<String, Entry>>;

/// The watch of a kind has ended, so that its first list never comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watch of a kind has ended before its first list")]
pub struct Unlisted;

/// The objects of one kind; clones share them.
pub struct Packed<K> {
    objects: Arc<RwLock<Objects>>,
    /// True once the kind has been listed.
    listed: watch::Receiver<bool>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Packed<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            listed: self.listed.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: DeserializeOwned> Packed<K> {
    /// Returns an object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let objects = self.objects.read();
        unpack(objects.get(namespace)?.get(name)?)
    }

    /// Returns the objects of a namespace.
    pub fn of_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let objects = self.objects.read();
        let found = objects.get(namespace).into_iter().flatten();
        found.filter_map(|(_, entry)| unpack(entry)).collect()
    }
}

impl<K> Packed<K> {
    /// Returns the claims that match.
    pub fn claims(&self, matches: impl Fn(&HostClaim) -> bool) -> Vec<HostClaim> {
        let objects = self.objects.read();
        let entries = objects.values().flat_map(HashMap::values);
        let claims = entries.filter_map(|entry| entry.claim.as_deref());
        claims.filter(|claim| matches(claim)).cloned().collect()
    }

    /// Waits until the kind has been listed.
    ///
    /// # Errors
    /// [`Unlisted`]
    pub async fn wait_until_listed(&self) -> Result<(), Unlisted> {
        let mut listed = self.listed.clone();
        let waited = listed.wait_for(|listed| *listed).await;
        waited.map(|_| ()).map_err(|_| Unlisted)
    }

    /// Returns true when the kind has been listed.
    pub fn is_listed(&self) -> bool {
        matches!(self.wait_until_listed().now_or_never(), Some(Ok(())))
    }
}

fn unpack<K: DeserializeOwned>(entry: &Entry) -> Option<Arc<K>> {
    match serde_json::from_slice(&entry.json) {
        Ok(object) => Some(Arc::new(object)),
        // It was written from the same type.
        Err(error) => {
            tracing::error!(%error, "an object of the cache cannot be parsed; restart the operator and report this");
            None
        }
    }
}

/// The writer, which follows the events of a watch.
pub struct Packer<K> {
    objects: Arc<RwLock<Objects>>,
    listed: watch::Sender<bool>,
    claim: fn(&K) -> Option<HostClaim>,
    /// Objects of a list that is not complete yet.
    fresh: Objects,
}

impl<K: Resource<DynamicType = ()> + Serialize> Packer<K> {
    /// Creates an empty store. The function returns the claim that an object records.
    pub fn new(claim: fn(&K) -> Option<HostClaim>) -> (Packed<K>, Self) {
        let objects = Arc::default();
        let (sender, listed) = watch::channel(false);
        let packed = Packed {
            objects: Arc::clone(&objects),
            listed,
            kind: PhantomData,
        };
        let packer = Self {
            objects,
            listed: sender,
            claim,
            fresh: Objects::new(),
        };
        (packed, packer)
    }

    /// Follows an event.
    pub fn see(&mut self, event: &Event<K>) {
        match event {
            Event::Init => self.fresh = Objects::new(),
            Event::InitApply(object) => put(&mut self.fresh, object, self.claim),
            Event::InitDone => {
                *self.objects.write() = std::mem::take(&mut self.fresh);
                self.listed.send_replace(true);
            }
            Event::Apply(object) => put(&mut self.objects.write(), object, self.claim),
            Event::Delete(object) => remove(&mut self.objects.write(), object),
        }
    }
}

fn put<K>(objects: &mut Objects, object: &K, claim: fn(&K) -> Option<HostClaim>)
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    match serde_json::to_vec(object) {
        Ok(json) => {
            let json = json.into_boxed_slice();
            let claim = claim(object).map(Box::new);
            let objects = objects.entry(namespace).or_default();
            objects.insert(name, Entry { json, claim });
        }
        // It was parsed from JSON.
        Err(error) => {
            tracing::error!(%error, %namespace, %name, "an object cannot be kept; restart the operator and report this");
        }
    }
}

fn remove<K: Resource<DynamicType = ()>>(objects: &mut Objects, object: &K) {
    let namespace = object.namespace().unwrap_or_default();
    if let Some(found) = objects.get_mut(&namespace) {
        found.remove(&object.name_any());
        if found.is_empty() {
            objects.remove(&namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(namespace: &str, name: &str, value: &str) -> ConfigMap {
        let metadata = json!({"namespace": namespace, "name": name});
        serde_json::from_value(json!({"metadata": metadata, "data": {"key": value}})).unwrap()
    }

    #[test]
    fn objects_are_read_as_they_were_written_until_a_list_lacks_them() {
        let (packed, mut packer) = Packer::<ConfigMap>::new(|_| None);
        packer.see(&Event::Init);
        packer.see(&Event::InitApply(object("links", "a", "1")));
        assert!(packed.get("links", "a").is_none() && !packed.is_listed());
        packer.see(&Event::InitDone);
        assert!(packed.is_listed());
        packer.see(&Event::Apply(object("links", "a", "2")));
        packer.see(&Event::Apply(object("links", "b", "3")));
        packer.see(&Event::Apply(object("others", "c", "4")));
        let found = packed.get("links", "a").map(|found| (*found).clone());
        assert_eq!(found, Some(object("links", "a", "2")));
        assert_eq!(packed.of_namespace("links").len(), 2);
        packer.see(&Event::Delete(object("links", "a", "2")));
        assert!(packed.get("links", "a").is_none());
        packer.see(&Event::Init);
        packer.see(&Event::InitApply(object("links", "d", "5")));
        assert!(
            packed.get("links", "b").is_some(),
            "the list is not complete"
        );
        packer.see(&Event::InitDone);
        assert_eq!(packed.of_namespace("links").len(), 1);
        assert!(packed.of_namespace("others").is_empty());
    }

    #[tokio::test]
    async fn a_watch_that_ends_before_its_list_is_an_error() {
        let (packed, packer) = Packer::<ConfigMap>::new(|_| None);
        drop(packer);
        assert_eq!(packed.wait_until_listed().await, Err(Unlisted));
    }
}
