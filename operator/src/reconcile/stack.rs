//! What passes between the steps of a reconcile before anything is written.
//!
//! [`ValidatedStack`] is everything a builder may know: it is complete, consistent and free of clients, clocks and
//! random sources.

mod monitoring;
mod observability;
mod queue;
mod store;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{Affinity, EnvVar, LocalObjectReference, ResourceRequirements, Toleration},
        networking::v1::NetworkPolicyPeer,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    api::{GatewayServiceType, LimitsSpec, Profile},
    metadata::{Component, StackIdentity},
};

pub use monitoring::Monitoring;
pub use observability::{Backend, Collector, ExternalBackend, Headers, ManagedCollector};
pub use queue::{Draining, Queue, Workers};
pub use store::{Cache, Credential, ManagedStore, Store, StoreVolume, Vector};

/// A stack whose spec and surroundings have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedStack {
    /// Name, namespace and owner reference.
    pub identity: StackIdentity,
    /// Base of the short links, without a trailing slash.
    pub public_url: String,
    /// Every component is scaled to zero.
    pub stopped: bool,
    /// Volumes and credentials are deleted with the stack.
    pub delete_data: bool,
    /// Secrets for pulling images.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// The app.
    pub app: App,
    /// The public entry.
    pub gateway: Gateway,
    /// Where the links are kept.
    pub database: Store,
    /// Where copies of links are kept.
    pub cache: Option<Cache>,
    /// Where jobs wait, and who takes them.
    pub queue: Option<Queue>,
    /// Where traces and logs go.
    pub collector: Option<Collector>,
    /// What a Prometheus operator and a Grafana of the cluster find, if anything.
    pub monitoring: Option<Monitoring>,
    /// The cluster has the kinds of the Prometheus operator.
    pub monitored: bool,
    /// Where documents are found by their vectors.
    pub vector: Option<Vector>,
    /// The stack's own key for checksums; see [`crate::reconcile::checksum`].
    pub checksum_key: Credential,
    /// Who may scrape the internal port.
    pub scrape_from: Vec<NetworkPolicyPeer>,
    /// The operator's own pods.
    pub operator: NetworkPolicyPeer,
}

impl ValidatedStack {
    /// The optional parts that are on.
    pub fn profiles(&self) -> Vec<Profile> {
        let on = [
            self.cache.as_ref().map(|_| Profile::Caching),
            // While it is drained, its objects are there.
            self.queue.as_ref().map(|_| Profile::Queue),
            self.collector.as_ref().map(|_| Profile::Observability),
            self.vector.as_ref().map(|_| Profile::Vector),
        ];
        on.into_iter().flatten().collect()
    }

    /// Everything that keeps something for the stack.
    pub fn stores(&self) -> Vec<(Component, &Store)> {
        let (cache, queue) = (self.cache.as_ref(), self.queue.as_ref());
        let vector = self.vector.as_ref();
        let optional = [
            cache.map(|cache| (Component::Cache, &cache.store)),
            queue.map(|queue| (Component::Rabbitmq, &queue.store)),
            self.own_backend()
                .map(|store| (Component::Telemetry, store)),
            vector.map(|vector| (Component::Qdrant, &vector.store)),
        ];
        std::iter::once((Component::Postgres, &self.database))
            .chain(optional.into_iter().flatten())
            .collect()
    }

    /// The stores that the operator runs.
    pub fn managed_stores(&self) -> Vec<(Component, &ManagedStore)> {
        let stores = self.stores().into_iter();
        stores
            .filter_map(|(component, store)| Some((component, store.managed()?)))
            .collect()
    }

    /// The cache as a client knows it: workers have no use for it.
    pub fn cache_for(&self, client: Component) -> Option<&Cache> {
        self.cache.as_ref().filter(|_| client == Component::App)
    }

    /// The queue as a client knows it: nobody publishes to one that is drained.
    pub fn queue_for(&self, client: Component) -> Option<&Queue> {
        self.queue
            .as_ref()
            .filter(|queue| queue.draining.is_none() || client != Component::App)
    }

    /// The collector that the operator runs.
    pub fn own_collector(&self) -> Option<&ManagedCollector> {
        self.collector.as_ref()?.managed()
    }

    /// The backend of traces, logs and metrics that the operator runs.
    pub fn own_backend(&self) -> Option<&Store> {
        self.own_collector()?.own_backend()
    }

    /// Whether anything reads the metrics and shows the dashboard: those of the cluster, or the stack's own backend.
    pub fn is_watched(&self) -> bool {
        self.monitoring.is_some() || self.own_backend().is_some()
    }

    /// Changes with every Secret that a client of the stores uses, so that its pods restart.
    pub fn client_checksum(&self, client: Component) -> String {
        let stores = self.stores().into_iter();
        let known = stores.filter(|(store, _)| match store {
            Component::Cache => self.cache_for(client).is_some(),
            Component::Rabbitmq => self.queue_for(client).is_some(),
            // They know the collector only.
            Component::Telemetry => false,
            _ => true,
        });
        let checksums: Vec<&str> = known.map(|(_, store)| store.checksum()).collect();
        checksums.join(".")
    }

    /// Metadata of a child that holds data: it outlives the stack unless the data is to be deleted with it.
    pub fn data_metadata(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        let owner = self.delete_data.then(|| vec![self.identity.owner.clone()]);
        ObjectMeta {
            owner_references: owner,
            ..self.identity.retained(name, component)
        }
    }
}

/// The app of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    /// How the pods run.
    pub pod: Pod,
    /// Rate limits.
    pub limits: LimitsSpec,
    /// Proxies before the app that append to `X-Forwarded-For`.
    pub trusted_hops: i32,
    /// Whether port 3000 serves `/metrics`.
    pub expose_metrics: bool,
}

/// The gateway of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    /// How the pods run.
    pub pod: Pod,
    /// Who may connect; empty means everybody.
    pub allow_from: Vec<NetworkPolicyPeer>,
    /// Who routes.
    pub routing: Routing,
}

/// Who routes public requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// An ingress-nginx controller, by Ingress objects.
    IngressNginx {
        /// Host of the rules; empty for every host.
        host: String,
        /// IngressClass.
        class: String,
        /// Secret with the certificate of the host.
        tls_secret: Option<String>,
        /// An older stack (`namespace/name`) that holds the same class and host: no Ingress is made.
        conflict: Option<String>,
    },
    /// The stack's own nginx.
    Standalone {
        /// Host that is answered to; empty for every host.
        host: String,
        /// Type of the Service.
        service_type: GatewayServiceType,
        /// Cluster address of the app's Service; none until that exists, and then no nginx is made.
        upstream: Option<String>,
    },
}

/// How the pods of one component run, with every default resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Container image.
    pub image: String,
    /// Requests and limits of the main container.
    pub resources: ResourceRequirements,
    /// Node labels that a pod's node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Scheduling constraints.
    pub affinity: Option<Affinity>,
    /// Priority class.
    pub priority_class: Option<String>,
    /// Environment variables that the user adds to the main container.
    pub env: Vec<EnvVar>,
}
