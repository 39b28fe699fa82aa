//! Facts about the stores: the Secrets that the operator generated, and the Secrets of the user.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim},
};
use kube::Api;
use rand::{RngExt, distr::Alphanumeric};
use shortener_operator_core::{
    api::{ApiKeyRef, ClientTls},
    model::{
        credentials::USERNAME_KEY,
        external::{ExternalReference, files},
        facts::{
            ClaimFact, CredentialState, ExternalAccess, Referenced, RunningServer, StoreFacts,
            TlsEntry,
        },
        metadata::{Component, StackIdentity, component_name, is_usable_by_stacks},
    },
    plan::stores,
};

use super::read_secret;
use crate::reconcile::context::Scope;

/// The user name in every generated Secret that has one.
const USERNAME: &str = "shortener";
/// Length of a generated password in characters: 190 bits.
const PASSWORD_LENGTH: usize = 32;

/// Reads an entry of one of the user's Secrets.
pub(super) async fn entry(
    scope: &Scope,
    identity: &StackIdentity,
    reference: &ApiKeyRef,
) -> Result<Referenced, kube::Error> {
    let secret = read_secret(scope, identity, &reference.name).await?;
    let found = secret.as_ref();
    Ok(Referenced {
        usable: found.is_some_and(|secret| is_usable_by_stacks(&secret.metadata)),
        value: secret.and_then(|secret| secret.data?.remove(&reference.key)),
        reference: reference.clone(),
    })
}

/// Reads the facts about a store.
pub(super) async fn facts(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
    external: Option<ExternalReference>,
) -> Result<StoreFacts, kube::Error> {
    let Some(external) = external else {
        return managed(scope, identity, component).await;
    };
    let secret = read_secret(scope, identity, &external.secret.name).await?;
    let tls = match &external.tls {
        Some(tls) => Some(certificates(scope, identity, tls).await?),
        None => None,
    };
    Ok(StoreFacts::External {
        found: secret.and_then(|secret| {
            ExternalAccess::find(stores::parts(component), &external, secret.data?)
        }),
        reference: external.secret,
        tls,
    })
}

/// Reads the certificates that clients of an external store need. Each Secret is read once, so that a certificate
/// and its key belong together.
async fn certificates(
    scope: &Scope,
    identity: &StackIdentity,
    tls: &ClientTls,
) -> Result<Vec<TlsEntry>, kube::Error> {
    let mut secrets = BTreeMap::new();
    let mut entries = Vec::new();
    for file in files(tls) {
        if !secrets.contains_key(&file.secret) {
            let secret = read_secret(scope, identity, &file.secret).await?;
            let data = secret.and_then(|secret| secret.data).unwrap_or_default();
            secrets.insert(file.secret.clone(), data);
        }
        let data = secrets.get(&file.secret);
        let value = data.and_then(|data| data.get(&file.key)).cloned();
        entries.push(TlsEntry { file, value });
    }
    Ok(entries)
}

/// Reads the Secret of a store that the operator runs, or generates its data.
async fn managed(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
) -> Result<StoreFacts, kube::Error> {
    let name = component_name(&identity.name, component);
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(scope.context.client.clone(), &identity.namespace);
    let credentials = match read_secret(scope, identity, &name).await? {
        Some(secret) => CredentialState::of(secret, identity),
        None => match claims.get_metadata_opt(&name).await? {
            Some(claim) => CredentialState::absent_beside(&claim.metadata, identity),
            // A store without a volume has lost its data by the time it reads its new password.
            None => CredentialState::Generated(generated(stores::keys(component))),
        },
    };
    let running = scope.child::<StatefulSet>(identity, component);
    let claim = match component {
        Component::Cache => None,
        _ => claim(scope, identity, component).await?,
    };
    Ok(StoreFacts::Managed {
        credentials,
        running: running.as_deref().and_then(RunningServer::of),
        claim,
    })
}

/// Reads the volume claim of a component, if it exists.
pub(super) async fn claim(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
) -> Result<Option<ClaimFact>, kube::Error> {
    let name = component_name(&identity.name, component);
    let claim = named_claim(scope, identity, &name).await?;
    Ok(claim.as_deref().map(ClaimFact::of))
}

/// Reads the volume claim of a name, if it exists.
pub(super) async fn named_claim(
    scope: &Scope,
    identity: &StackIdentity,
    name: &str,
) -> Result<Option<Arc<PersistentVolumeClaim>>, kube::Error> {
    let kept = scope
        .inventory
        .kept::<PersistentVolumeClaim>(&identity.namespace, name);
    if kept.is_some() {
        return Ok(kept);
    }
    // A claim that others made, or that lost a label, is not watched.
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(scope.context.client.clone(), &identity.namespace);
    Ok(claims.get_opt(name).await?.map(Arc::new))
}

/// Returns data for a new Secret. Everything but the user name is random.
pub(super) fn generated(keys: &[&str]) -> BTreeMap<String, ByteString> {
    let value = |key: &str| match key {
        USERNAME_KEY => USERNAME.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_and_differ() {
        assert_eq!(random(PASSWORD_LENGTH).len(), 32);
        assert_ne!(random(PASSWORD_LENGTH), random(PASSWORD_LENGTH));
    }
}
