//! Leader election, and the fence that keeps a replica without the lease from writing.

pub mod elector;
pub mod fence;
pub mod write_deadline;
