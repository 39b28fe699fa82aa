//! Writes of the statuses of drills.

use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use shortener_operator_core::{
    api::{ShortenerDrill, ShortenerDrillStatus},
    model::metadata::FIELD_MANAGER,
};

use super::Shared;

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
