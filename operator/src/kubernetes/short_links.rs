//! The watch of the ShortLinks of a scope.

use std::collections::BTreeSet;

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store, store::Writer},
        watcher::{self, Event},
    },
};
use shortener_operator_core::{
    api::ShortLink,
    model::{kinds::Presence, metadata::StackKey},
    plan::short_links::target,
};
use tokio_util::sync::CancellationToken;

use super::{
    inventory::{WATCH_TIMEOUT, served::events},
    watch_report::Reports,
};

/// Number of ShortLinks of one page of a list. They are small, and there may be thousands.
const PAGE: u32 = 250;

/// Watches the ShortLinks of a scope, once the cluster serves the kind. Returns those that parse, and the stacks whose
/// ShortLinks have changed. The store fills only while the stream is polled.
pub fn watch(
    client: &Client,
    reports: Reports<'_>,
) -> (Store<ShortLink>, BoxStream<'static, StackKey>) {
    let api: Api<DeserializeGuard<ShortLink>> = match reports.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let config = watcher::Config::default()
        .timeout(WATCH_TIMEOUT)
        .page_size(PAGE);
    let (store, mut writer) = reflector::store();
    let known = store.clone();
    let mut report = reports.of::<ShortLink>(false);
    let absent = CancellationToken::new();
    let stacks = events(client, api, config, Presence::Optional, absent)
        .default_backoff()
        .inspect(move |event| report.see(event))
        .flat_map(move |event| {
            let event = event.ok().and_then(readable);
            let stacks = event.map(|event| concerned(&known, &mut writer, &event));
            stream::iter(stacks.unwrap_or_default())
        })
        .boxed();
    (store, stacks)
}

/// Keeps what an event tells. Returns the stacks that it concerns.
fn concerned(
    known: &Store<ShortLink>,
    writer: &mut Writer<ShortLink>,
    event: &Event<ShortLink>,
) -> BTreeSet<StackKey> {
    writer.apply_watcher_event(event);
    match event {
        Event::Apply(link) | Event::Delete(link) => BTreeSet::from([target(link)]),
        // The objects of a list are in the store only now.
        Event::InitDone => known.state().iter().map(|link| target(link)).collect(),
        Event::Init | Event::InitApply(_) => BTreeSet::new(),
    }
}

/// Returns an event about a ShortLink that parses. One that does not must not hold up the others.
fn readable(event: Event<DeserializeGuard<ShortLink>>) -> Option<Event<ShortLink>> {
    Some(match event {
        Event::Apply(link) => Event::Apply(parsed(link)?),
        Event::Delete(link) => Event::Delete(parsed(link)?),
        Event::Init => Event::Init,
        Event::InitApply(link) => Event::InitApply(parsed(link)?),
        Event::InitDone => Event::InitDone,
    })
}

/// Returns a ShortLink without the metadata that nothing reads.
fn parsed(DeserializeGuard(link): DeserializeGuard<ShortLink>) -> Option<ShortLink> {
    match link {
        Ok(mut link) => {
            let metadata = &mut link.metadata;
            metadata.managed_fields = None;
            metadata.annotations = None;
            metadata.labels = None;
            metadata.owner_references = None;
            Some(link)
        }
        Err(invalid) => {
            let (name, namespace) = (&invalid.metadata.name, &invalid.metadata.namespace);
            tracing::warn!(link = name, namespace, error = %invalid.error, "a ShortLink cannot be parsed, so it is left as it is: is the resource definition newer than the operator?");
            None
        }
    }
}
