//! The operator's cache of the cluster: the objects of each kind of child.
//!
//! The kinds, and the form in which each is kept, stand in the table at the end of this file. `apply` compares the
//! objects with those that are rendered. A cluster may lack the optional kinds: the operator waits only
//! until it knows that, and their watch starts once the cluster has them. A kind on which no decision depends does not
//! hold up the start either, in case that the operator may not list it.

mod cache_policy;
pub(super) mod served;
mod watch;

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt, future,
    stream::{BoxStream, SelectAll},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, StatefulSet},
        autoscaling::v2::HorizontalPodAutoscaler,
        batch::v1::CronJob,
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
        networking::v1::{Ingress, NetworkPolicy},
        policy::v1::PodDisruptionBudget,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        reflector::{ObjectRef, Store, store::WriterDropped},
        watcher,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use shortener_operator_core::model::{
    cloud_native_pg::Cluster,
    gateway_api::{Gateway, HttpRoute, ReferenceGrant},
    kinds::Presence,
    pooler::Pooler,
    prometheus::{PrometheusRule, ServiceMonitor},
    rabbitmq_cluster::RabbitmqCluster,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::kubernetes::watch_report::Reports;
use cache_policy::{
    AllAutoscalers, CachePolicy, MetadataOfAll, RenderedObject, SharedGateways, WholeObject,
    WithoutSpec,
};
use served::events;
use watch::{keep, labelled};

/// Annotation of `kubectl apply` with the whole object, which nothing reads. That of a Secret contains its data.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Number of objects of one page of a list. A page is held in memory as the API server sends it, with managed fields that are
/// larger than the rest, and every kind is listed at the same time.
pub const PAGE: u32 = 50;
/// Seconds after which a watch is reopened, so that a dead connection is noticed.
pub const WATCH_TIMEOUT: u32 = 60;
/// Longest time for which the operator waits, at its start, for kinds on which no decision depends or that the cluster may
/// lack.
const SPARED_LIMIT: Duration = Duration::from_secs(5);

/// An object that can be watched, kept and compared as JSON.
pub trait Cached:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Cached for K where
    K: Resource<DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A kind of child object.
pub trait Child: Cached + Resource<Scope = NamespaceResourceScope> {
    /// The cached form of the kind: the whole object or its metadata.
    type Kept: Cached + Resource<Scope = NamespaceResourceScope>;

    /// Returns the objects of this kind.
    fn store(inventory: &Inventory) -> &Store<Self::Kept>;
}

/// A change that a watch has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An object was created, changed or deleted.
    Object {
        kind: String,
        namespace: String,
        name: String,
        /// The stack that the object belongs to; `None` for an object of others, for example a user's Secret.
        stack: Option<String>,
        /// True when the object was deleted.
        deleted: bool,
    },
    /// A kind was listed again after an interrupted watch, or an optional kind was listed for the first time.
    /// Deletions may have been missed, so every stack is due for a reconcile.
    Relisted,
}

impl Inventory {
    /// Returns true when the cluster has the kinds of CloudNativePG, and they have been listed.
    pub fn serves_clusters(&self) -> bool {
        is_listed(&self.clusters) && is_listed(&self.poolers)
    }

    /// Returns true when the cluster has the kind of RabbitMQ's operator, and it has been listed.
    pub fn serves_brokers(&self) -> bool {
        is_listed(&self.rabbitmq_clusters)
    }

    /// Returns true when the cluster has the kinds of the Gateway API that stacks use, and they have been listed.
    pub fn serves_routes(&self) -> bool {
        is_listed(&self.reference_grants) && is_listed(&self.http_routes)
    }

    /// Returns true when the cluster has the kinds of the Prometheus operator, and they have been listed.
    pub fn serves_monitoring(&self) -> bool {
        is_listed(&self.service_monitors) && is_listed(&self.prometheus_rules)
    }

    /// Returns true when the inventory has every object of a kind in a namespace.
    pub fn covers<K: Child>(&self, namespace: &str) -> bool {
        let own = self.namespace.as_deref();
        own.is_none_or(|own| own == namespace) && is_listed(K::store(self))
    }

    /// Returns true when the watch shows a child.
    pub fn contains<K: Child>(&self, namespace: &str, name: &str) -> bool {
        self.kept::<K>(namespace, name).is_some()
    }

