//! Access to the API server: clients, the cache of the cluster and the reports of its watches.

pub mod beside_stacks;
pub mod children;
pub mod client;
pub mod deadline;
pub mod definition;
pub mod drills;
pub mod dry_run;
pub mod entry_points;
pub mod events;
pub mod hosts;
pub mod inventory;
pub mod nesting;
pub mod patches;
pub mod refusal;
pub mod request_spans;
pub mod watch_report;
