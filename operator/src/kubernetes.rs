//! Access to the API server: clients, the cache of the cluster, and records of what was applied.

pub mod client;
pub mod deadline;
pub mod drift;
pub mod events;
pub mod inventory;
pub mod ledger;
pub mod refusal;
pub mod request_spans;
