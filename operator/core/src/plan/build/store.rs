//! Objects common to all managed stores: a stable address, one pod and, for data on disk, a volume. Each store's own
//! module defines the containers.

mod claim;
mod service;
mod stateful_set;

pub use claim::claim;
pub use service::service;
pub(super) use stateful_set::{data_volume, security_context, stateful_set};

use super::pod;

/// A port of a store, and the peers that connect to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name in the Service and in the pod.
    pub name: &'static str,
    /// Number in both.
    pub number: i32,
    /// True when the stack's own pods that use the store connect.
    pub clients: bool,
    /// True when the operator connects.
    pub operator: bool,
}
