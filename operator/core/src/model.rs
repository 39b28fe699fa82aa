//! The data of a reconcile: the facts that are read, the stack and its child objects that follow from them, and the
//! live state that the status reports. Functions here describe their data and decide nothing.

pub mod access;
pub mod autoscaler;
pub mod backup_run;
pub mod checksum;
pub mod cloud_native_pg;
pub mod credentials;
pub mod defaults;
pub mod desired;
pub mod drift;
pub mod entry_point;
pub mod external;
pub mod facts;
pub mod failure;
pub mod finding;
pub mod gateway_api;
pub mod kinds;
pub mod link_permission;
pub mod live;
pub mod measured;
pub mod metadata;
pub mod ownership;
pub mod pod_patch;
pub mod pod_uses;
pub mod prometheus;
pub mod quantity;
pub mod queue_record;
pub mod queue_state;
pub mod record;
pub mod schedule;
pub mod stack;
pub mod store_state;
pub mod topology;
pub mod version;
pub mod worker_demand;
