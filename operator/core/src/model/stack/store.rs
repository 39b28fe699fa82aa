//! The stores of a validated stack.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use k8s_openapi::{ByteString, apimachinery::pkg::api::resource::Quantity};

use super::Pod;
use crate::{
    api::{ApiKeyRef, CacheMode, DatabasePooler, DatabaseTlsMode, Distance},
    model::{
        access::Access,
        external::{TlsFile, TlsFileKind},
        facts::ClaimFact,
        quantity,
        version::Version,
    },
};

/// The cache of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// The cache server.
    pub store: Store,
    /// Lifetime of a copy in seconds.
    pub ttl_seconds: i32,
    /// Bytes for copies in a server that the operator runs.
    pub max_memory: u64,
    /// Topology of the servers in the connection URL.
    pub mode: CacheMode,
    /// Name of the master that the sentinels monitor.
    pub sentinel_master: Option<String>,
}

/// The vector store of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// The Qdrant server.
    pub store: Store,
    /// The API key of an external store, if it requires one.
    pub api_key: Option<ApiKeyRef>,
    /// Name of the collection.
    pub collection: String,
    /// Number of dimensions of every vector.
    pub size: i32,
    /// Distance metric of the vectors.
    pub distance: Distance,
}

/// Servers of a store that another operator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreCluster {
    /// Number of servers.
    pub members: i32,
    /// Size of the volume of each.
    pub storage: Quantity,
    /// Storage class of the volumes; the default of the cluster if absent.
    pub storage_class: Option<String>,
    /// The user's changes of the spec that the other operator takes.
    pub template: Map<String, Value>,
}

/// The pooler before a database that CloudNativePG runs.
#[derive(Clone, Debug, PartialEq)]
pub struct StorePooler {
    /// Number of its pods.
    pub instances: i32,
}

/// The members of a broker that RabbitMQ's operator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerCluster {
    pub servers: StoreCluster,
    /// Number of members that run now: none while they are not needed.
    pub running: i32,
    /// Image of the members, unless the template names one.
    pub image: String,
}

/// A server that holds data of the stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    /// A server that the operator runs.
    Managed(Box<ManagedStore>),
    /// A server that the operator does not run.
    External {
        /// Secret with the address and the credentials.
        secret: String,
        /// Keys of the Secret that contain them.
        access: Access,
        /// TLS to the server; `None` if its address decides.
        tls: Option<StoreTls>,
        /// Pooler before a database; `None` for other stores.
        pooler: Option<DatabasePooler>,
        /// Checksum of the values of these keys and of the certificates. A change restarts the pods of the clients.
        checksum: String,
    },
}

impl Store {
    /// Returns the server if the operator runs it.
    pub fn managed(&self) -> Option<&ManagedStore> {
        match self {
            Self::Managed(store) => Some(store),
            Self::External { .. } => None,
        }
    }

    /// Returns the TLS settings of its clients; `None` if the operator runs the server, or its address decides.
    pub fn tls(&self) -> Option<&StoreTls> {
        match self {
            Self::Managed(_) => None,
            Self::External { tls, .. } => tls.as_ref(),
        }
    }

    /// Returns the checksum of everything that a client needs to connect.
    pub fn checksum(&self) -> &str {
        match self {
            Self::Managed(store) => &store.checksum,
            Self::External { checksum, .. } => checksum,
        }
    }
}

/// TLS to an external server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreTls {
    /// Field of the store in the spec, which names the folder of the files.
    pub field: &'static str,
    /// Extent of the verification of a database's certificate; clients of the other stores always verify everything.
    pub mode: Option<DatabaseTlsMode>,
    /// The files that clients need.
    pub files: Vec<TlsFile>,
}

impl StoreTls {
    /// Returns the folder of the files in the clients' containers.
    pub fn folder(&self) -> String {
        format!("/etc/shortener/tls/{}", self.field)
    }

    /// Returns the path of a file in the clients' containers.
    pub fn path(&self, kind: TlsFileKind) -> String {
        format!("{}/{}", self.folder(), kind.file())
    }
}

/// A server that the operator runs: one pod, a Secret and, unless it holds only derived data in memory, a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedStore {
    /// Number of pods (0 when stopped, else 1).
    pub replicas: i32,
    pub pod: Pod,
    pub volume: Option<StoreVolume>,
    /// The Secret `<stack>-<component>`.
    pub credentials: Credential,
    /// Checksum of the credentials. A change restarts the pods.
    pub checksum: String,
}

/// The volume of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreVolume {
    /// Size in the spec.
    pub size: Quantity,
    /// Storage class in the spec; the cluster's default if absent.
    pub class: Option<String>,
    /// Its claim, if that exists.
    pub existing: Option<ClaimFact>,
    /// Version of the data, if it is known.
    pub version: Option<Version>,
    /// Reason for which the server keeps its image although another one is the default.
    pub kept_image: Option<String>,
}

impl StoreVolume {
    /// Returns a volume that does not exist yet.
    pub const fn new(size: Quantity, class: Option<String>) -> Self {
        Self {
            size,
            class,
            existing: None,
            version: None,
            kept_image: None,
        }
    }

    /// Returns the size that its claim requests. A volume never shrinks, and the API server takes back a growth that failed
    /// only to more than the size of the volume. Otherwise an existing claim keeps what it requests.
    pub fn request(&self) -> &Quantity {
        let existing = self.existing.as_ref();
        let live = existing.and_then(|claim| Some((claim.request.as_ref()?, claim.size()?)));
        match live {
            Some((request, size))
                if !quantity::is_larger(&self.size.0, &size.0)
                    && !quantity::is_same(&self.size.0, &request.0) =>
            {
                request
            }
            _ => &self.size,
        }
    }

    /// Returns the bytes on which its data can count: the size that its claim requests, or that of its volume if it is
    /// smaller. A class that rounds sizes up gives more.
    pub fn usable_bytes(&self) -> Option<u64> {
        let existing = self.existing.as_ref();
        let capacity = existing.and_then(|claim| claim.capacity.as_ref());
        let request = quantity::bytes(&self.request().0)?;
        let real = capacity.and_then(|capacity| quantity::bytes(&capacity.0));
        Some(real.map_or(request, |real| real.min(request)))
    }

    /// Returns the storage class of its claim. Kubernetes allows no change of it.
    pub fn claimed_class(&self) -> Option<&String> {
        let existing = self.existing.as_ref();
        existing.map_or(&self.class, |claim| &claim.class).as_ref()
    }

    /// Returns the access modes of its claim. Kubernetes allows no change of them.
    pub fn access_modes(&self) -> Vec<String> {
        let existing = self.existing.as_ref().map(|claim| &claim.access_modes);
        match existing.filter(|modes| !modes.is_empty()) {
            Some(modes) => modes.clone(),
            None => vec!["ReadWriteOnce".to_owned()],
        }
    }
}

/// A Secret that the operator generated, now or earlier. The live Secret is authoritative, so its data is written
/// once.
#[derive(Clone, PartialEq)]
pub struct Credential {
    /// Data of the Secret.
    pub data: BTreeMap<String, ByteString>,
    /// True when the Secret has yet to be created.
    pub is_new: bool,
}

crate::debug_only!(Credential: is_new);
