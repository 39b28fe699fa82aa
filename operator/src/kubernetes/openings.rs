//! Objects of others that let connections from outside in, as the watches see them.
//!
//! Every Service, Ingress and HTTPRoute of the scope is watched, because whoever opens another way in to a stack does not
//! label it. Only those that open one are kept.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
};

use futures::{
    FutureExt, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, networking::v1::Ingress},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use shortener_operator_core::model::{gateway_api::HttpRoute, kinds::Presence, opening::Opening};
use tokio_util::sync::CancellationToken;

use super::{
    inventory::{PAGE, WATCH_TIMEOUT, served::events},
    watch_report::Reports,
};

/// Kind, namespace and name of an object.
type ObjectKey = (String, String, String);

/// The namespaces whose stacks are concerned by a change; `None` for all of them.
pub type Concerned = Option<String>;

#[derive(Default)]
struct Listed {
    openings: HashMap<ObjectKey, Opening>,
    /// Kinds that were listed, or that the cluster lacks.
    listed: BTreeSet<String>,
}

/// The openings of one scope.
#[derive(Default)]
pub struct Openings {
    known: Mutex<Listed>,
}

/// Number of the watched kinds.
const KINDS: usize = 3;

impl Openings {
    /// Watches the kinds in a namespace, or in the whole cluster. The openings fill only while the stream is polled.
    pub fn watch(
        client: &Client,
        reports: Reports<'_>,
    ) -> (Arc<Self>, BoxStream<'static, Concerned>) {
        let (always, optional) = (Presence::Always, Presence::Optional);
        let openings = Arc::new(Self::default());
        let services = openings.follow::<Service>(client, reports, always, Opening::of_service);
        let ingresses = openings.follow::<Ingress>(client, reports, always, Opening::of_ingress);
        let routes =
            openings.follow::<HttpRoute>(client, reports, optional, Opening::of_http_route);
        let concerned = stream::select_all([services, ingresses, routes]);
        (openings, concerned.boxed())
    }

    /// Returns the openings that lead into a namespace; `None` until all are listed.
    pub fn of_namespace(&self, namespace: &str) -> Option<Vec<Opening>> {
        let known = self.known.lock();
        let leads = |opening: &&Opening| opening.namespaces().contains(namespace);
        let mut openings: Vec<Opening> = known.openings.values().filter(leads).cloned().collect();
        // The first one is named in the status, which must not depend on the order of a map.
        openings.sort_by(|one, other| (&one.kind, &one.name).cmp(&(&other.kind, &other.name)));
        (known.listed.len() == KINDS).then_some(openings)
    }

    fn follow<K>(
        self: &Arc<Self>,
        client: &Client,
        reports: Reports<'_>,
        presence: Presence,
        opening: fn(&K) -> Option<Opening>,
    ) -> BoxStream<'static, Concerned>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let api: Api<K> = match reports.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let absent = CancellationToken::new();
        let config = watcher::Config::default()
            .timeout(WATCH_TIMEOUT)
            .page_size(PAGE);
        let openings = self.clone();
        let (mut report, mut found) = (reports.of::<K>(false), BTreeSet::new());
        let changes = events(client, api, config, presence, absent.clone())
            .default_backoff()
            .inspect(move |event| report.see(event))
            .map(move |event| match event {
                Ok(Event::Apply(object)) => openings.set(key(&object), opening(&object)),
                Ok(Event::Delete(object)) => openings.set(key(&object), None),
                Ok(Event::Init) => {
                    found.clear();
                    BTreeSet::new()
                }
                Ok(Event::InitApply(object)) => {
                    let opened = opening(&object);
                    if opened.is_some() {
                        found.insert(key(&object));
                    }
                    openings.set(key(&object), opened)
                }
                Ok(Event::InitDone) => openings.list_ends::<K>(&std::mem::take(&mut found)),
                Err(_) => BTreeSet::new(),
            });
        let openings = self.clone();
        let lacking = async move {
            absent.cancelled().await;
            openings.list_ends::<K>(&BTreeSet::new())
        };
        stream::select(changes, lacking.into_stream())
            .flat_map(stream::iter)
            .boxed()
    }

    /// Records what an object opens. Returns the namespaces that are concerned if that has changed.
    fn set(&self, key: ObjectKey, opening: Option<Opening>) -> BTreeSet<Concerned> {
        let mut known = self.known.lock();
        let before = match opening.clone() {
            Some(opening) => known.openings.insert(key, opening),
            None => known.openings.remove(&key),
        };
        if before == opening {
            return BTreeSet::new();
        }
        let both = [before, opening];
        let namespaces = both.iter().flatten().flat_map(Opening::namespaces);
        namespaces
            .map(|namespace| Some(namespace.to_owned()))
            .collect()
    }

    /// Ends a list of a kind, in which these objects open a way in.
    fn list_ends<K: Resource<DynamicType = ()>>(
        &self,
        found: &BTreeSet<ObjectKey>,
    ) -> BTreeSet<Concerned> {
        let kind = K::kind(&()).into_owned();
        let mut known = self.known.lock();
        let before = known.openings.len();
        let is_there = |key: &ObjectKey| key.0 != kind || found.contains(key);
        known.openings.retain(|key, _| is_there(key));
        let gone = known.openings.len() < before;
        let first = known.listed.insert(kind) && known.listed.len() == KINDS;
        // What is gone is not known any more, and what is known now is news for every stack.
        (gone || first).then_some(None).into_iter().collect()
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> ObjectKey {
    (
        K::kind(&()).into_owned(),
        object.namespace().unwrap_or_default(),
        object.name_any(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(kind: &str) -> Service {
        let spec: Value = json!({"type": kind, "selector": {"app": "x"}});
        let metadata = json!({"name": "door", "namespace": "links"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn concerned(namespace: &str) -> BTreeSet<Concerned> {
        BTreeSet::from([Some(namespace.to_owned())])
    }

    #[test]
    fn only_what_opens_something_or_ceases_to_concerns_a_stack() {
        let openings = Openings::default();
        for (kind, expected) in [
            ("ClusterIP", BTreeSet::new()),
            ("NodePort", concerned("links")),
            ("NodePort", BTreeSet::new()),
            ("ClusterIP", concerned("links")),
            ("LoadBalancer", concerned("links")),
        ] {
            let service = service(kind);
            let set = openings.set(key(&service), Opening::of_service(&service));
            assert_eq!(set, expected, "{kind}");
        }
        assert_eq!(openings.set(key(&service("")), None), concerned("links"));
    }

    #[test]
    fn nothing_is_known_before_every_kind_is_listed_and_what_a_list_lacks_is_gone() {
        let openings = Openings::default();
        let door = service("NodePort");
        openings.set(key(&door), Opening::of_service(&door));
        let all = BTreeSet::from([None]);
        let found = BTreeSet::from([key(&door)]);
        assert_eq!(openings.list_ends::<Service>(&found), BTreeSet::new());
        openings.list_ends::<Ingress>(&BTreeSet::new());
        assert_eq!(openings.of_namespace("links"), None);
        assert_eq!(openings.list_ends::<HttpRoute>(&BTreeSet::new()), all);
        assert_eq!(openings.of_namespace("links").unwrap().len(), 1);
        assert_eq!(openings.of_namespace("other"), Some(vec![]));
        assert_eq!(openings.list_ends::<Service>(&BTreeSet::new()), all);
        assert_eq!(openings.of_namespace("links"), Some(vec![]));
    }
}
