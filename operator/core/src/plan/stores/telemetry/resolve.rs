//! Resolution of the stack's own backend.

use super::default_resources;
use crate::{
    api::{DEFAULT_BACKEND_STORAGE, ManagedBackend},
    model::{facts::StoreFacts, metadata::Component, stack::Store},
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{RequestedStore, StoreContext, volume},
    },
};

/// Resolves the backend.
pub(in crate::plan) fn resolve(
    context: &StoreContext<'_>,
    facts: StoreFacts,
) -> Result<Store, ValidateError> {
    let spec = &context.stack.spec.observability.backend;
    let ManagedBackend {
        storage,
        storage_class_name,
        pod: settings,
    } = spec.managed.as_deref().cloned().unwrap_or_default();
    let storage = storage.or_else(|| Some(DEFAULT_BACKEND_STORAGE.to_owned()));
    let wanted = RequestedStore {
        component: Component::Telemetry,
        pod: pod(
            &settings,
            &context.defaults.images.telemetry,
            default_resources(),
        ),
        volume: Some(volume(storage, storage_class_name)),
    };
    context.store(wanted, facts)
}
