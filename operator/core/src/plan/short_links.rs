//! The next step for a ShortLink and its status, computed from the state of its stack and the answer of the app.

mod decision;
mod status;
mod wire;

use std::{net::SocketAddr, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube_core::Resource;

use super::{build::app::MANAGEMENT_PORT, stores::external::app_at};
use crate::{
    api::{SHORT_LINK_FINALIZER, ShortLink},
    model::metadata::StackKey,
};

pub use decision::{StackState, Step, step};
pub use status::{LinkVerdict, answered, left, ready, status};
pub use wire::{
    APPLY, Applied, AppliedLink, LinkToApply, LinkToRelease, MAX_BODY, MAX_LINKS, RELEASE,
    Released, batch, read,
};

/// Returns the stack that a ShortLink names.
pub fn target(link: &ShortLink) -> StackKey {
    let (namespace, name) = reference(link);
    (namespace.to_owned(), name.to_owned())
}

/// Returns true if a ShortLink names this stack.
pub fn names(link: &ShortLink, (namespace, name): &StackKey) -> bool {
    reference(link) == (namespace, name)
}

/// Returns namespace and name of the stack that a ShortLink names.
fn reference(link: &ShortLink) -> (&str, &str) {
    let stack = &link.spec.stack_ref;
    let own = link.metadata.namespace.as_deref();
    let namespace = stack.namespace.as_deref().or(own);
    (namespace.unwrap_or_default(), &stack.name)
}

/// Returns the address at which the links of a stack are managed.
pub fn manager(pods: &[Arc<Pod>]) -> Option<SocketAddr> {
    app_at(pods, MANAGEMENT_PORT)
}

/// Returns true when an object has the finalizer of a ShortLink whose link the stack has.
pub fn is_held(object: &impl Resource) -> bool {
    let finalizers = object.meta().finalizers.iter().flatten();
    finalizers
        .into_iter()
        .any(|held| held == SHORT_LINK_FINALIZER)
}

#[cfg(test)]
mod tests;
