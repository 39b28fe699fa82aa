//! What tests do to the server, and what they look at.

use kube::{Client, Resource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    FakeApiServer,
    faults::{Fault, Write},
    fields::{self, Writer},
    route::{Collection, Key},
};

impl FakeApiServer {
    /// A client without any layer.
    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// Creates an object like a user, status included.
    pub fn create<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>(
        &self,
        object: &K,
    ) -> K {
        let key = key::<K>(
            object.meta().namespace.as_deref().unwrap_or_default(),
            object.meta().name.as_deref().unwrap(),
        );
        let mut wanted = serde_json::to_value(object).unwrap();
        wanted["apiVersion"] = K::api_version(&()).into();
        wanted["kind"] = K::kind(&()).into();
        fields::update(&Value::Null, &mut wanted, USER);
        serde_json::from_value(self.change(|store| store.put(&key, wanted).0)).unwrap()
    }

    /// Adds a kind to the server, as its definition would.
    pub fn add_kind<K: Resource<DynamicType = ()>>(&self) {
        let kind = (
            K::api_version(&()).into_owned(),
            K::plural(&()).into_owned(),
        );
        self.state().added.push(kind);
    }

    /// The live object.
    pub fn get<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<K> {
        let object =
            self.with_store(|store| store.objects.get(&key::<K>(namespace, name)).cloned())?;
        Some(serde_json::from_value(object).unwrap())
    }

    /// Changes a live object like a user or another controller, status included.
    pub fn edit<K: Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        let key = key::<K>(namespace, name);
        self.change(|store| {
            let old = store.objects[&key].clone();
            let mut new = old.clone();
            edit(&mut new);
            fields::update(&old, &mut new, USER);
            store.put(&key, new);
        });
    }

    /// Deletes a live object like a user.
    pub fn delete<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        self.change(|store| store.delete(&key::<K>(namespace, name)))
            .unwrap();
    }

    /// Every object as `plural/name`, sorted.
    pub fn names(&self) -> Vec<String> {
        let name = |key: &Key| format!("{}/{}", key.collection.plural, key.name);
        let mut names: Vec<String> =
            self.with_store(|store| store.objects.keys().map(name).collect());
        names.sort();
        names
    }

    /// The mutating requests so far.
    pub fn writes(&self) -> Vec<Write> {
        self.state().writes.clone()
    }

    /// Forgets the mutating requests so far.
    pub fn forget_writes(&self) {
        self.state().writes.clear();
    }

    /// Lets a write fail, counted from 1 for the next one.
    pub fn fail_write(&self, number: u64, fault: Fault) {
        self.state().plan.fail_write(number, fault);
    }

    /// Lets every request fail, or none any more.
    pub fn fail_all(&self, fault: Option<Fault>) {
        self.state().plan.fail_all(fault);
    }

    /// Lets every write to a kind fail, as with a webhook that is away, or none any more.
    pub fn fail_kind<K: Resource<DynamicType = ()>>(&self, fault: Option<Fault>) {
        let plural = K::plural(&()).into_owned();
        self.state().plan.fail_kind(plural, fault);
    }

    /// Watches show no further changes until they are released.
    pub fn hold_watches(&self) {
        self.change(|store| store.held_at = Some(store.version));
    }

    /// Watches catch up.
    pub fn release_watches(&self) {
        self.change(|store| store.held_at = None);
    }

    /// Every open watch ends with `410 Gone`, as after a compaction.
    pub fn expire_watches(&self) {
        self.change(|store| {
            // A version of its own, so that watches that are up to date expire too.
            store.version += 1;
            store.oldest = store.version;
        });
    }
}

const USER: Writer<'static> = Writer {
    manager: "somebody",
    operation: "Update",
    subresource: None,
};

pub(super) fn key<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Key {
    let collection = Collection {
        api_version: K::api_version(&()).into_owned(),
        plural: K::plural(&()).into_owned(),
    };
    Key {
        collection,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
