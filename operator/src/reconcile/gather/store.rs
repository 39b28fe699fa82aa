//! Facts about the stores: the Secrets that the operator generated, and the Secrets of the user.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim},
};
use kube::Api;
use rand::{RngExt, distr::Alphanumeric};

use super::{
    ClaimFact, CredentialState, ExternalAccess, Referenced, StoreFacts, existing, read_secret,
};
use crate::{
    access,
    api::{ApiKeyRef, Profile, SecretKeyRef, ShortenerStackSpec},
    context::Scope,
    metadata::{Component, POSTGRES_MAJOR, StackIdentity, component_name},
    reconcile::build::secret,
};

/// The user name in every generated Secret that has one.
const USERNAME: &str = "shortener";
/// Length of a generated password in characters: 190 bits.
const PASSWORD_LENGTH: usize = 32;

/// A store, and the reference to the Secret of an external one. Without a reference, the operator runs the store.
pub(super) type Wanted<'a> = (Component, Option<&'a SecretKeyRef>);

/// Returns the database of a spec.
pub(super) fn database(spec: &ShortenerStackSpec) -> Wanted<'_> {
    let external = spec.database.external.as_ref();
    (
        Component::Postgres,
        external.map(|external| &external.secret_ref),
    )
}

/// Returns the stores of those profiles of a spec that are on.
pub(super) fn optional(spec: &ShortenerStackSpec) -> Vec<Wanted<'_>> {
    let cache = spec.cache.external.as_ref();
    let queue = spec.queue.external.as_ref();
    let vector = spec.vector.external.as_ref();
    // The telemetry store exists only if the spec asks for it. An external backend is not a store of this table.
    let observability = &spec.observability;
    let backend =
        observability.backend.managed.is_some() && observability.collector.external.is_none();
    let stores = [
        (
            Profile::Caching,
            Component::Cache,
            cache.map(|external| &external.secret_ref),
        ),
        (
            Profile::Queue,
            Component::Rabbitmq,
            queue.map(|external| &external.secret_ref),
        ),
        (Profile::Observability, Component::Telemetry, None),
        (
            Profile::Vector,
            Component::Qdrant,
            vector.map(|external| &external.secret_ref),
        ),
    ];
    let on = stores
        .into_iter()
        .filter(|(profile, ..)| spec.profiles.contains(profile))
        .filter(|(_, component, _)| *component != Component::Telemetry || backend);
    on.map(|(_, component, external)| (component, external))
        .collect()
}

/// Returns the reference to the API key of an external vector store, if the profile is on and the spec has one.
pub(super) fn vector_key(spec: &ShortenerStackSpec) -> Option<&ApiKeyRef> {
    let external = spec.vector.external.as_ref()?;
    let reference = external.api_key_secret_ref.as_ref();
    reference.filter(|_| spec.profiles.contains(&Profile::Vector))
}

/// Reads an entry of one of the user's Secrets.
pub(super) async fn entry(
    scope: &Scope,
    identity: &StackIdentity,
    reference: &ApiKeyRef,
) -> Result<Referenced, kube::Error> {
    let secret = read_secret(scope, identity, &reference.name).await?;
    Ok(Referenced {
        value: secret.and_then(|secret| secret.data?.remove(&reference.key)),
        reference: reference.clone(),
    })
}

/// Reads the facts about a store.
pub(super) async fn facts(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
    external: Option<&SecretKeyRef>,
) -> Result<StoreFacts, kube::Error> {
    let Some(reference) = external else {
        return managed(scope, identity, component).await;
    };
    let secret = read_secret(scope, identity, &reference.name).await?;
    Ok(StoreFacts::External {
        found: secret.and_then(|secret| found(component, reference, secret.data?)),
        reference: reference.clone(),
    })
}

fn found(
    component: Component,
    reference: &SecretKeyRef,
    mut data: BTreeMap<String, ByteString>,
) -> Option<ExternalAccess> {
    let access = access::find(component, reference.key.as_deref(), &data)?;
    // A change of any other key is no reason to restart a pod.
    data.retain(|key, _| access.keys().contains(&key.as_str()));
    Some(ExternalAccess {
        access,
        entries: data,
    })
}

/// Reads the Secret of a store that the operator runs, or generates its data.
async fn managed(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
) -> Result<StoreFacts, kube::Error> {
    let name = component_name(&identity.name, component);
    let credentials = match read_secret(scope, identity, &name).await? {
        Some(secret) => existing(identity, secret),
        None => {
            let claims: Api<PersistentVolumeClaim> =
                Api::namespaced(scope.context.client.clone(), &identity.namespace);
            match claims.get_metadata_opt(&name).await? {
                Some(_) => CredentialState::Missing,
                // A store without a volume has lost its data by the time it reads its new password.
                None => CredentialState::Generated(generated(secret::keys(component))),
            }
        }
    };
    let running = scope
        .inventory
        .kept::<StatefulSet>(&identity.namespace, &name);
    let claim = scope
        .inventory
        .kept::<PersistentVolumeClaim>(&identity.namespace, &name);
    Ok(StoreFacts::Managed {
        credentials,
        running_image: running.as_ref().and_then(image_of),
        claim: claim.as_deref().map(claim_fact),
    })
}

fn claim_fact(claim: &PersistentVolumeClaim) -> ClaimFact {
    let annotations = claim.metadata.annotations.as_ref();
    let major = annotations.and_then(|annotations| annotations.get(POSTGRES_MAJOR));
    ClaimFact {
        major: major.and_then(|major| major.parse().ok()),
    }
}

/// Returns data for a new Secret. Everything but the user name is random.
pub(super) fn generated(keys: &[&str]) -> BTreeMap<String, ByteString> {
    let value = |key: &str| match key {
        secret::USERNAME_KEY => USERNAME.to_owned(),
        _ => random(PASSWORD_LENGTH),
    };
    keys.iter()
        .map(|key| ((*key).to_owned(), ByteString(value(key).into_bytes())))
        .collect()
}

/// Returns letters and digits from the thread's cryptographically secure generator.
fn random(length: usize) -> String {
    rand::rng()
        .sample_iter(Alphanumeric)
        .take(length)
        .map(char::from)
        .collect()
}

fn image_of(stateful_set: &Arc<StatefulSet>) -> Option<String> {
    stateful_set
        .spec
        .as_ref()?
        .template
        .spec
        .as_ref()?
        .containers
        .first()?
        .image
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_and_differ() {
        assert_eq!(random(PASSWORD_LENGTH).len(), 32);
        assert_ne!(random(PASSWORD_LENGTH), random(PASSWORD_LENGTH));
    }
}
