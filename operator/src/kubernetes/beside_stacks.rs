//! The watch of the objects of a scope that name a stack: ShortLinks and drills.

use std::collections::BTreeSet;

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{
        WatchStreamExt,
        reflector::{self, Store, store::Writer},
        watcher::{self, Event},
    },
};
use shortener_operator_core::model::{kinds::Presence, metadata::StackKey};
use tokio_util::sync::CancellationToken;

use super::{
    inventory::{Cached, WATCH_TIMEOUT, served::events},
    watch_report::Reports,
};

/// Number of objects of one page of a list. They are small, and there may be thousands.
const PAGE: u32 = 250;

/// The objects of a kind, as their watch sees them.
pub struct Watched<K: Cached> {
    /// Those that parse. It fills only while the stream is polled.
    pub store: Store<K>,
    /// The stacks whose objects have changed.
    pub stacks: BoxStream<'static, StackKey>,
    /// Cancelled when the cluster turns out to lack the kind.
    pub absent: CancellationToken,
}

/// Watches the objects of a scope, once the cluster serves their kind. `target` returns the stack that one names.
pub fn watch<K: Cached + Resource<Scope = NamespaceResourceScope>>(
    client: &Client,
    reports: Reports<'_>,
    target: fn(&K) -> StackKey,
) -> Watched<K> {
    let api: Api<DeserializeGuard<K>> = match reports.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let config = watcher::Config::default()
        .timeout(WATCH_TIMEOUT)
        .page_size(PAGE);
    let (store, mut writer) = reflector::store();
    let known = store.clone();
    let mut report = reports.of::<K>(false);
    let absent = CancellationToken::new();
    let stacks = events(client, api, config, Presence::Optional, absent.clone())
        .default_backoff()
        .inspect(move |event| report.see(event))
        .flat_map(move |event| {
            let event = event.ok().and_then(readable);
            let stacks = event.map(|event| concerned(&known, &mut writer, &event, target));
            stream::iter(stacks.unwrap_or_default())
        })
        .boxed();
    Watched {
        store,
        stacks,
        absent,
    }
}

/// Keeps what an event tells. Returns the stacks that it concerns.
fn concerned<K: Cached>(
    known: &Store<K>,
    writer: &mut Writer<K>,
    event: &Event<K>,
    target: fn(&K) -> StackKey,
) -> BTreeSet<StackKey> {
    writer.apply_watcher_event(event);
    match event {
        Event::Apply(object) | Event::Delete(object) => BTreeSet::from([target(object)]),
        // The objects of a list are in the store only now.
        Event::InitDone => known.state().iter().map(|object| target(object)).collect(),
        Event::Init | Event::InitApply(_) => BTreeSet::new(),
    }
}

/// Returns an event about an object that parses. One that does not must not hold up the others.
fn readable<K: Cached>(event: Event<DeserializeGuard<K>>) -> Option<Event<K>> {
    Some(match event {
        Event::Apply(object) => Event::Apply(parsed(object)?),
        Event::Delete(object) => Event::Delete(parsed(object)?),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(parsed(object)?),
        Event::InitDone => Event::InitDone,
    })
}

/// Returns an object without the metadata that nothing reads.
fn parsed<K: Cached>(DeserializeGuard(object): DeserializeGuard<K>) -> Option<K> {
    match object {
        Ok(mut object) => {
            let metadata = object.meta_mut();
            metadata.managed_fields = None;
            metadata.annotations = None;
            metadata.labels = None;
            metadata.owner_references = None;
            Some(object)
        }
        Err(invalid) => {
            let (name, namespace) = (&invalid.metadata.name, &invalid.metadata.namespace);
            tracing::warn!(kind = %K::kind(&()), name, namespace, error = %invalid.error, "an object cannot be parsed, so it is left as it is: is the resource definition newer than the operator?");
            None
        }
    }
}
