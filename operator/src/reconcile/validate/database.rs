//! The database of a stack and the Secrets that the operator mints.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, apimachinery::pkg::api::resource::Quantity};
use kube::ResourceExt;

use super::{ValidateError, pod::pod};
use crate::{
    api::{SecretKeyRef, ShortenerStack},
    metadata::{Component, component_name},
    reconcile::{
        build,
        checksum::{CHECKSUM_KEY, checksum},
        gather::{CredentialFact, DatabaseFacts},
        stack::{Credential, Database, ManagedDatabase},
    },
    settings::Settings,
};

/// Size of the managed database's volume where the spec names none.
const DEFAULT_STORAGE: &str = "1Gi";

/// Resolves where the links are kept.
pub(super) fn database(
    stack: &ShortenerStack,
    facts: DatabaseFacts,
    checksum_key: &Credential,
    settings: &Settings,
) -> Result<Database, ValidateError> {
    let key = checksum_key
        .data
        .get(CHECKSUM_KEY)
        .map(|key| key.0.as_slice())
        .unwrap_or_default();
    match facts {
        DatabaseFacts::External {
            reference: SecretKeyRef { name, key: entry },
            url,
        } => match url {
            Some(url) => Ok(Database::External {
                checksum: checksum(key, &BTreeMap::from([(entry.clone(), url)])),
                secret: name,
                key: entry,
            }),
            None => Err(ValidateError::SecretNotFound {
                secret: name,
                key: entry,
            }),
        },
        DatabaseFacts::Managed {
            credentials,
            running_image,
        } => {
            let managed = stack.spec.database.managed.clone().unwrap_or_default();
            let name = component_name(&stack.name_any(), Component::Postgres);
            let credentials = credential(
                credentials,
                &name,
                &stack.name_any(),
                &["username", "password"],
            )?;
            let pod = pod(
                &managed.pod,
                &settings.images.postgres,
                build::postgres::default_resources(),
            );
            same_major(&pod.image, running_image)?;
            Ok(Database::Managed(Box::new(ManagedDatabase {
                replicas: i32::from(!stack.spec.stopped),
                pod,
                storage: Quantity(
                    managed
                        .storage
                        .unwrap_or_else(|| DEFAULT_STORAGE.to_owned()),
                ),
                storage_class: managed.storage_class_name,
                checksum: checksum(key, &credentials.data),
                credentials,
            })))
        }
    }
}

/// The data of a Secret that the operator mints, if it is complete.
pub(super) fn credential(
    fact: CredentialFact,
    secret: &str,
    stack: &str,
    keys: &[&'static str],
) -> Result<Credential, ValidateError> {
    let (data, minted) = match fact {
        CredentialFact::Live(data) => (data, false),
        CredentialFact::Minted(data) => (data, true),
        CredentialFact::Lost => {
            return Err(ValidateError::CredentialsMissing {
                secret: secret.to_owned(),
                stack: stack.to_owned(),
            });
        }
        CredentialFact::Foreign => return Err(ValidateError::NameTaken(secret.to_owned())),
    };
    match keys.iter().find(|key| {
        data.get(**key)
            .is_none_or(|value: &ByteString| value.0.is_empty())
    }) {
        Some(key) => Err(ValidateError::CredentialsIncomplete {
            secret: secret.to_owned(),
            key,
        }),
        None => Ok(Credential { data, minted }),
    }
}

fn same_major(wanted: &str, running: Option<String>) -> Result<(), ValidateError> {
    match running {
        Some(running)
            if major(wanted)
                .zip(major(&running))
                .is_some_and(|(wanted, running)| wanted != running) =>
        {
            Err(ValidateError::MajorVersionChange {
                wanted: wanted.to_owned(),
                running,
            })
        }
        _ => Ok(()),
    }
}

/// The leading number of an image's tag; none for a digest or a name without one.
fn major(image: &str) -> Option<u32> {
    let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
    let digits = tag.find(|c: char| !c.is_ascii_digit()).unwrap_or(tag.len());
    tag[..digits].parse().ok()
}
