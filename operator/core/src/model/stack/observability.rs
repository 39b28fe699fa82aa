//! The observability settings of a validated stack.

use super::{Pod, Store};
use crate::api::OtlpProtocol;

/// The collector of a stack's traces and logs.
#[derive(Clone, Debug, PartialEq)]
pub enum Collector {
    /// A collector that the operator runs.
    Managed(Box<ResolvedCollector>),
    /// A collector that the operator does not run.
    External {
        /// Address that receives OTLP over gRPC.
        endpoint: String,
    },
    /// A collector that the operator runs, and that stays as it is. Its address depends on no setting, so its clients know
    /// it all the same.
    Held {
        /// True when its backend is the stack's own.
        own_backend: bool,
    },
}

/// A collector that the operator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedCollector {
    /// Number of pods (0 when stopped, else 1).
    pub replicas: i32,
    pub pod: Pod,
    /// Backend that receives the collector's data.
    pub backend: Backend,
}

/// The backend of a collector.
#[derive(Clone, Debug, PartialEq)]
pub enum Backend {
    /// The stack's own backend.
    Managed(Store),
    /// A backend that the operator does not run.
    External(ResolvedBackend),
    /// No backend: the collector drops all data.
    Nowhere,
}

/// A backend that the operator does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedBackend {
    /// OTLP transport of the backend.
    pub protocol: OtlpProtocol,
    /// Address for traces, with its path.
    pub traces: String,
    /// Address for logs, with its path.
    pub logs: String,
    /// Headers of requests to the backend.
    pub headers: Option<Headers>,
}

/// The headers of requests to a backend. Their values stay in their Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Headers {
    /// Name of the Secret.
    pub secret: String,
    /// Keys of the Secret, which are the names of the headers, sorted.
    pub names: Vec<String>,
    /// Checksum of the Secret's data. A change restarts the collector.
    pub checksum: String,
}

impl Collector {
    /// Returns the collector if the operator runs it.
    pub fn managed(&self) -> Option<&ResolvedCollector> {
        match self {
            Self::Managed(collector) => Some(collector),
            Self::External { .. } | Self::Held { .. } => None,
        }
    }
}

impl ResolvedCollector {
    /// Returns the stack's own backend, if it has one.
    pub fn own_backend(&self) -> Option<&Store> {
        match &self.backend {
            Backend::Managed(store) => Some(store),
            Backend::External(_) | Backend::Nowhere => None,
        }
    }
}
