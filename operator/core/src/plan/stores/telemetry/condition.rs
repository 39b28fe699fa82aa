//! The share of the stack's own backend in `TelemetryReady`.

use crate::{
    model::{metadata::Component, stack::Store},
    plan::{
        stores::common,
        verdict::{Verdict, View},
    },
};

/// Checks the volume, then the StatefulSet and its pod.
pub(in crate::plan) fn ready(view: View<'_>, backend: &Store) -> Verdict {
    common::ready(
        view,
        Component::Telemetry,
        backend,
        "data that it does not accept is dropped",
    )
}
