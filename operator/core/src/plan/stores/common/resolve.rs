//! Resolution common to all stores: managed or external, the Secret and the volume.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, apimachinery::pkg::api::resource::Quantity};
use kube_core::ResourceExt;

use crate::{
    api::{DEFAULT_STORAGE, ShortenerStack},
    model::{
        access,
        checksum::{self, CHECKSUM_KEY},
        defaults::Defaults,
        facts::{ClusterFact, CredentialState, ExternalAccess, StoreFacts, TlsEntry},
        metadata::{Component, component_name},
        stack::{Credential, ManagedStore, Pod, Store, StoreTls, StoreVolume},
        store_cluster::Runner,
    },
    plan::{
        error::{MAX_CREDENTIAL, ValidateError},
        stores,
    },
};

/// The inputs for resolving a store.
pub(in crate::plan) struct StoreContext<'a> {
    pub(in crate::plan) stack: &'a ShortenerStack,
    /// The stack's own key for checksums.
    pub(in crate::plan) checksum_key: &'a Credential,
    /// Settings of the operator.
    pub(in crate::plan) defaults: &'a Defaults,
}

impl<'a> StoreContext<'a> {
    pub(in crate::plan) fn new(
        stack: &'a ShortenerStack,
        checksum_key: &'a Credential,
        defaults: &'a Defaults,
    ) -> Self {
        Self {
            stack,
            checksum_key,
            defaults,
        }
    }
}

/// A store that is on.
pub(in crate::plan::stores) struct RequestedStore {
    pub(in crate::plan::stores) component: Component,
    /// Settings of its pod, if the operator runs it.
    pub(in crate::plan::stores) pod: Pod,
    /// The volume of that pod.
    pub(in crate::plan::stores) volume: Option<StoreVolume>,
}

impl StoreContext<'_> {
    pub(in crate::plan::stores) fn store(
        &self,
        wanted: RequestedStore,
        facts: StoreFacts,
    ) -> Result<Store, ValidateError> {
        let field = stores::field(wanted.component);
        match facts {
            StoreFacts::External {
                reference,
                found: Some(ExternalAccess { access, entries }),
                tls,
            } => {
                let certificates = tls.map(|entries| certificates(field, entries));
                let (tls, certificates) = certificates.transpose()?.unzip();
                let contents = std::iter::once(entries).chain(certificates);
                let checksums: Vec<_> = contents.map(|data| self.checksum(&data)).collect();
                Ok(Store::External {
                    checksum: checksums.join("."),
                    secret: reference.name,
                    access,
                    tls,
                    pooler: None,
                })
            }
            StoreFacts::External {
                reference,
                found: None,
                ..
            } => Err(ValidateError::SecretNotFound {
                field,
                key: access::wanted(&reference),
                secret: reference.name,
            }),
            StoreFacts::Unread(failure) => Err(ValidateError::Unread(failure)),
            StoreFacts::Managed {
                credentials, claim, ..
            } => {
                let stack = self.stack.name_any();
                let name = component_name(&stack, wanted.component);
                let keys = stores::keys(wanted.component);
                let credentials = credential(credentials, &name, &stack, keys)?;
                for key in keys {
                    let value = credentials.data.get(*key);
                    value.map_or(Ok(()), |value| usable(&name, key, value))?;
                }
                Ok(Store::Managed(Box::new(ManagedStore {
                    replicas: i32::from(!self.stack.spec.stopped),
                    pod: wanted.pod,
                    volume: wanted.volume.map(|volume| StoreVolume {
                        existing: claim,
                        ..volume
                    }),
                    checksum: self.checksum(&credentials.data),
                    credentials,
                })))
            }
        }
    }

    /// Returns the keyed hash of entries of Secrets.
    pub(in crate::plan) fn checksum(&self, data: &BTreeMap<String, ByteString>) -> String {
        checksum::checksum(self.key(), data)
    }

    /// Returns the password for a purpose that follows from the stack's own key.
    pub(in crate::plan::stores) fn derived_password(&self, purpose: &str) -> String {
        checksum::derived_password(self.key(), purpose)
    }

    fn key(&self) -> &[u8] {
        let key = self.checksum_key.data.get(CHECKSUM_KEY);
        key.map(|key| key.0.as_slice()).unwrap_or_default()
    }
}

/// Checks that another operator has made the cluster of a store. Before, nothing else of the stack needs its Secrets.
///
/// # Errors
/// Kubernetes lacks the kind, or the cluster is still being made.
pub(in crate::plan::stores) fn check_started(
    runner: &'static Runner,
    cluster: String,
    fact: &ClusterFact,
) -> Result<(), ValidateError> {
    match fact {
        ClusterFact::Started => Ok(()),
        ClusterFact::Unserved => Err(ValidateError::ClusterKindMissing(runner)),
        ClusterFact::Vulnerable(version) => Err(ValidateError::ClusterVulnerable(version.clone())),
        ClusterFact::Starting(phase) => Err(ValidateError::ClusterStarting {
            runner,
            cluster,
            phase: phase.as_deref().unwrap_or("it has not begun").to_owned(),
        }),
    }
}

/// Returns the TLS settings of a store's clients, and the content of the files, if all of them exist.
fn certificates(
    field: &'static str,
    entries: Vec<TlsEntry>,
) -> Result<(StoreTls, BTreeMap<String, ByteString>), ValidateError> {
    let mut files = Vec::new();
    let mut contents = BTreeMap::new();
    for TlsEntry { file, value } in entries {
        let Some(value) = value else {
            return Err(ValidateError::SecretNotFound {
                field,
                secret: file.secret,
                key: file.key,
            });
        };
        contents.insert(file.kind.file().to_owned(), value);
        files.push(file);
    }
    let tls = StoreTls {
        field,
        mode: None,
        files,
    };
    Ok((tls, contents))
}

/// Returns the volume of a store from its spec, without what its image was chosen by.
pub(in crate::plan::stores) fn volume(size: Option<String>, class: Option<String>) -> StoreVolume {
    let size = size.unwrap_or_else(|| DEFAULT_STORAGE.to_owned());
    StoreVolume::new(Quantity(size), class)
}

/// Returns the data of a Secret that the operator generates, if it is complete.
pub(in crate::plan) fn credential(
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
        CredentialState::Terminating => return Err(terminating("Secret", secret)),
        CredentialState::ClaimTerminating => return Err(terminating("volume claim", secret)),
        CredentialState::NotOwned => return Err(ValidateError::NameTaken(secret.to_owned())),
        CredentialState::ClaimNotOwned => {
            return Err(ValidateError::ClaimTaken {
                claim: secret.to_owned(),
                stack: stack.to_owned(),
            });
        }
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

/// Checks that every program reads the same in a value of a Secret. Clients cut line breaks at the end, PostgreSQL and
/// its clients normalise Unicode, and HTTP takes neither control characters nor spaces at the ends.
pub(in crate::plan::stores) fn usable(
    secret: &str,
    key: &'static str,
    value: &ByteString,
) -> Result<(), ValidateError> {
    let value = &value.0;
    let is_printable = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    let has_outer_space = value.first() == Some(&b' ') || value.last() == Some(&b' ');
    if !value.is_empty() && value.len() <= MAX_CREDENTIAL && is_printable && !has_outer_space {
        return Ok(());
    }
    Err(ValidateError::CredentialsUnusable {
        secret: secret.to_owned(),
        key,
    })
}

fn terminating(kind: &'static str, name: &str) -> ValidateError {
    ValidateError::DataTerminating {
        kind,
        name: name.to_owned(),
    }
}
