//! What every store that the operator runs has: a stable address, one pod and, if it keeps data, a volume. What the
//! pod runs is the matter of the store's own file.

mod claim;
mod service;
mod stateful_set;

pub use claim::claim;
pub use service::service;
pub(super) use stateful_set::{data_volume, security_context, stateful_set};

use super::{cache, pod, postgres, qdrant, rabbitmq, telemetry};
use crate::metadata::Component;

/// A port of a store, and who connects to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name in the Service and in the pod.
    pub name: &'static str,
    /// Number in both.
    pub number: i32,
    /// The stack's own pods that use the store connect.
    pub clients: bool,
    /// The operator connects.
    pub operator: bool,
}

/// The ports of a store.
pub fn ports(store: Component) -> &'static [Port] {
    match store {
        Component::Postgres => &postgres::PORTS,
        Component::Cache => &cache::PORTS,
        Component::Rabbitmq => &rabbitmq::PORTS,
        Component::Telemetry => &telemetry::PORTS,
        Component::Qdrant => &qdrant::PORTS,
        Component::App
        | Component::Gateway
        | Component::Worker
        | Component::Otel
        | Component::Stack => &[],
    }
}