    /// Returns the cached form of a child.
    pub fn kept<K: Child>(&self, namespace: &str, name: &str) -> Option<Arc<K::Kept>> {
        K::store(self).get(&ObjectRef::new(name).within(namespace))
    }

    /// Returns the objects of a kind.
    pub fn objects<K: Child>(&self) -> Store<K::Kept> {
        K::store(self).clone()
    }

    /// Returns every cached object of a kind in a namespace, whatever it belongs to.
    pub fn of_namespace<K: Child>(&self, namespace: &str) -> Vec<Arc<K::Kept>> {
        self.where_in::<K>(namespace, |_| true)
    }

    /// Returns every child of a kind that carries the stack's instance label and the operator's managed-by label.
    pub fn of_stack<K: Child>(&self, namespace: &str, stack: &str) -> Vec<Arc<K::Kept>> {
        self.where_in::<K>(namespace, |kept| labelled(kept) == Some(stack))
    }

    /// Returns the objects of a namespace that match, by their names.
    fn where_in<K: Child>(
        &self,
        namespace: &str,
        matches: impl Fn(&K::Kept) -> bool,
    ) -> Vec<Arc<K::Kept>> {
        let is_in = |kept: &K::Kept| kept.meta().namespace.as_deref() == Some(namespace);
        let mut found = K::store(self).state_filter(|kept| is_in(kept) && matches(kept));
        found.sort_by_cached_key(|kept| kept.name_any());
        found
    }
}

/// Returns true when the objects of a kind have been listed.
pub fn is_listed<K: Resource<DynamicType = ()> + Clone + 'static>(store: &Store<K>) -> bool {
    matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
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

/// Returns the selection of the objects of a kind.
fn selection<F: CachePolicy<K>, K>() -> watcher::Config {
    let config = watcher::Config::default()
        .timeout(WATCH_TIMEOUT)
        .page_size(F::PAGE);
    let config = match F::selector() {
        Some(labels) => config.labels(&labels),
        None => config,
    };
    match F::FIELDS {
        Some(fields) => config.fields(fields),
        None => config,
    }
}

/// The cached form of a kind.
type Kept<F, K> = <F as CachePolicy<K>>::Kept;

/// Makes the inventory from a table. The columns of a kind are its field, its type, the form in which it is kept, and its
/// presence in clusters.
macro_rules! inventory {
    ($($field:ident: $kind:ty, $policy:ident, $presence:expr;)*) => {
        /// The objects of one scope: a namespace, or the whole cluster.
        pub struct Inventory {
            /// The namespace; `None` for the whole cluster.
            namespace: Option<String>,
            /// The kinds that are optional or on which no decision depends: cancelled once they are listed or cannot be.
            spared: Vec<CancellationToken>,
            $($field: Store<Kept<$policy, $kind>>,)*
        }

        $(impl Child for $kind {
            type Kept = Kept<$policy, $kind>;

            fn store(inventory: &Inventory) -> &Store<Self::Kept> {
                &inventory.$field
            }
        })*

        impl Inventory {
            /// Watches every kind in a namespace, or in the whole cluster. The inventory fills only while the stream
            /// is polled.
            pub fn watch(client: &Client, reports: Reports<'_>) -> (Self, BoxStream<'static, Change>) {
                let namespace = reports.namespace;
                let mut changes = SelectAll::new();
                let mut spared = Vec::new();
                $(
                    let needed = $presence == Presence::Always && <$policy as CachePolicy<$kind>>::NEEDED;
                    let known = CancellationToken::new();
                    let ($field, stream) = keep::<$policy, $kind>(
                        events(client, api(client, namespace), selection::<$policy, $kind>(), $presence, known.clone()),
                        $presence,
                        reports.of::<$kind>(needed),
                        known.clone(),
                    );
                    changes.push(stream);
                    spared.extend((!needed).then_some(known));
                )*
                let namespace = namespace.map(str::to_owned);
                (Self { namespace, spared, $($field),* }, changes.boxed())
            }

            /// Waits until every kind on which decisions depend has been listed once, and for a while until every other
            /// kind has been listed, was refused, or turned out to be lacking. Otherwise stacks would miss optional kinds
            /// for a moment after each start.
            ///
            /// # Errors
            /// A watch has ended permanently.
            pub async fn ready(&self) -> Result<(), WriterDropped> {
                $(if $presence == Presence::Always && <$policy as CachePolicy<$kind>>::NEEDED {
                    self.$field.wait_until_ready().await?;
                })*
                let known = future::join_all(self.spared.iter().map(CancellationToken::cancelled));
                if timeout(SPARED_LIMIT, known).await.is_err() {
                    tracing::warn!("not every kind could be listed within 5 s; starting without the rest");
                }
                Ok(())
            }
        }
    };
}

