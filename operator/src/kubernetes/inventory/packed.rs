//! The objects of one kind, kept as JSON and parsed when they are read. A parsed object takes about eight times as many
//! bytes, because its types have room for every field of Kubernetes, and a cluster may have a thousand stacks. The
//! children of two stacks are much alike, so the first objects are the dictionary by which the others are compressed.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, OnceLock},
};

use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::watcher::Event};
use lz4_flex::block::{
    DecompressError, compress_prepend_size_with_dict, decompress_size_prepended_with_dict,
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use shortener_operator_core::model::facts::HostClaim;
use tokio::sync::watch;

/// Number of bytes of the dictionary: the Deployments of one stack with all profiles. LZ4 refers back to at most 64 KiB.
const DICTIONARY: usize = 48 << 10;

/// The JSON of an object.
enum Json {
    Plain(Box<[u8]>),
    /// Compressed by the dictionary.
    Compressed(Box<[u8]>),
}

/// A kept object cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Compressed(#[from] DecompressError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The JSON of the first objects, once there are [`DICTIONARY`] bytes of it. A small cluster never has one.
#[derive(Default)]
struct Dictionary(OnceLock<Vec<u8>>);

impl Dictionary {
    fn compress(&self, json: Vec<u8>) -> Json {
        match self.0.get() {
            Some(dictionary) => {
                let compressed = compress_prepend_size_with_dict(&json, dictionary);
                Json::Compressed(fitting(compressed))
            }
            None => Json::Plain(fitting(json)),
        }
    }

    fn parse<T: DeserializeOwned>(&self, json: &Json) -> Result<T, Unreadable> {
        Ok(match json {
            Json::Plain(json) => serde_json::from_slice(json)?,
            Json::Compressed(compressed) => {
                let dictionary = self.0.get().map_or(&[][..], Vec::as_slice);
                let json = decompress_size_prepended_with_dict(compressed, dictionary)?;
                serde_json::from_slice(&json)?
            }
        })
    }
}

/// Copies bytes to where they stay. The buffer that they come from is many times as large as they are: in its place they
/// would leave holes of that size between each other.
fn fitting(buffer: Vec<u8>) -> Box<[u8]> {
    Box::from(buffer.as_slice())
}

/// An object as it is kept.
struct Entry {
    json: Json,
    /// The claim that a route records. All of them are compared in each reconcile, so they are not parsed each time.
    claim: Option<Box<HostClaim>>,
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
struct OnlyMetadata {
    metadata: ObjectMeta,
}

/// Objects by namespace and name. A map of this kind shrinks with its entries.
type Objects = BTreeMap<Box<str>, BTreeMap<Box<str>, Entry>>;

/// The watch of a kind has ended, so that its first list never comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watch of a kind has ended before its first list")]
pub struct Unlisted;

/// The objects of one kind; clones share them.
pub struct Packed<K> {
    objects: Arc<RwLock<Objects>>,
    dictionary: Arc<Dictionary>,
    /// True once the kind has been listed.
    listed: watch::Receiver<bool>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Packed<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            dictionary: self.dictionary.clone(),
            listed: self.listed.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: DeserializeOwned> Packed<K> {
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let objects = self.objects.read();
        let object = unpack(&self.dictionary, objects.get(namespace)?.get(name)?);
        object.map(Arc::new)
    }

    /// Returns the objects of a namespace.
    pub fn of_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let objects = self.objects.read();
        let found = objects.get(namespace).into_iter().flatten();
        let objects = found.filter_map(|(_, entry)| unpack(&self.dictionary, entry));
        objects.map(Arc::new).collect()
    }
}

impl<K> Packed<K> {
    /// Returns true when an object exists.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        let objects = self.objects.read();
        let found = objects.get(namespace);
        found.is_some_and(|found| found.contains_key(name))
    }

    /// Returns the metadata of an object, which takes a fraction of the time for the whole of it.
    pub fn metadata(&self, namespace: &str, name: &str) -> Option<ObjectMeta> {
        let objects = self.objects.read();
        let entry = objects.get(namespace)?.get(name)?;
        let object: OnlyMetadata = unpack(&self.dictionary, entry)?;
        Some(object.metadata)
    }

    /// Returns the claims that match.
    pub fn claims(&self, matches: impl Fn(&HostClaim) -> bool) -> Vec<HostClaim> {
        let objects = self.objects.read();
        let entries = objects.values().flat_map(BTreeMap::values);
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

fn unpack<T: DeserializeOwned>(dictionary: &Dictionary, entry: &Entry) -> Option<T> {
    match dictionary.parse(&entry.json) {
        Ok(object) => Some(object),
        // It was written from the same type.
        Err(error) => {
            tracing::error!(%error, "an object of the cache cannot be parsed; restart the operator and report this");
            None
        }
    }
}

/// The writer, which follows the events of a watch.
pub struct Packer<K> {
    packed: Packed<K>,
    /// The dictionary until it is complete.
    begun: Vec<u8>,
    listed: watch::Sender<bool>,
    claim: fn(&K) -> Option<HostClaim>,
    /// Objects of a list that is not complete yet.
    fresh: Objects,
}

impl<K: Resource<DynamicType = ()> + Serialize> Packer<K> {
    /// Creates an empty cache. The function returns the claim that an object records.
    pub fn new(claim: fn(&K) -> Option<HostClaim>) -> (Packed<K>, Self) {
        let (sender, listed) = watch::channel(false);
        let packed = Packed {
            objects: Arc::default(),
            dictionary: Arc::default(),
            listed,
            kind: PhantomData,
        };
        let packer = Self {
            packed: packed.clone(),
            begun: Vec::new(),
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
            Event::InitApply(object) => {
                if let Some(entry) = self.pack(object) {
                    put(&mut self.fresh, object, entry);
                }
            }
            Event::InitDone => {
                *self.packed.objects.write() = std::mem::take(&mut self.fresh);
                self.listed.send_replace(true);
            }
            Event::Apply(object) => {
                if let Some(entry) = self.pack(object) {
                    put(&mut self.packed.objects.write(), object, entry);
                }
            }
            Event::Delete(object) => remove(&mut self.packed.objects.write(), object),
        }
    }

    fn pack(&mut self, object: &K) -> Option<Entry> {
        match serde_json::to_vec(object) {
            Ok(json) => {
                let json = self.packed.dictionary.compress(json);
                self.learn(&json);
                let claim = (self.claim)(object).map(Box::new);
                Some(Entry { json, claim })
            }
            // It was parsed from JSON.
            Err(error) => {
                tracing::error!(%error, "an object cannot be kept; restart the operator and report this");
                None
            }
        }
    }

    /// Adds an object to the dictionary until that is complete.
    fn learn(&mut self, json: &Json) {
        if let Json::Plain(json) = json {
            self.begun.extend_from_slice(json);
            if self.begun.len() >= DICTIONARY {
                let complete = std::mem::take(&mut self.begun);
                self.packed.dictionary.0.get_or_init(|| complete);
            }
        }
    }
}

fn put<K: Resource<DynamicType = ()>>(objects: &mut Objects, object: &K, entry: Entry) {
    let namespace = object.namespace().unwrap_or_default();
    let objects = objects.entry(namespace.into()).or_default();
    objects.insert(object.name_any().into(), entry);
}

fn remove<K: Resource<DynamicType = ()>>(objects: &mut Objects, object: &K) {
    let namespace = object.namespace().unwrap_or_default();
    if let Some(found) = objects.get_mut(namespace.as_str()) {
        found.remove(object.name_any().as_str());
        if found.is_empty() {
            objects.remove(namespace.as_str());
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
        let metadata = packed.metadata("links", "a");
        assert_eq!(metadata, Some(object("links", "a", "").metadata));
        assert!(packed.contains("links", "a") && !packed.contains("links", "c"));
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

    #[test]
    fn a_thousand_objects_that_are_alike_are_a_dictionary_and_little_else() {
        let (packed, mut packer) = Packer::<ConfigMap>::new(|_| None);
        let config: Vec<String> = (0..500).map(|line| format!("setting_{line}")).collect();
        let config = config.join("\n");
        let name = |index: usize| format!("stack-{index}");
        for index in 0..1000 {
            packer.see(&Event::Apply(object("links", &name(index), &config)));
        }
        let objects = packed.objects.read();
        let sizes = objects["links"].values().map(|entry| match &entry.json {
            Json::Plain(json) | Json::Compressed(json) => json.len(),
        });
        let (kept, plain) = (sizes.sum::<usize>(), 1000 * config.len());
        assert!(kept < plain / 20, "{kept} of {plain} bytes");
        drop(objects);
        for index in [0, 999] {
            let found = packed.get("links", &name(index)).unwrap();
            assert_eq!(*found, object("links", &name(index), &config));
        }
    }

    #[tokio::test]
    async fn a_watch_that_ends_before_its_list_is_an_error() {
        let (packed, packer) = Packer::<ConfigMap>::new(|_| None);
        drop(packer);
        assert_eq!(packed.wait_until_listed().await, Err(Unlisted));
    }
}
