//! Access to the API server: clients, the cache of the cluster and the reports of its watches, and records of what was
//! applied.

pub mod children;
pub mod client;
pub mod deadline;
pub mod digest;
pub mod events;
pub mod hosts;
pub mod index;
pub mod inventory;
pub mod ledger;
pub mod missing_pods;
pub mod news;
pub mod openings;
pub mod refusal;
pub mod request_spans;
pub mod watch_report;