inventory! {
    network_policies: NetworkPolicy, RenderedObject, Presence::Always;
    service_accounts: ServiceAccount, RenderedObject, Presence::Always;
    secrets: Secret, MetadataOfAll, Presence::Always;
    config_maps: ConfigMap, RenderedObject, Presence::Always;
    claims: PersistentVolumeClaim, WholeObject, Presence::Always;
    services: Service, WholeObject, Presence::Always;
    stateful_sets: StatefulSet, WholeObject, Presence::Always;
    deployments: Deployment, WholeObject, Presence::Always;
    cron_jobs: CronJob, WholeObject, Presence::Always;
    autoscalers: HorizontalPodAutoscaler, AllAutoscalers, Presence::Always;
    disruption_budgets: PodDisruptionBudget, RenderedObject, Presence::Always;
    ingresses: Ingress, WholeObject, Presence::Always;
    clusters: Cluster, WholeObject, Presence::Optional;
    poolers: Pooler, WholeObject, Presence::Optional;
    rabbitmq_clusters: RabbitmqCluster, WholeObject, Presence::Optional;
    reference_grants: ReferenceGrant, RenderedObject, Presence::Optional;
    http_routes: HttpRoute, WholeObject, Presence::Optional;
    service_monitors: ServiceMonitor, RenderedObject, Presence::Optional;
    prometheus_rules: PrometheusRule, RenderedObject, Presence::Optional;
    // Other controllers create the pods, so they are only watched.
    pods: Pod, WithoutSpec, Presence::Always;
    // Others own the Gateways, which stacks are attached to.
    gateways: Gateway, SharedGateways, Presence::Optional;
}

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

    /// Returns what the chart grants.
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
        granted
    }

    #[test]
    fn the_chart_grants_what_each_kind_needs_and_nothing_more() {
        let all = |verbs: &[&[&str]]| verbs.concat().into_iter().map(str::to_owned).collect();
        let read = ["get"].as_slice();
        let watched = ["list", "watch"].as_slice();
        let written = ["create", "patch"].as_slice();
        let mut needed = Verbs::new();
        for kind in kinds() {
            let verbs = match kind.deletion {
                Deletion::Pruned => all(&[read, watched, written, &["delete"]]),
                // The operator never deletes data and credentials.
                Deletion::Retained => all(&[read, watched, written]),
            };
            needed.insert((kind.resource.group, kind.resource.plural), verbs);
        }
        let others = [
            // A stack is read before its children are deleted. Only its status is written.
            ("shortener.dev", "shortenerstacks", all(&[read, watched])),
            (
                "shortener.dev",
                "shortenerstacks/status",
                all(&[read, &["patch"]]),
            ),
            (
                "shortener.dev",
                "shortenerstacks/finalizers",
                all(&[&["update"]]),
            ),
            // A ShortLink gets a finalizer and a status. The watch tells the rest.
            ("shortener.dev", "shortlinks", all(&[watched, &["patch"]])),
            ("shortener.dev", "shortlinks/status", all(&[&["patch"]])),
            // The status of a drill is written. The watch tells the rest.
            ("shortener.dev", "shortenerdrills", all(&[watched])),
            (
                "shortener.dev",
                "shortenerdrills/status",
                all(&[&["patch"]]),
            ),
            // Created by others. Of pods, the operator writes an annotation.
            ("", "pods", all(&[watched, &["patch"]])),
            (GROUP, "gateways", all(&[watched])),
            // Events about stacks are written, and those about missing pods are listed.
            ("events.k8s.io", "events", all(&[&["list"], written])),
        ];
        for (group, plural, verbs) in others {
            needed.insert((group.to_owned(), plural.to_owned()), verbs);
        }
        assert_eq!(granted(), needed);
    }
}
