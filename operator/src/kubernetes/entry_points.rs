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
use shortener_operator_core::model::{
    entry_point::EntryPoint, gateway_api::HttpRoute, kinds::Presence,
};
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
    entry_points: HashMap<ObjectKey, EntryPoint>,
    /// Kinds that were listed, or that the cluster lacks.
    listed: BTreeSet<String>,
}

/// The entry points of one scope.
#[derive(Default)]
pub struct EntryPoints {
    known: Mutex<Listed>,
}

/// Number of the watched kinds.
const KINDS: usize = 3;

impl EntryPoints {
    /// Watches the kinds in a namespace, or in the whole cluster. The entry points fill only while the stream is polled.
    pub fn watch(
        client: &Client,
        reports: Reports<'_>,
    ) -> (Arc<Self>, BoxStream<'static, Concerned>) {
        let (always, optional) = (Presence::Always, Presence::Optional);
        let entry_points = Arc::new(Self::default());
        let services =
            entry_points.follow::<Service>(client, reports, always, EntryPoint::of_service);
        let ingresses =
            entry_points.follow::<Ingress>(client, reports, always, EntryPoint::of_ingress);
        let routes =
            entry_points.follow::<HttpRoute>(client, reports, optional, EntryPoint::of_http_route);
        let concerned = stream::select_all([services, ingresses, routes]);
        (entry_points, concerned.boxed())
    }

    /// Returns the entry points that lead into a namespace; `None` until all are listed.
    pub fn of_namespace(&self, namespace: &str) -> Option<Vec<EntryPoint>> {
        let known = self.known.lock();
        let leads = |entry_point: &&EntryPoint| entry_point.namespaces().contains(namespace);
        let mut entry_points: Vec<EntryPoint> =
            known.entry_points.values().filter(leads).cloned().collect();
        // The first one is named in the status, which must not depend on the order of a map.
        entry_points.sort_by(|one, other| (&one.kind, &one.name).cmp(&(&other.kind, &other.name)));
        (known.listed.len() == KINDS).then_some(entry_points)
    }

    fn follow<K>(
        self: &Arc<Self>,
        client: &Client,
        reports: Reports<'_>,
        presence: Presence,
        entry_point: fn(&K) -> Option<EntryPoint>,
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
        let entry_points = self.clone();
        let (mut report, mut found) = (reports.of::<K>(false), BTreeSet::new());
        let changes = events(client, api, config, presence, absent.clone())
            .default_backoff()
            .inspect(move |event| report.see(event))
            .map(move |event| match event {
                Ok(Event::Apply(object)) => entry_points.set(key(&object), entry_point(&object)),
                Ok(Event::Delete(object)) => entry_points.set(key(&object), None),
                Ok(Event::Init) => {
                    found.clear();
                    BTreeSet::new()
                }
                Ok(Event::InitApply(object)) => {
                    let opened = entry_point(&object);
                    if opened.is_some() {
                        found.insert(key(&object));
                    }
                    entry_points.set(key(&object), opened)
                }
                Ok(Event::InitDone) => entry_points.list_ends::<K>(&std::mem::take(&mut found)),
                Err(_) => BTreeSet::new(),
            });
        let entry_points = self.clone();
        let lacking = async move {
            absent.cancelled().await;
            entry_points.list_ends::<K>(&BTreeSet::new())
        };
        stream::select(changes, lacking.into_stream())
            .flat_map(stream::iter)
            .boxed()
    }

    /// Records what an object opens. Returns the namespaces that are concerned if that has changed.
    fn set(&self, key: ObjectKey, entry_point: Option<EntryPoint>) -> BTreeSet<Concerned> {
        let mut known = self.known.lock();
        let before = match entry_point.clone() {
            Some(entry_point) => known.entry_points.insert(key, entry_point),
            None => known.entry_points.remove(&key),
        };
        if before == entry_point {
            return BTreeSet::new();
        }
        let both = [before, entry_point];
        let namespaces = both.iter().flatten().flat_map(EntryPoint::namespaces);
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
        let before = known.entry_points.len();
        let is_there = |key: &ObjectKey| key.0 != kind || found.contains(key);
        known.entry_points.retain(|key, _| is_there(key));
        let gone = known.entry_points.len() < before;
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
        let entry_points = EntryPoints::default();
        for (kind, expected) in [
            ("ClusterIP", BTreeSet::new()),
            ("NodePort", concerned("links")),
            ("NodePort", BTreeSet::new()),
            ("ClusterIP", concerned("links")),
            ("LoadBalancer", concerned("links")),
        ] {
            let service = service(kind);
            let set = entry_points.set(key(&service), EntryPoint::of_service(&service));
            assert_eq!(set, expected, "{kind}");
        }
        assert_eq!(
            entry_points.set(key(&service("")), None),
            concerned("links")
        );
    }

    #[test]
    fn nothing_is_known_before_every_kind_is_listed_and_what_a_list_lacks_is_gone() {
        let entry_points = EntryPoints::default();
        let door = service("NodePort");
        entry_points.set(key(&door), EntryPoint::of_service(&door));
        let all = BTreeSet::from([None]);
        let found = BTreeSet::from([key(&door)]);
        assert_eq!(entry_points.list_ends::<Service>(&found), BTreeSet::new());
        entry_points.list_ends::<Ingress>(&BTreeSet::new());
        assert_eq!(entry_points.of_namespace("links"), None);
        assert_eq!(entry_points.list_ends::<HttpRoute>(&BTreeSet::new()), all);
        assert_eq!(entry_points.of_namespace("links").unwrap().len(), 1);
        assert_eq!(entry_points.of_namespace("other"), Some(vec![]));
        assert_eq!(entry_points.list_ends::<Service>(&BTreeSet::new()), all);
        assert_eq!(entry_points.of_namespace("links"), Some(vec![]));
    }
}
