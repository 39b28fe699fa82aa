//! Parts that several child objects share: Deployments, pods with their memory, Services and volumes.

pub(super) mod deployment;
pub(super) mod memory;
pub(super) mod pod;
pub(super) mod service;
pub(super) mod volume;
