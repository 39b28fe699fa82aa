//! Tests of the operator against an in-memory API server: creation, drift correction, pruning and untouched objects.

mod drift;
mod external;
mod faults;
mod lifecycle;
mod monitoring;
mod observability;
mod profiles;
mod queue;
mod vector;
