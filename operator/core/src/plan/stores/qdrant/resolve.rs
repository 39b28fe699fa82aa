//! Resolution of the vector store.

use std::collections::BTreeMap;

use kube_core::ResourceExt;

use super::{STORE, default_resources};
use crate::{
    api::VectorSpec,
    model::{
        facts::{Referenced, StoreFacts},
        metadata::{Component, component_name},
        stack::{Store, Vector},
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{Offered, RequestedStore, Rule, Steps, StoreContext, volume},
    },
};

/// Its rule for other versions than that of its data.
pub(in crate::plan::stores) const RULE: Rule = Rule {
    field: "vector.managed.image",
    noun: "Qdrant",
    steps: Steps::NextMinor,
    instead: ", or delete the StatefulSet and the volume claim: the app builds the collection again",
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
    let default = context.defaults.images.qdrant.as_str();
    let offered = Offered {
        named: managed.pod.image.as_deref(),
        default,
    };
    let claim = component_name(&context.stack.name_any(), Component::Qdrant);
    let chosen = RULE.choose(&facts, &offered, &claim, |_| Some(default))?;
    let kept = volume(managed.storage, managed.storage_class_name).chosen(&chosen);
    let wanted = RequestedStore {
        component: Component::Qdrant,
        pod: pod(&managed.pod, chosen.image, default_resources()),
        volume: Some(kept),
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
