//! Functions with which tests change and inspect the server.

use kube::{Client, Resource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use shortener_operator_core::model::{
    gateway_api::Gateway,
    kinds::{Kind, Presence, kinds},
};
use tower::Layer;

use super::{
    FakeApiServer,
    faults::{Fault, WatchFault, Write},
    fields::{self, Writer},
    route::{Collection, Key},
};
use crate::kubernetes::request_spans::RequestSpans;

impl FakeApiServer {
    /// Returns a client whose requests are traced, without any other layer.
    pub fn client(&self) -> Client {
        Client::new(RequestSpans.layer(self.clone()), "default")
    }

    /// Creates an object like a user, including its status.
    pub fn create<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>(
        &self,
        object: &K,
    ) -> K {
        let (key, wanted) = by_user(object);
        serde_json::from_value(self.change(|store| store.put(&key, wanted).0)).unwrap()
    }

    /// Does the same at this time.
    pub fn create_at<K: Resource<DynamicType = ()> + Serialize>(
        &self,
        object: &K,
        time: jiff::Timestamp,
    ) {
        let (key, wanted) = by_user(object);
        self.change(|store| store.put_at(&key, wanted, &format!("{time:.0}")));
    }

    /// Adds a kind to the server, as its CustomResourceDefinition would.
    pub fn add_kind<K: Resource<DynamicType = ()>>(&self) {
        let kind = (
            K::api_version(&()).into_owned(),
            K::plural(&()).into_owned(),
        );
        self.state().added.push(kind);
    }

    /// Adds every kind that a cluster may lack: those of children, and Gateways.
    pub fn add_optional_kinds(&self) {
        self.add_kind::<Gateway>();
        let optional = |kind: &Kind| kind.presence == Presence::Optional;
        let kinds = kinds().into_iter().filter(optional);
        let added = kinds.map(|kind| (kind.resource.api_version, kind.resource.plural));
        self.state().added.extend(added);
    }

    /// Returns the live object.
    pub fn get<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<K> {
        let object =
            self.with_store(|store| store.objects.get(&key::<K>(namespace, name)).cloned())?;
        Some(serde_json::from_value(object).unwrap())
    }

    /// Changes a live object like a user or another controller, including its status.
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

    /// Changes a live object without a new generation, as another resource definition does.
    pub fn reshape<K: Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        let key = key::<K>(namespace, name);
        self.change(|store| {
            let mut object = store.objects[&key].clone();
            edit(&mut object);
            store.commit(&key, Some(object));
        });
    }

    /// Serves the OpenAPI document with the definition of the stacks; `None` stands for no definition.
    pub fn serve_definition(&self, document: Option<Value>) {
        self.state().definition = document;
    }

    /// Deletes a live object like a user.
    pub fn delete<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        self.change(|store| store.delete(&key::<K>(namespace, name)))
            .unwrap();
    }

    /// Returns every object as `plural/name`, sorted.
    pub fn names(&self) -> Vec<String> {
        let name = |key: &Key| format!("{}/{}", key.collection.plural, key.name);
        let mut names: Vec<String> =
            self.with_store(|store| store.objects.keys().map(name).collect());
        names.sort();
        names
    }

    /// Returns the mutating requests so far.
    pub fn writes(&self) -> Vec<Write> {
        self.state().writes.clone()
    }

    /// Returns the number of reads of single objects so far, without lists and watches.
    pub fn reads(&self) -> usize {
        self.state().reads
    }

    /// Returns the number of answered lists of a kind so far.
    pub fn lists<K: Resource<DynamicType = ()>>(&self) -> usize {
        let plural = K::plural(&());
        let state = self.state();
        let lists = state.lists.iter();
        lists.filter(|listed| **listed == plural).count()
    }

    /// Clears the recorded mutating requests.
    pub fn forget_writes(&self) {
        self.state().writes.clear();
    }

    /// Makes the write with this number fail; the next one has number 1.
    pub fn fail_write(&self, number: u64, fault: Fault) {
        self.state().plan.fail_write(number, fault);
    }

    /// Makes the write with this number fail, and each repetition of it in the next of these ways.
    pub fn fail_repeatedly(&self, number: u64, faults: &[Fault]) {
        self.state().plan.fail_repeatedly(number, faults);
    }

    /// Returns the number of faults of single writes that have not occurred yet.
    pub fn pending_faults(&self) -> usize {
        self.state().plan.pending()
    }

    /// Makes every request fail; `None` ends this.
    pub fn fail_all(&self, fault: Option<Fault>) {
        self.state().plan.fail_all(fault);
    }

    /// Makes every write to a kind fail, as with an unreachable webhook; `None` ends this.
    pub fn fail_kind<K: Resource<DynamicType = ()>>(&self, fault: Option<Fault>) {
        let plural = K::plural(&()).into_owned();
        self.state().plan.fail_kind(plural, fault);
    }

    /// Makes a webhook change every object of a kind that is stored.
    pub fn mutate<K: Resource<DynamicType = ()>>(&self, change: fn(&mut Value)) {
        let plural = K::plural(&()).into_owned();
        self.change(|store| store.webhook = Some((plural, change)));
    }

    /// Makes every list, watch and read of a kind fail, as without the right to them; `None` ends this. Open watches go
    /// on.
    pub fn fail_reads<K: Resource<DynamicType = ()>>(&self, fault: Option<Fault>) {
        let plural = K::plural(&()).into_owned();
        self.state().plan.fail_reads(plural, fault);
    }

    /// Makes every read of the objects with a name fail; `None` ends this. Lists and watches go on.
    pub fn fail_reads_of(&self, name: &str, fault: Option<Fault>) {
        self.state().plan.fail_reads(name.to_owned(), fault);
    }

    /// Makes every watch misbehave; `None` ends this. The next change has number 1.
    pub fn fail_watches(&self, fault: Option<WatchFault>) {
        self.change(|store| {
            store.watch_fault = fault.map(|fault| match fault {
                WatchFault::Drop(number) => WatchFault::Drop(store.version + number),
                other => other,
            });
        });
    }

    /// Withholds further changes from lists and watches until they are released.
    pub fn hold_watches(&self) {
        self.change(|store| store.held_at = Some(store.version));
    }

    /// Releases the withheld changes to lists and watches.
    pub fn release_watches(&self) {
        self.change(|store| store.held_at = None);
    }

    /// Makes the garbage collector delete nothing until it is asked to.
    pub fn hold_collector(&self) {
        self.change(|store| store.collector_sleeps = true);
    }

    /// Deletes every object whose owners are gone, from now on at once.
    pub fn collect_garbage(&self) {
        self.change(|store| store.collect());
    }

    /// Ends every open watch with `410 Gone`, as after a compaction.
    pub fn expire_watches(&self) {
        self.change(|store| {
            // A new version, so that watches that are up to date expire too.
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

/// Returns the key of an object, and the object as a user writes it.
fn by_user<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> (Key, Value) {
    let key = key::<K>(
        object.meta().namespace.as_deref().unwrap_or_default(),
        object.meta().name.as_deref().unwrap(),
    );
    let mut wanted = serde_json::to_value(object).unwrap();
    wanted["apiVersion"] = K::api_version(&()).into();
    wanted["kind"] = K::kind(&()).into();
    fields::update(&Value::Null, &mut wanted, USER);
    (key, wanted)
}

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
