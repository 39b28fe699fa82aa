//! The cluster: namespaces, stacks and their objects, the operator, and waiting for them. It uses neither `clients`
//! nor `fixtures`.

mod access;
mod checkout;
mod children;
mod curve;
mod dump;
mod forward;
mod history;
mod joined;
mod kubectl;
mod likeness;
mod memory;
mod merge;
mod meter;
mod node;
mod operator;
mod outages;
mod page;
mod pods;
mod program;
mod release;
pub(crate) mod server;
mod settings;
mod space;
mod stack;
mod usage;
mod wait;
mod witness;

pub use access::is_allowed;
pub use checkout::checkout;
pub use children::{Child, child_kinds, children_of, monitoring_kinds};
pub use curve::Curve;
pub use forward::Forward;
pub use history::{History, is_one_wave, is_part_of};
pub use kubectl::{kubectl, kubectl_with_input, psql, run};
pub use likeness::{alike, await_alike};
pub use memory::MemoryMeter;
pub use merge::merge;
pub use meter::{Meter, Reading};
pub use node::{Freezer, node_address, node_name};
pub use operator::{OPERATOR_NAMESPACE, Operator};
pub use page::{commands, paste};
pub use pods::{
    await_replaced, is_ready, log_lines, output_of, pods_of, restricted_container, restricted_pod,
    run_script, settled, uids_of,
};
pub use program::{OperatorProcess, OperatorProgram};
pub use release::Release;
pub use settings::{Settings, cluster_client};
pub use space::Space;
pub(crate) use space::{acquire_slot, delete_namespace};
pub use stack::{Condition, Stack, condition_of, conditions_of, stack_resource};
pub use usage::{Usage, UsageMeter};
pub use wait::{PATIENCE, await_condition, await_within, holds_for};
pub use witness::Witness;
