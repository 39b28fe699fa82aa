//! First step: reads what a stack's objects depend on. Writes nothing.
//!
//! Everything random is made here, so that the steps after it are pure: a credential is minted when neither its Secret
//! nor the volume that it opens exists, by live reads, because a stale answer would lock a database for good.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Secret, Service},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, ResourceExt};
use rand::{RngExt, distr::Alphanumeric};

use super::{
    apply::{Ownership, ownership},
    build,
    checksum::CHECKSUM_KEY,
};
use crate::{
    api::{GatewayProvider, SecretKeyRef, ShortenerStack},
    context::Scope,
    metadata::{Component, StackIdentity, component_name},
};

/// Name of the role that owns the managed database.
const DATABASE_ROLE: &str = "shortener";
/// Characters of a minted password: 190 bits.
const PASSWORD_LENGTH: usize = 32;

/// What was read.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Name, namespace and owner reference.
    pub identity: StackIdentity,
    /// The stack's own key for checksums.
    pub checksum_key: CredentialFact,
    /// What the database depends on.
    pub database: DatabaseFacts,
    /// Cluster address of the app's Service.
    pub upstream: Option<String>,
    /// An older stack (`namespace/name`) with the same class and host.
    pub rival: Option<String>,
}

/// What the database depends on.
#[derive(Clone, Debug)]
pub enum DatabaseFacts {
    /// The operator runs it.
    Managed {
        /// The Secret with `username` and `password`.
        credentials: CredentialFact,
        /// Image that runs now.
        running_image: Option<String>,
    },
    /// Somebody else runs it.
    External {
        /// Where the connection URL is.
        reference: SecretKeyRef,
        /// The connection URL, if the Secret and its key exist.
        url: Option<ByteString>,
    },
}

/// A Secret that the operator mints.
#[derive(Clone)]
pub enum CredentialFact {
    /// It exists.
    Live(BTreeMap<String, ByteString>),
    /// It has yet to be created with this data.
    Minted(BTreeMap<String, ByteString>),
    /// It is gone while the volume that it opens exists.
    Lost,
    /// Its name belongs to somebody else.
    Foreign,
}

impl std::fmt::Debug for CredentialFact {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Live(_) => "Live",
            Self::Minted(_) => "Minted",
            Self::Lost => "Lost",
            Self::Foreign => "Foreign",
        })
    }
}

/// Reads everything the later steps need.
///
/// # Errors
/// When the API server refuses a read or does not answer.
pub async fn gather(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: StackIdentity,
) -> Result<Gathered, kube::Error> {
    let database = match &stack.spec.database.external {
        Some(external) => {
            let reference = external.secret_ref.clone();
            let secret = read_secret(scope, &identity, &reference.name).await?;
            DatabaseFacts::External {
                url: secret.and_then(|secret| secret.data?.remove(&reference.key)),
                reference,
            }
        }
        None => managed_database(scope, &identity).await?,
    };
    let checksum_secret = build::secret::checksum_name(&identity.name);
    let checksum_key = match read_secret(scope, &identity, &checksum_secret).await? {
        Some(secret) => existing(&identity, secret),
        // Nothing is lost with this key: new checksums restart the pods once.
        None => CredentialFact::Minted(entries([(CHECKSUM_KEY, random(PASSWORD_LENGTH))])),
    };
    Ok(Gathered {
        checksum_key,
        database,
        upstream: upstream(scope, &identity),
        rival: rival(stack, &scope.context.known_stacks()),
        identity,
    })
}

