//! Resolution of the vector store.

use std::collections::BTreeMap;

use super::{STORE, default_resources};
use crate::{
    api::VectorSpec,
    model::{
        facts::{Referenced, StoreFacts},
        metadata::Component,
        stack::{Store, Vector},
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{RequestedStore, StoreContext, volume},
    },
};

/// Resolves the vector store. `key` is the API key of an external one.
pub(in crate::plan) fn resolve(
    context: &StoreContext<'_>,
    facts: StoreFacts,
    key: Option<Referenced>,
) -> Result<Vector, ValidateError> {
    let VectorSpec {
        collection,
        size,
        distance,
        managed,
        external: _,
    } = context.stack.spec.vector.clone();
    let managed = *managed.unwrap_or_default();
    let wanted = RequestedStore {
        component: Component::Qdrant,
        pod: pod(
            &managed.pod,
            &context.defaults.images.qdrant,
            default_resources(),
        ),
        volume: Some(volume(managed.storage, managed.storage_class_name)),
    };
    let mut store = context.store(wanted, facts)?;
    let mut api_key = None;
    if let (
        Store::External { checksum, .. },
        Some(Referenced {
            reference, value, ..
        }),
    ) = (&mut store, key)
    {
        let value = value.ok_or_else(|| ValidateError::SecretNotFound {
            field: STORE.field,
            secret: reference.name.clone(),
            key: reference.key.clone(),
        })?;
        let entries = BTreeMap::from([(reference.key.clone(), value)]);
        checksum.push('.');
        checksum.push_str(&context.checksum(&entries));
        api_key = Some(reference);
    }
    Ok(Vector {
        store,
        api_key,
        collection,
        size,
        distance,
    })
}
