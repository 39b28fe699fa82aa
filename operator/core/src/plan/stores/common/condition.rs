//! The checks common to all stores.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::external::{self, Settings};
use crate::{
    model::{metadata::Component, stack::Store},
    plan::verdict::{Verdict, View, workload},
};

/// Checks the volume of a managed store, then its StatefulSet and its pod. The verdict on an external store is what the
/// stack's programs tell; `without` describes the effect on requests while that store is unavailable.
pub(in crate::plan::stores) fn ready(
    view: View<'_>,
    component: Component,
    store: &Store,
    without: &str,
) -> Verdict {
    if let Store::External { secret, tls, .. } = store {
        let tls = tls.as_ref();
        return external::ready(view, component, &Settings { secret, tls }, without);
    }
    let (name, claim) = (component.as_str(), view.live.claims.get(&component));
    let pods = workload::ready(view, component);
    if claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some()) {
        return Verdict::fault(
            "VolumeTerminating",
            format!(
                "the volume claim of the {name} was deleted and disappears when the pod stops: make a backup now"
            ),
        )
        .serving(pods.serves);
    }
    if !view.stack.stopped && claim.is_some_and(|claim| lost(claim)) {
        return Verdict::fault(
            "VolumeLost",
            format!(
                "the storage behind the volume claim of the {name} is lost: restore a backup into a new stack"
            ),
        )
        .serving(pods.serves);
    }
    pods
}

fn lost(claim: &PersistentVolumeClaim) -> bool {
    claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Lost")
}
