//! What passes between the steps of a reconcile before anything is written.
//!
//! [`ValidatedStack`] is everything a builder may know: it is complete, consistent and free of clients, clocks and
//! random sources.

mod queue;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Affinity, EnvVar, LocalObjectReference, ResourceRequirements, Toleration},
        networking::v1::NetworkPolicyPeer,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use crate::{
    api::{CacheMode, GatewayServiceType, LimitsSpec, Profile},
    metadata::{Component, StackIdentity},
};

pub use queue::{Draining, Queue, Workers};

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
        ];
        on.into_iter().flatten().collect()
    }

    /// Everything that keeps something for the stack.
    pub fn stores(&self) -> Vec<(Component, &Store)> {
        let (cache, queue) = (self.cache.as_ref(), self.queue.as_ref());
        let optional = [
            cache.map(|cache| (Component::Cache, &cache.store)),
            queue.map(|queue| (Component::Rabbitmq, &queue.store)),
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

    /// The queue as a client knows it: nobody publishes to one that is drained.
    pub fn queue_for(&self, client: Component) -> Option<&Queue> {
        self.queue
            .as_ref()
            .filter(|queue| queue.draining.is_none() || client != Component::App)
    }

    /// Changes with every Secret that a client of the stores uses, so that its pods restart.
    pub fn client_checksum(&self, client: Component) -> String {
        let unknown = self.queue_for(client).is_none();
        let stores = self.stores().into_iter();
        let known = stores.filter(|(store, _)| !(unknown && *store == Component::Rabbitmq));
        let checksums: Vec<&str> = known.map(|(_, store)| store.checksum()).collect();
        checksums.join(".")
    }

    /// Metadata of a child that holds data: it outlives the stack unless the data is to be deleted with it.
    pub fn data_metadata(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        if self.delete_data {
            self.identity.child(name, component)
        } else {
            self.identity.retained(name, component)
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

/// The cache of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Where the copies are kept.
    pub store: Store,
    /// Seconds that a copy is kept.
    pub ttl_seconds: i32,
    /// Bytes for the copies in a server that the operator runs.
    pub max_memory: u64,
    /// What the connection URL leads to.
    pub mode: CacheMode,
    /// Name of the master that the sentinels watch.
    pub sentinel_master: Option<String>,
}

/// A server that keeps something for the stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    /// A server that the operator runs.
    Managed(Box<ManagedStore>),
    /// A server that somebody else runs.
    External {
        /// Secret with the connection URL.
        secret: String,
        /// Key within the Secret.
        key: String,
        /// Checksum of what is referred to, for restarting pods when it changes.
        checksum: String,
    },
}

impl Store {
    /// The server that the operator runs, if it runs one.
    pub fn managed(&self) -> Option<&ManagedStore> {
        match self {
            Self::Managed(store) => Some(store),
            Self::External { .. } => None,
        }
    }

    /// Checksum of what a client needs to connect.
    pub fn checksum(&self) -> &str {
        match self {
            Self::Managed(store) => &store.checksum,
            Self::External { checksum, .. } => checksum,
        }
    }
}

/// A server that the operator runs: one pod, a Secret and, unless it is derived data in memory, a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedStore {
    /// Number of pods (0 when stopped, else 1).
    pub replicas: i32,
    /// How the pod runs.
    pub pod: Pod,
    /// Where it keeps its data.
    pub volume: Option<StoreVolume>,
    /// The Secret `<stack>-<component>`.
    pub credentials: Credential,
    /// Checksum of the credentials, for restarting pods when they change.
    pub checksum: String,
}

/// The volume of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreVolume {
    /// Size.
    pub size: Quantity,
    /// Storage class; the cluster's default if absent.
    pub class: Option<String>,
}

/// A Secret that the operator minted, now or earlier. The live Secret is the truth, so its data is written once.
#[derive(Clone, PartialEq)]
pub struct Credential {
    /// Data of the Secret.
    pub data: BTreeMap<String, ByteString>,
    /// Whether the Secret has yet to be created.
    pub minted: bool,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Credential")
            .field("minted", &self.minted)
            .finish_non_exhaustive()
    }
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
