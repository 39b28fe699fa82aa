//! The operator against an API server in memory: what it creates, leaves alone, puts back and removes.

mod drift;
mod external;
mod faults;
mod lifecycle;
mod monitoring;
mod observability;
mod profiles;
mod queue;
mod vector;
