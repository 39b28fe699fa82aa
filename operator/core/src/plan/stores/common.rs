//! Parts common to all stores: the choice between managed and external, the condition, and the objects of a managed
//! one: a stable address, one pod and, for data on disk, a volume. Each store's own module defines the containers.

mod claim;
mod condition;
mod faults;
mod growth;
mod resolve;
mod service;
mod stateful_set;
mod template;
mod version;

pub(in crate::plan) use claim::claim;
pub(in crate::plan) use condition::ready;
pub(super) use condition::verdict;
pub(super) use faults::of_cluster;
pub(super) use resolve::{RequestedStore, check_started, usable, volume};
pub(in crate::plan) use resolve::{StoreContext, credential};
pub(in crate::plan) use service::service;
pub(in crate::plan) use stateful_set::security_context;
pub(in crate::plan) use stateful_set::stateful_set;
pub(super) use stateful_set::{container_ports, data_volume, with_template};
pub(super) use template::{Template, merged};
pub(super) use version::{Offered, Rule, Steps};
