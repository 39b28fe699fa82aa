//! What keeps something for a validated stack.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, apimachinery::pkg::api::resource::Quantity};

use super::Pod;
use crate::{
    access::Access,
    api::{ApiKeyRef, CacheMode, Distance},
};

/// The cache of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Where the copies are kept.
    pub store: Store,
    /// Seconds that a copy is kept.
    pub ttl_seconds: i32,
    /// Bytes for copies in each replica of the app.
    pub near_memory: u64,
    /// Bytes for the copies in a server that the operator runs.
    pub max_memory: u64,
    /// What the connection URL leads to.
    pub mode: CacheMode,
    /// Name of the master that the sentinels watch.
    pub sentinel_master: Option<String>,
}

/// The vector store of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// Where the vectors are.
    pub store: Store,
    /// The API key of a store that somebody else runs, if it wants one.
    pub api_key: Option<ApiKeyRef>,
    /// Name of the collection.
    pub collection: String,
    /// Length of every vector.
    pub size: i32,
    /// How near two vectors are.
    pub distance: Distance,
}

/// A server that keeps something for the stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    /// A server that the operator runs.
    Managed(Box<ManagedStore>),
    /// A server that somebody else runs.
    External {
        /// Secret that tells how to connect.
        secret: String,
        /// Its keys that tell it.
        access: Access,
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
    /// Major version of the database server that makes its data, if that can be told.
    pub postgres_major: Option<u32>,
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
