//! First step: reads the objects that a stack depends on. It writes nothing.
//!
//! All random values are generated here, so that the later steps are pure. A credential is generated only when
//! neither its Secret nor the volume that needs it exists. Both are read live, because a stale answer would lock the
//! stack out of its database for good.

mod host_conflict;
mod observability;
mod queue;
mod store;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, Service},
};
use kube::Api;

use super::{
    apply::{Ownership, ownership},
    build,
    checksum::CHECKSUM_KEY,
    stack::Draining,
};
use crate::{
    access::Access,
    api::{ApiKeyRef, SecretKeyRef, ShortenerStack},
    context::Scope,
    metadata::{Component, StackIdentity, component_name},
    monitoring::{PrometheusRule, ServiceMonitor},
};

pub use observability::HeaderFacts;

/// The facts that were read.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Name, namespace and owner reference.
    pub identity: StackIdentity,
    /// The stack's own key for checksums.
    pub checksum_key: CredentialState,
    /// Facts about the database.
    pub database: StoreFacts,
    /// Facts about each store of a profile that is on.
    pub optional: BTreeMap<Component, StoreFacts>,
    /// State of a queue that is being drained because its profile was switched off.
    pub draining: Option<Draining>,
    /// The headers for a backend of traces and logs, if the spec refers to any.
    pub headers: Option<HeaderFacts>,
    /// True when the cluster serves the kinds of the Prometheus operator.
    pub has_monitoring_kinds: bool,
    /// The API key of an external vector store, if the spec refers to one.
    pub vector_key: Option<Referenced>,
    /// Cluster address of the app's Service.
    pub upstream: Option<String>,
    /// An older stack (`namespace/name`) with the same class and host.
    pub host_conflict: Option<String>,
}

/// Facts about a store.
#[derive(Clone, Debug)]
pub enum StoreFacts {
    /// A store that the operator runs.
    Managed {
        /// The Secret `<stack>-<component>`.
        credentials: CredentialState,
        /// Image of the running server.
        running_image: Option<String>,
        /// Its PersistentVolumeClaim, if that exists.
        claim: Option<ClaimFact>,
    },
    /// A store that the operator does not run.
    External {
        /// Reference to the Secret with the address and the credentials.
        reference: SecretKeyRef,
        /// Address and credentials, if the Secret and its keys exist.
        found: Option<ExternalAccess>,
    },
}

/// A PersistentVolumeClaim that exists.
#[derive(Clone, Debug, Default)]
pub struct ClaimFact {
    /// Major version of the server that initialised the data, from the claim's annotation.
    pub major: Option<u32>,
}

/// Address and credentials of an external server.
#[derive(Clone)]
pub struct ExternalAccess {
    /// The keys of the Secret that contain them.
    pub access: Access,
    /// The values of these keys.
    pub entries: BTreeMap<String, ByteString>,
}

impl std::fmt::Debug for ExternalAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.access.fmt(formatter)
    }
}

/// An entry of a Secret that the spec refers to.
#[derive(Clone, Debug)]
pub struct Referenced {
    /// Reference to the entry.
    pub reference: ApiKeyRef,
    /// Its value, if the Secret and its key exist.
    pub value: Option<ByteString>,
}

/// A Secret that the operator generates.
#[derive(Clone)]
pub enum CredentialState {
    /// It exists.
    Existing(BTreeMap<String, ByteString>),
    /// It does not exist yet and is to be created with this data.
    Generated(BTreeMap<String, ByteString>),
    /// It is missing although the volume that needs it exists.
    Missing,
    /// An object outside the stack has its name.
    NotOwned,
}

impl std::fmt::Debug for CredentialState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Existing(_) => "Existing",
            Self::Generated(_) => "Generated",
            Self::Missing => "Missing",
            Self::NotOwned => "NotOwned",
        })
    }
}

/// Reads everything that the later steps need.
///
/// # Errors
/// Fails if the API server refuses a read or does not answer.
pub async fn gather(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: StackIdentity,
) -> Result<Gathered, kube::Error> {
    let (component, external) = store::database(&stack.spec);
    let database = store::facts(scope, &identity, component, external).await?;
    let mut optional = BTreeMap::new();
    let draining = queue::draining(scope, stack, &identity);
    let drained = draining.map(|_| (Component::Rabbitmq, None));
    for (component, external) in store::optional(&stack.spec).into_iter().chain(drained) {
        let facts = store::facts(scope, &identity, component, external).await?;
        optional.insert(component, facts);
    }
    let checksum_secret = build::secret::checksum_name(&identity.name);
    let checksum_key = match read_secret(scope, &identity, &checksum_secret).await? {
        Some(secret) => existing(&identity, secret),
        // Losing this key does no harm: new checksums restart the pods once.
        None => CredentialState::Generated(store::generated(&[CHECKSUM_KEY])),
    };
    let vector_key = match store::vector_key(&stack.spec) {
        Some(reference) => Some(store::entry(scope, &identity, reference).await?),
        None => None,
    };
    Ok(Gathered {
        checksum_key,
        vector_key,
        database,
        optional,
        draining,
        headers: observability::headers(scope, &identity, &stack.spec).await?,
        has_monitoring_kinds: scope.inventory.has::<ServiceMonitor>()
            && scope.inventory.has::<PrometheusRule>(),
        upstream: upstream(scope, &identity),
        host_conflict: host_conflict::host_conflict(stack, &scope.context.known_stacks()),
        identity,
    })
}

/// Returns true when a stack reads a Secret: one of its own, or one that its spec refers to.
pub fn reads_secret(stack: &ShortenerStack, secret: &str) -> bool {
    let name = stack.metadata.name.as_deref().unwrap_or_default();
    let read_by = |(component, external): (Component, Option<&SecretKeyRef>)| {
        component_name(name, component) == secret
            || external.is_some_and(|reference| reference.name == secret)
    };
    build::secret::checksum_name(name) == secret
        || read_by(store::database(&stack.spec))
        || store::optional(&stack.spec).into_iter().any(read_by)
        || observability::headers_secret(&stack.spec) == Some(secret)
        || store::vector_key(&stack.spec).is_some_and(|reference| reference.name == secret)
}

async fn read_secret(
    scope: &Scope,
    identity: &StackIdentity,
    name: &str,
) -> Result<Option<Secret>, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(scope.context.client.clone(), &identity.namespace);
    secrets.get_opt(name).await
}

fn existing(identity: &StackIdentity, secret: Secret) -> CredentialState {
    match ownership(&secret.metadata, identity) {
        Ownership::Ours | Ownership::Previous => {
            CredentialState::Existing(secret.data.unwrap_or_default())
        }
        Ownership::Foreign => CredentialState::NotOwned,
    }
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
