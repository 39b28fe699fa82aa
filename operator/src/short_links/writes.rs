//! Writes to ShortLinks, and the Event about links that were left.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::events::{Event, EventType},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::{SHORT_LINK_FINALIZER, ShortLink},
    plan::short_links::{LinkVerdict, is_held, left, status},
};

use super::Shared;
use crate::kubernetes::{
    events::{event, publish},
    patches::applying,
};

/// Gives a ShortLink whose link was claimed its finalizer.
///
/// # Errors
/// The API server does not answer, or the ShortLink is being deleted or gone.
pub(super) async fn hold(shared: &Shared, link: &ShortLink) -> kube::Result<()> {
    if is_held(link) {
        return Ok(());
    }
    let patch = patch(link, json!({"finalizers": [SHORT_LINK_FINALIZER]}), None);
    let _permit = shared.permits.acquire().await;
    let held = api(shared, link)
        .patch_metadata(&link.name_any(), &applying(), &Patch::Apply(patch))
        .await;
    held.map(|_| ())
}

/// Removes the finalizer of a ShortLink.
///
/// # Errors
/// The API server does not answer, or the ShortLink has changed meanwhile.
pub(super) async fn let_go(shared: &Shared, link: &ShortLink) -> kube::Result<()> {
    let mut finalizers = link.finalizers().to_vec();
    finalizers.retain(|held| held != SHORT_LINK_FINALIZER);
    let metadata = &link.metadata;
    let patch = json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
    }});
    let _permit = shared.permits.acquire().await;
    let freed = api(shared, link)
        .patch_metadata(
            &link.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await;
    freed.map(|_| ())
}

/// Writes the status of a ShortLink if it differs.
///
/// # Errors
/// The API server does not answer or refuses the write.
pub(super) async fn tell(
    shared: &Shared,
    link: &ShortLink,
    verdict: &LinkVerdict,
) -> kube::Result<()> {
    let now = Time(jiff::Timestamp::now());
    let Some(status) = status(link, verdict, &now) else {
        return Ok(());
    };
    let patch = patch(link, json!({}), Some(json!(status)));
    let _permit = shared.permits.acquire().await;
    let told = api(shared, link)
        .patch_status(&link.name_any(), &applying(), &Patch::Apply(patch))
        .await;
    told.map(|_| ())
}

/// Publishes an Event about links that stay although their ShortLinks are gone. It is best effort.
pub(super) async fn tell_left(
    shared: &Shared,
    stack: &impl Resource<DynamicType = ()>,
    links: &[Arc<ShortLink>],
) {
    let codes: Vec<&str> = links.iter().map(|link| link.spec.code.as_str()).collect();
    let event = Event {
        // Otherwise, it counts as a repeat of the Event about earlier links.
        secondary: links.first().map(|link| link.object_ref(&())),
        ..event(EventType::Warning, "Release", "ShortLinkLeft", left(&codes))
    };
    publish(&shared.context.recorder, stack, event).await;
}

fn api(shared: &Shared, link: &ShortLink) -> Api<ShortLink> {
    let namespace = link.namespace().unwrap_or_default();
    Api::namespaced(shared.context.client.clone(), &namespace)
}

/// Returns the patch of this very object: one that was created again under its name is left alone.
fn patch(link: &ShortLink, mut metadata: Value, status: Option<Value>) -> Value {
    metadata["name"] = link.name_any().into();
    metadata["uid"] = json!(link.metadata.uid);
    let mut patch = json!({
        "apiVersion": ShortLink::api_version(&()),
        "kind": ShortLink::kind(&()),
        "metadata": metadata,
    });
    if let Some(status) = status {
        patch["status"] = status;
    }
    patch
}
