//! What observes a validated stack.

use super::{Pod, Store};
use crate::api::OtlpProtocol;

/// Where the traces and logs of a stack go.
#[derive(Clone, Debug, PartialEq)]
pub enum Collector {
    /// A collector that the operator runs.
    Managed(Box<ManagedCollector>),
    /// A collector that somebody else runs.
    External {
        /// Address that takes OTLP by gRPC.
        endpoint: String,
    },
}

/// A collector that the operator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedCollector {
    /// Number of pods (0 when stopped, else 1).
    pub replicas: i32,
    /// How the pod runs.
    pub pod: Pod,
    /// Where it sends what it takes.
    pub backend: Backend,
}

/// Where a collector sends what it takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Backend {
    /// The stack's own backend.
    Managed(Store),
    /// A backend that somebody else runs.
    External(ExternalBackend),
    /// What comes is dropped.
    Nowhere,
}

/// A backend that somebody else runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalBackend {
    /// How it takes OTLP.
    pub protocol: OtlpProtocol,
    /// Address for traces, with its path.
    pub traces: String,
    /// Address for logs, with its path.
    pub logs: String,
    /// Headers that it wants.
    pub headers: Option<Headers>,
}

/// The headers of requests to a backend. Their values stay in their Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Headers {
    /// The Secret.
    pub secret: String,
    /// Its keys, which are the names of the headers, sorted.
    pub names: Vec<String>,
    /// Checksum of all of it, for restarting the collector when it changes.
    pub checksum: String,
}

impl Collector {
    /// The collector that the operator runs, if it runs one.
    pub fn managed(&self) -> Option<&ManagedCollector> {
        match self {
            Self::Managed(collector) => Some(collector),
            Self::External { .. } => None,
        }
    }
}

impl ManagedCollector {
    /// The stack's own backend, if it has one.
    pub fn own_backend(&self) -> Option<&Store> {
        match &self.backend {
            Backend::Managed(store) => Some(store),
            Backend::External(_) | Backend::Nowhere => None,
        }
    }
}
