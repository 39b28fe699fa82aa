//! Access to the API server: clients, the cache of the cluster, and records of what was applied.

pub mod children;
pub mod client;
pub mod deadline;
pub mod inventory;
pub mod ledger;
pub mod refusal;
