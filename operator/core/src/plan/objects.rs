//! Parts that several child objects share: Deployments, pods, Services and volumes.

pub(super) mod deployment;
pub(super) mod pod;
pub(super) mod service;
pub(super) mod volume;
