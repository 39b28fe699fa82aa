//! The operator's cache of the cluster: one reflector per kind of child object.
//!
//! The kinds, and the form in which each is kept, stand in the table of `operator/core/src/model/kinds.rs`. Their
//! watched state decides which writes `apply` may skip. A cluster may lack the optional kinds: the operator waits only
//! until it knows that, and their watch starts once the cluster has them.

mod form;
mod news;
pub(super) mod served;

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::{
    FutureExt, Stream, StreamExt, future,
    stream::{BoxStream, SelectAll},
};
use k8s_openapi::{
    NamespaceResourceScope, api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::WriterDropped},
        watcher::{self, Event},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use shortener_operator_core::{
    child_kinds,
    model::{
        desired::{Children, GatewayObjects, MonitoringObjects},
        gateway_api::Gateway,
        kinds::Presence,
        metadata::{FIELD_MANAGER, INSTANCE_LABEL, MANAGED_BY_LABEL},
    },
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use form::{Form, Metadata, MetadataOfAll, OfOthers, Whole, WithoutSpec};
use news::News;
use served::{Known, events, known};

/// Seconds after which a watch is reopened, so that a dead connection is noticed.
pub(super) const WATCH_TIMEOUT: u32 = 60;
/// Longest time for which the operator waits, at its start, to know if the cluster has the optional kinds. A kind that may
/// not be listed would hold it up for ever.
const OPTIONAL_LIMIT: Duration = Duration::from_secs(5);

/// A kind of child object.
pub trait Child:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The cached form of the kind: the whole object or its metadata.
    type Kept: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static;

    /// Returns the reflector of this kind.
    fn store(inventory: &Inventory) -> &Store<Self::Kept>;
}

/// A group of the table of child kinds.
pub trait Group {
    /// Returns true when the cluster has every kind of the group and the watches have listed them.
    fn is_served(inventory: &Inventory) -> bool;
}

/// A change that a watch has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An object was created, changed or deleted.
    Object {
        /// Kind of the object.
        kind: String,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// Value of the instance label, which names the stack; `None` without that label, for example on a user's
        /// Secret.
        stack: Option<String>,
        /// True when the object was deleted.
        deleted: bool,
    },
    /// A kind was listed again after an interrupted watch, or an optional kind was listed for the first time.
    /// Deletions may have been missed, so every stack is due for a reconcile.
    Relisted,
}

impl Inventory {
    /// Returns true when the cluster has every kind of a group and the watches have listed them.
    pub fn serves<G: Group>(&self) -> bool {
        G::is_served(self)
    }

    /// Returns true when the inventory has every object of a kind in a namespace.
    pub fn covers<K: Child>(&self, namespace: &str) -> bool {
        let own = self.namespace.as_deref();
        own.is_none_or(|own| own == namespace) && has(K::store(self))
    }

    /// Returns the live metadata of a child, as last seen by the watch.
    pub fn metadata<K: Child>(&self, namespace: &str, name: &str) -> Option<ObjectMeta> {
        self.kept::<K>(namespace, name)
            .map(|kept| kept.meta().clone())
    }

    /// Returns the cached form of a child.
    pub fn kept<K: Child>(&self, namespace: &str, name: &str) -> Option<Arc<K::Kept>> {
        K::store(self).get(&ObjectRef::new(name).within(namespace))
    }

    /// Returns every child of a kind that carries the stack's instance label and the operator's managed-by label.
    pub fn of_stack<K: Child>(&self, namespace: &str, stack: &str) -> Vec<Arc<K::Kept>> {
        K::store(self).state_filter(|kept| {
            kept.namespace().as_deref() == Some(namespace)
                && kept
                    .labels()
                    .get(INSTANCE_LABEL)
                    .is_some_and(|instance| instance == stack)
                && kept
                    .labels()
                    .get(MANAGED_BY_LABEL)
                    .is_some_and(|manager| manager == FIELD_MANAGER)
        })
    }
}

/// Feeds a watch into a store. Returns the store and the stream of its changes.
fn keep<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    trim: fn(&mut K),
    essence: fn(&K) -> Option<String>,
    presence: Presence,
) -> (Store<K>, BoxStream<'static, Change>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    // Every stack is reconciled after the first lists anyway, so these are no relists. An optional kind may be listed
    // later, so its first list counts as one.
    let mut listed = presence == Presence::Optional;
    let mut news = News::new(essence);
    let changes = events
        .default_backoff()
        .modify(move |kept| {
            kept.managed_fields_mut().retain(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
            trim(kept);
        })
        .reflect(writer)
        .filter_map(move |event| {
            future::ready(match event {
                Ok(Event::Apply(kept) | Event::InitApply(kept)) => {
                    news.see(&kept).then(|| change(&kept, false))
                }
                Ok(Event::Delete(kept)) => {
                    news.forget(&kept);
                    Some(change(&kept, true))
                }
                Ok(Event::Init) => None,
                Ok(Event::InitDone) => std::mem::replace(&mut listed, true).then_some(Change::Relisted),
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "a watch was interrupted; reopening it");
                    None
                }
            })
        })
        .boxed();
    (reader, changes)
}

fn change<K: Resource<DynamicType = ()>>(kept: &K, deleted: bool) -> Change {
    Change::Object {
        kind: K::kind(&()).into_owned(),
        namespace: kept.namespace().unwrap_or_default(),
        name: kept.name_any(),
        stack: kept.labels().get(INSTANCE_LABEL).cloned(),
        deleted,
    }
}