async fn managed_database(
    scope: &Scope,
    identity: &StackIdentity,
) -> Result<DatabaseFacts, kube::Error> {
    let name = component_name(&identity.name, Component::Postgres);
    let credentials = match read_secret(scope, identity, &name).await? {
        Some(secret) => existing(identity, secret),
        None => {
            let claims: Api<PersistentVolumeClaim> =
                Api::namespaced(scope.context.client.clone(), &identity.namespace);
            match claims.get_metadata_opt(&name).await? {
                Some(_) => CredentialFact::Lost,
                None => CredentialFact::Minted(entries([
                    ("username", DATABASE_ROLE.to_owned()),
                    ("password", random(PASSWORD_LENGTH)),
                ])),
            }
        }
    };
    let running = scope
        .inventory
        .kept::<StatefulSet>(&identity.namespace, &name);
    Ok(DatabaseFacts::Managed {
        credentials,
        running_image: running.as_ref().and_then(image_of),
    })
}

async fn read_secret(
    scope: &Scope,
    identity: &StackIdentity,
    name: &str,
) -> Result<Option<Secret>, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(scope.context.client.clone(), &identity.namespace);
    secrets.get_opt(name).await
}

fn existing(identity: &StackIdentity, secret: Secret) -> CredentialFact {
    match ownership(&secret.metadata, identity) {
        Ownership::Ours | Ownership::Previous => {
            CredentialFact::Live(secret.data.unwrap_or_default())
        }
        Ownership::Foreign => CredentialFact::Foreign,
    }
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

fn upstream(scope: &Scope, identity: &StackIdentity) -> Option<String> {
    let name = component_name(&identity.name, Component::App);
    let service = scope
        .inventory
        .kept::<Service>(&identity.namespace, &name)?;
    if service.metadata.deletion_timestamp.is_some()
        || ownership(&service.metadata, identity) != Ownership::Ours
    {
        return None;
    }
    service.spec.as_ref()?.cluster_ip.clone()
}

/// The stack that holds the same class and host and is older: the first come is served.
fn rival(stack: &ShortenerStack, others: &[ShortenerStack]) -> Option<String> {
    fn route(stack: &ShortenerStack) -> Option<(&str, &str)> {
        let gateway = &stack.spec.gateway;
        (gateway.provider == GatewayProvider::IngressNginx)
            .then_some((gateway.ingress_class_name.as_str(), gateway.host.as_str()))
    }
    fn age(stack: &ShortenerStack) -> (Option<Time>, Option<String>, String) {
        (
            stack.creation_timestamp(),
            stack.namespace(),
            stack.name_any(),
        )
    }
    let wanted = route(stack)?;
    let rival = others
        .iter()
        .filter(|other| other.uid() != stack.uid() && other.metadata.deletion_timestamp.is_none())
        .filter(|other| route(other) == Some(wanted) && age(other) < age(stack))
        .min_by_key(|other| age(other))?;
    Some(format!(
        "{}/{}",
        rival.namespace().unwrap_or_default(),
        rival.name_any()
    ))
}

fn entries<const N: usize>(entries: [(&str, String); N]) -> BTreeMap<String, ByteString> {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), ByteString(value.into_bytes())))
        .collect()
}

/// Letters and digits from the thread's cryptographically secure generator.
fn random(length: usize) -> String {
    rand::rng()
        .sample_iter(Alphanumeric)
        .take(length)
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stack(name: &str, created: &str, host: &str) -> ShortenerStack {
        serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortenerStack",
            "metadata": {"name": name, "namespace": "links", "uid": name, "creationTimestamp": created},
            "spec": {"gateway": {"host": host}},
        }))
        .unwrap()
    }

    #[test]
    fn the_older_of_two_stacks_on_one_host_keeps_it() {
        let (older, younger) = (
            stack("b", "2026-01-01T00:00:00Z", "x"),
            stack("a", "2026-01-02T00:00:00Z", "x"),
        );
        let all = [
            older.clone(),
            younger.clone(),
            stack("c", "2025-01-01T00:00:00Z", "y"),
        ];
        assert_eq!(rival(&younger, &all).as_deref(), Some("links/b"));
        assert_eq!(rival(&older, &all), None);
    }

    #[test]
    fn passwords_are_long_and_differ() {
        assert_eq!(random(PASSWORD_LENGTH).len(), 32);
        assert_ne!(random(PASSWORD_LENGTH), random(PASSWORD_LENGTH));
    }
}
