//! The sizes of the volumes, from which a growth that was refused can be taken back.

use crate::{
    api::VolumesStatus,
    model::{live::Live, metadata::Component},
};

/// Returns the sizes that the live claims request; `None` without a claim.
pub(super) fn sizes(live: &Live) -> Option<VolumesStatus> {
    let size = |component| {
        let claim = live.claims.get(&component)?;
        let resources = claim.spec.as_ref()?.resources.as_ref()?;
        let size = resources.requests.as_ref()?.get("storage")?;
        Some(size.0.clone())
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
