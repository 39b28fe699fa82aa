//! Validation common to all stores: managed or external, the Secret and the volume.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, apimachinery::pkg::api::resource::Quantity};
use kube_core::ResourceExt;

use super::ValidateError;
use crate::{
    api::{DEFAULT_STORAGE, ShortenerStack},
    model::{
        access,
        checksum::{CHECKSUM_KEY, checksum},
        credentials,
        defaults::Defaults,
        facts::{CredentialState, ExternalAccess, StoreFacts},
        metadata::{Component, component_name},
        stack::{Credential, ManagedStore, Pod, Store, StoreVolume},
    },
};

/// The inputs for resolving a store.
pub(super) struct Surroundings<'a> {
    /// The resource.
    pub(super) stack: &'a ShortenerStack,
    /// The stack's own key for checksums.
    pub(super) checksum_key: &'a Credential,
    /// Settings of the operator.
    pub(super) defaults: &'a Defaults,
}

/// A store that is on.
pub(super) struct Wanted {
    /// Component of the store.
    pub(super) component: Component,
    /// Field of the store in the spec.
    pub(super) field: &'static str,
    /// Settings of its pod, if the operator runs it.
    pub(super) pod: Pod,
    /// The volume of that pod.
    pub(super) volume: Option<StoreVolume>,
}

impl Surroundings<'_> {
    /// Resolves a store.
    pub(super) fn store(&self, wanted: Wanted, facts: StoreFacts) -> Result<Store, ValidateError> {
        match facts {
            StoreFacts::External {
                reference,
                found: Some(ExternalAccess { access, entries }),
            } => Ok(Store::External {
                checksum: self.checksum(&entries),
                secret: reference.name,
                access,
            }),
            StoreFacts::External {
                reference,
                found: None,
            } => Err(ValidateError::SecretNotFound {
                field: wanted.field,
                key: access::wanted(&reference),
                secret: reference.name,
            }),
            StoreFacts::Managed { credentials, .. } => {
                let stack = self.stack.name_any();
                let name = component_name(&stack, wanted.component);
                let keys = credentials::keys(wanted.component);
                let credentials = credential(credentials, &name, &stack, keys)?;
                Ok(Store::Managed(Box::new(ManagedStore {
                    replicas: i32::from(!self.stack.spec.stopped),
                    pod: wanted.pod,
                    volume: wanted.volume,
                    checksum: self.checksum(&credentials.data),
                    credentials,
                })))
            }
        }
    }

    /// Returns the keyed hash of entries of Secrets.
    pub(super) fn checksum(&self, data: &BTreeMap<String, ByteString>) -> String {
        let key = self.checksum_key.data.get(CHECKSUM_KEY);
        checksum(key.map(|key| key.0.as_slice()).unwrap_or_default(), data)
    }
}

/// Returns the volume of a store from its spec.
pub(super) fn volume(size: Option<String>, class: Option<String>) -> StoreVolume {
    StoreVolume {
        size: Quantity(size.unwrap_or_else(|| DEFAULT_STORAGE.to_owned())),
        class,
        postgres_major: None,
    }
}

/// Returns the data of a Secret that the operator generates, if it is complete.
pub(super) fn credential(
    fact: CredentialState,
    secret: &str,
    stack: &str,
    keys: &'static [&'static str],
) -> Result<Credential, ValidateError> {
    let (mut data, is_new) = match fact {
        CredentialState::Existing(data) => (data, false),
        CredentialState::Generated(data) => (data, true),
        CredentialState::Missing => {
            return Err(ValidateError::CredentialsMissing {
                secret: secret.to_owned(),
                stack: stack.to_owned(),
                keys,
            });
        }
        CredentialState::NotOwned => return Err(ValidateError::NameTaken(secret.to_owned())),
    };
    match keys.iter().find(|key| {
        data.get(**key)
            .is_none_or(|value: &ByteString| value.0.is_empty())
    }) {
        Some(key) => Err(ValidateError::CredentialsIncomplete {
            secret: secret.to_owned(),
            key,
        }),
        None => {
            // Other keys hold no credentials and are no reason to restart a pod.
            data.retain(|key, _| keys.contains(&key.as_str()));
            Ok(Credential { data, is_new })
        }
    }
}
