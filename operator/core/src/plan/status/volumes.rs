//! The sizes of the volumes. A growth that was refused or failed can be taken back to them.

use crate::{
    api::VolumesStatus,
    model::{facts::ClaimFact, live::Live, metadata::Component},
};

/// Returns the sizes of the volumes, or what their claims request until they have one; `None` without a claim.
pub(super) fn sizes(live: &Live) -> Option<VolumesStatus> {
    let size = |component| {
        let claim = ClaimFact::of(live.claims.get(&component)?);
        Some(claim.size()?.0.clone())
    };
    let sizes = VolumesStatus {
        database: size(Component::Postgres),
        queue: size(Component::Rabbitmq),
        vector: size(Component::Qdrant),
        backend: size(Component::Telemetry),
        backup: size(Component::Backup),
    };
    (sizes != VolumesStatus::default()).then_some(sizes)
}
