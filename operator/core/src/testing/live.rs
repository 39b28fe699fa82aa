//! Live states for tests.

use crate::model::{
    live::{Live, Workload},
    metadata::Component,
};

/// Returns a workload whose `wanted` pods all exist in their newest version, and of which `ready` are ready.
pub fn workload(wanted: i32, ready: i32) -> Workload {
    Workload {
        wanted,
        existing: wanted,
        ready,
        updated: wanted,
        observed: true,
        failure: None,
        overdue: false,
    }
}

/// Returns a live state that has the workload of one component and nothing else.
pub fn live(component: Component, workload: Workload) -> Live {
    Live {
        workloads: [(component, workload)].into(),
        ..Live::default()
    }
}
