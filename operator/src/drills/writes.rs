//! Writes of the statuses of drills, and the Events on their stacks.

use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::events::{Event, EventType},
};
use serde_json::json;
use shortener_operator_core::{
    api::{ShortenerDrill, ShortenerDrillStatus},
    model::metadata::FIELD_MANAGER,
};

use super::Shared;
use crate::kubernetes::refusal::{self, NAMESPACE_TERMINATING};

/// Writes the status of this very drill. Returns the drill as it is then.
///
/// # Errors
/// The API server does not answer or refuses the write, or the drill is gone.
pub(super) async fn write(
    shared: &Shared,
    drill: &ShortenerDrill,
    status: &ShortenerDrillStatus,
) -> kube::Result<ShortenerDrill> {
    let (name, namespace) = (drill.name_any(), drill.namespace().unwrap_or_default());
    let patch = json!({
        "apiVersion": ShortenerDrill::api_version(&()),
        "kind": ShortenerDrill::kind(&()),
        "metadata": {"name": name, "uid": drill.metadata.uid},
        "status": status,
    });
    let api: Api<ShortenerDrill> = Api::namespaced(shared.context.client.clone(), &namespace);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_status(&name, &params, &Patch::Apply(patch)).await
}

/// Publishes an Event on the stack of a drill. It is best effort.
pub(super) async fn publish(
    shared: &Shared,
    stack: &impl Resource<DynamicType = ()>,
    reason: &str,
    note: String,
) {
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Drill".to_owned(),
        secondary: None,
    };
    let recorder = &shared.context.recorder;
    if let Err(error) = recorder.publish(&event, &stack.object_ref(&())).await
        && refusal::reason(&error, "") != NAMESPACE_TERMINATING
    {
        tracing::warn!(%error, stack = %stack.name_any(), "an Event could not be published");
    }
}
