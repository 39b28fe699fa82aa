//! The operator's cache of the cluster: one reflector per kind of child object.
//!
//! The table at the end of this file lists the kinds that are watched. Their watched state decides which writes
//! `apply` may skip. The kinds that are pruned are listed in `reconcile/apply/prune.rs`, because volume claims and
//! Secrets must not be pruned. Kinds whose status or content is needed are kept whole, the others as metadata only. A
//! cluster may lack the optional kinds: nothing waits for them, and their watch starts once the cluster has them.

mod served;

use std::{fmt::Debug, sync::Arc};

use futures::{
    FutureExt, Stream, StreamExt, future,
    stream::{BoxStream, SelectAll},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
        networking::v1::{Ingress, NetworkPolicy},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::WriterDropped},
        watcher::{self, Event},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use shortener_operator_core::model::{
    metadata::{FIELD_MANAGER, INSTANCE_LABEL, MANAGED_BY_LABEL, managed_by_selector},
    prometheus::{PrometheusRule, ServiceMonitor},
};

use served::{Presence, events};

/// Seconds after which a watch is reopened, so that a dead connection is noticed.
const WATCH_TIMEOUT: u32 = 60;

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
    /// Returns the live metadata of a child, as last seen by the watch.
    pub fn metadata<K: Child>(&self, namespace: &str, name: &str) -> Option<ObjectMeta> {
        self.kept::<K>(namespace, name)
            .map(|kept| kept.meta().clone())
    }

    /// Returns the cached form of a child.
    pub fn kept<K: Child>(&self, namespace: &str, name: &str) -> Option<Arc<K::Kept>> {
        K::store(self).get(&ObjectRef::new(name).within(namespace))
    }

    /// Returns true when the cluster has a kind and the watch has listed it.
    pub fn has<K: Child>(&self) -> bool {
        let listed = K::store(self).wait_until_ready().now_or_never();
        matches!(listed, Some(Ok(())))
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
    presence: Presence,
) -> (Store<K>, BoxStream<'static, Change>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    // Every stack is reconciled after the first lists anyway, so these are no relists. An optional kind may be listed
    // later, so its first list counts as one.
    let mut listed = presence == Presence::Optional;
    let changes = events
        .default_backoff()
        .modify(move |kept| {
            kept.managed_fields_mut().retain(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
            trim(kept);
        })
        .reflect(writer)
        .filter_map(move |event| {
            future::ready(match event {
                Ok(Event::Apply(kept) | Event::InitApply(kept)) => Some(change(&kept, false)),
                Ok(Event::Delete(kept)) => Some(change(&kept, true)),
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

fn whole<K>(_: &mut K) {}

/// Removes the spec of a pod, because only its metadata, conditions and container states are read.
fn without_spec(pod: &mut Pod) {
    pod.spec = None;
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

macro_rules! kinds {
    ($($field:ident: $kind:ty => $kept:ty, $selector:expr, $trim:expr, $presence:expr;)*) => {
        /// The reflectors of one scope: a namespace, or the whole cluster.
        pub struct Inventory {
            $($field: Store<$kept>,)*
        }

        $(impl Child for $kind {
            type Kept = $kept;

            fn store(inventory: &Inventory) -> &Store<Self::Kept> {
                &inventory.$field
            }
        })*

        impl Inventory {
            /// Watches every kind in a namespace, or in the whole cluster. The inventory fills only while the stream
            /// is polled.
            pub fn watch(client: &Client, namespace: Option<&str>) -> (Self, BoxStream<'static, Change>) {
                let base = watcher::Config::default().timeout(WATCH_TIMEOUT);
                let mut changes = SelectAll::new();
                $(
                    let config: Option<String> = $selector;
                    let config = match config {
                        Some(selector) => base.clone().labels(&selector),
                        None => base.clone(),
                    };
                    let ($field, stream) = keep::<$kept>(events(client, api(client, namespace), config, $presence), $trim, $presence);
                    changes.push(stream);
                )*
                (Self { $($field),* }, changes.boxed())
            }

            /// Waits until every kind that is part of Kubernetes has been listed once.
            ///
            /// # Errors
            /// A watch has ended permanently.
            pub async fn ready(&self) -> Result<(), WriterDropped> {
                $(if $presence == Presence::Always {
                    self.$field.wait_until_ready().await?;
                })*
                Ok(())
            }

            /// Returns the group and the plural of every kind.
            #[cfg(test)]
            fn kinds() -> Vec<(String, String)> {
                vec![$((<$kind as Resource>::group(&()).into_owned(), <$kind as Resource>::plural(&()).into_owned())),*]
            }
        }
    };
}

kinds! {
    service_accounts: ServiceAccount => PartialObjectMeta<ServiceAccount>, Some(managed_by_selector()), whole, Presence::Always;
    // Without a selector, because a change of a user's Secret restarts the pods that use it.
    secrets: Secret => PartialObjectMeta<Secret>, None, whole, Presence::Always;
    config_maps: ConfigMap => PartialObjectMeta<ConfigMap>, Some(managed_by_selector()), whole, Presence::Always;
    claims: PersistentVolumeClaim => PersistentVolumeClaim, Some(managed_by_selector()), whole, Presence::Always;
    network_policies: NetworkPolicy => PartialObjectMeta<NetworkPolicy>, Some(managed_by_selector()), whole, Presence::Always;
    // Cached whole, because the gateway's configuration contains the cluster IP of the app's Service.
    services: Service => Service, Some(managed_by_selector()), whole, Presence::Always;
    stateful_sets: StatefulSet => StatefulSet, Some(managed_by_selector()), whole, Presence::Always;
    deployments: Deployment => Deployment, Some(managed_by_selector()), whole, Presence::Always;
    disruption_budgets: PodDisruptionBudget => PartialObjectMeta<PodDisruptionBudget>, Some(managed_by_selector()), whole, Presence::Always;
    ingresses: Ingress => Ingress, Some(managed_by_selector()), whole, Presence::Always;
    service_monitors: ServiceMonitor => PartialObjectMeta<ServiceMonitor>, Some(managed_by_selector()), whole, Presence::Optional;
    prometheus_rules: PrometheusRule => PartialObjectMeta<PrometheusRule>, Some(managed_by_selector()), whole, Presence::Optional;
    pods: Pod => Pod, Some(managed_by_selector()), without_spec, Presence::Always;
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// The chart's rules for a watched namespace.
    const CHART: &str = include_str!("../../../charts/shortener-operator/templates/_helpers.tpl");

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Rule {
        api_groups: Vec<String>,
        resources: Vec<String>,
        verbs: Vec<String>,
    }

    fn verbs(group: &str, plural: &str) -> Vec<String> {
        let (_, rest) = CHART
            .split_once("{{- define \"shortener-operator.rules\" -}}")
            .unwrap();
        let (rules, _) = rest.split_once("{{- end }}").unwrap();
        let rules: Vec<Rule> = serde_yaml::from_str(rules).unwrap();
        let names = |list: &[String], wanted: &str| list.iter().any(|found| found == wanted);
        let grants = |rule: &Rule| names(&rule.api_groups, group) && names(&rule.resources, plural);
        let granted = rules.into_iter().filter(grants);
        granted.flat_map(|rule| rule.verbs).collect()
    }

    #[test]
    fn the_chart_grants_what_each_kind_needs_and_nothing_more() {
        let watched = ["get", "list", "watch"].as_slice();
        let applied = [watched, &["create", "patch"]].concat();
        for (group, plural) in Inventory::kinds() {
            let needed = match plural.as_str() {
                // Created by other controllers.
                "pods" => watched.to_vec(),
                // The operator never deletes data and credentials.
                "persistentvolumeclaims" | "secrets" => applied.clone(),
                _ => [&applied[..], &["delete"]].concat(),
            };
            assert_eq!(verbs(&group, &plural), needed, "{group}/{plural}");
        }
    }
}