/// Returns true when the cluster has a kind and the watch has listed it.
fn has<K: Resource<DynamicType = ()> + Clone + 'static>(store: &Store<K>) -> bool {
    let listed = store.wait_until_ready().now_or_never();
    matches!(listed, Some(Ok(())))
}

fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    client: &Client,
    namespace: Option<&str>,
) -> Api<K> {
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The cached form of a kind.
type Kept<F, K> = <F as Form<K>>::Kept;

macro_rules! inventory {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $form:ident, $deletion:ident, $write:ident;)*
        }
    )*) => {
        inventory! {
            $($($field: $kind, $form, Presence::$presence;)*)*
            // Other controllers create the pods, so they are only watched.
            pods: Pod, WithoutSpec, Presence::Always;
            // Others own the Gateways, which stacks are attached to.
            gateways: Gateway, OfOthers, Presence::Optional;
        }

        $(impl Group for $group {
            fn is_served(inventory: &Inventory) -> bool {
                [$(has(&inventory.$field)),*].into_iter().all(|has| has)
            }
        })*
    };
    ($($field:ident: $kind:ty, $form:ident, $presence:expr;)*) => {
        /// The reflectors of one scope: a namespace, or the whole cluster.
        pub struct Inventory {
            /// The namespace; `None` for the whole cluster.
            namespace: Option<String>,
            optional: Vec<Known>,
            $($field: Store<Kept<$form, $kind>>,)*
        }

        $(impl Child for $kind {
            type Kept = Kept<$form, $kind>;

            fn store(inventory: &Inventory) -> &Store<Self::Kept> {
                &inventory.$field
            }
        })*

        impl Inventory {
            /// Watches every kind in a namespace, or in the whole cluster. The inventory fills only while the stream
            /// is polled.
            pub fn watch(client: &Client, namespace: Option<&str>) -> (Self, BoxStream<'static, Change>) {
                let base = watcher::Config::default().timeout(WATCH_TIMEOUT);
                let (mut changes, mut optional) = (SelectAll::new(), Vec::new());
                $(
                    let config = match <$form as Form<$kind>>::selector() {
                        Some(selector) => base.clone().labels(&selector),
                        None => base.clone(),
                    };
                    let absent = CancellationToken::new();
                    let ($field, stream) = keep::<Kept<$form, $kind>>(
                        events(client, api(client, namespace), config, $presence, absent.clone()),
                        <$form as Form<$kind>>::trim,
                        <$form as Form<$kind>>::essence,
                        $presence,
                    );
                    changes.push(stream);
                    if $presence == Presence::Optional {
                        optional.push(known($field.clone(), absent));
                    }
                )*
                let namespace = namespace.map(str::to_owned);
                (Self { namespace, optional, $($field),* }, changes.boxed())
            }

            /// Waits until every kind that is part of Kubernetes has been listed once, and for a while until it is known
            /// if the cluster has the optional kinds. Otherwise stacks would miss them for a moment after each start.
            ///
            /// # Errors
            /// A watch has ended permanently.
            pub async fn ready(&self) -> Result<(), WriterDropped> {
                $(if $presence == Presence::Always {
                    self.$field.wait_until_ready().await?;
                })*
                let known = future::join_all(self.optional.iter().cloned());
                if timeout(OPTIONAL_LIMIT, known).await.is_err() {
                    tracing::warn!("the optional kinds of the cluster could not be listed within 5 s; starting without them");
                }
                Ok(())
            }
        }
    };
}

child_kinds!(inventory);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use shortener_operator_core::model::{
        gateway_api::GROUP,
        kinds::{Deletion, kinds},
    };

    /// The chart's rules for a watched namespace.
    const CHART: &str = include_str!("../../../charts/shortener-operator/templates/_helpers.tpl");

    /// The verbs on each group and plural.
    type Verbs = BTreeMap<(String, String), Vec<String>>;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Rule {
        api_groups: Vec<String>,
        resources: Vec<String>,
        verbs: Vec<String>,
    }

    /// Returns what the chart grants, except on stacks and Events, which are no children.
    fn granted() -> Verbs {
        let (_, rest) = CHART
            .split_once("{{- define \"shortener-operator.rules\" -}}")
            .unwrap();
        let (rules, _) = rest.split_once("{{- end }}").unwrap();
        let rules: Vec<Rule> = serde_yaml::from_str(rules).unwrap();
        let mut granted = Verbs::new();
        for rule in rules {
            for group in &rule.api_groups {
                for plural in &rule.resources {
                    let key = (group.clone(), plural.clone());
                    granted.entry(key).or_default().extend(rule.verbs.clone());
                }
            }
        }
        granted.retain(|(group, _), _| group != "shortener.dev" && group != "events.k8s.io");
        granted
    }

    #[test]
    fn the_chart_grants_what_each_kind_needs_and_nothing_more() {
        let all = |verbs: &[&[&str]]| verbs.concat().into_iter().map(str::to_owned).collect();
        let watched = ["get", "list", "watch"].as_slice();
        let written = ["create", "patch"].as_slice();
        let mut needed = Verbs::new();
        for kind in kinds() {
            let verbs = match kind.deletion {
                Deletion::Pruned => all(&[watched, written, &["delete"]]),
                // The operator never deletes data and credentials.
                Deletion::Retained => all(&[watched, written]),
            };
            needed.insert((kind.resource.group, kind.resource.plural), verbs);
        }
        // Created by others.
        for (group, plural) in [("", "pods"), (GROUP, "gateways")] {
            needed.insert((group.to_owned(), plural.to_owned()), all(&[watched]));
        }
        assert_eq!(granted(), needed);
    }
}
