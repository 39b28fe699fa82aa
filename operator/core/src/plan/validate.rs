//! Second step: from the spec and the gathered facts to a stack that can be built, or an error. Pure.
//!
//! The schema and its CEL rules refuse at admission whatever they can. The checks here depend on other objects of the
//! cluster.

mod cache;
mod database;
mod monitoring;
mod observability;
mod pod;
mod queue;
mod store;
mod vector;

use super::{build, drain::drain};
use crate::{
    api::{DeletionPolicy, GatewayProvider, GatewaySpec, ShortenerStack, ShortenerStackSpec},
    model::{
        checksum::CHECKSUM_KEY,
        credentials,
        defaults::Defaults,
        facts::Facts,
        metadata::Component,
        stack::{App, Cache, Gateway, Routing, ValidatedStack},
    },
};
use pod::pod;
use store::{Surroundings, credential};

/// Base URL of the short links if the spec contains neither an address nor a host.
const LOCAL_URL: &str = "http://localhost:8080";

/// An error that keeps a stack from being built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidateError {
    /// A credential is missing although its volume exists.
    #[error(
        "Secret {secret} is missing, but volume claim {secret} needs its credentials: restore the Secret ({} {}, label \
         app.kubernetes.io/instance={stack}), or delete the volume claim to start with an empty volume",
        if keys.len() == 1 { "key" } else { "keys" },
        keys.join(" and ")
    )]
    CredentialsMissing {
        /// Name of the Secret, and of its volume.
        secret: String,
        /// Name of the stack.
        stack: String,
        /// Keys that the Secret must contain.
        keys: &'static [&'static str],
    },
    /// A credential lacks a key.
    #[error("Secret {secret} has no value for key {key}: add it")]
    CredentialsIncomplete {
        /// Name of the Secret.
        secret: String,
        /// Missing key.
        key: &'static str,
    },
    /// A Secret that the spec refers to does not exist or lacks the key.
    #[error(
        "{field}.external: Secret {secret} with key {key} does not exist: create it, or correct the reference"
    )]
    SecretNotFound {
        /// Field of the store.
        field: &'static str,
        /// Name of the Secret.
        secret: String,
        /// The key, or the keys of which one is required.
        key: String,
    },
    /// The Secret with the headers for a backend does not exist or is empty.
    #[error(
        "observability.backend.external.headersSecretRef: Secret {0} does not exist or is empty: create it with a key for each header, or correct the reference"
    )]
    HeadersNotFound(String),
    /// A quantity that the schema accepts but the operator cannot use.
    #[error("{field}: {value} is not a usable size: write a quantity such as 128Mi")]
    NotASize {
        /// Field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A label whose key Kubernetes does not accept.
    #[error(
        "{field}: {key} is not a valid label key: write at most 63 letters, digits, '-', '_' and '.', optionally after a \
         domain and '/'"
    )]
    NotALabel {
        /// Field.
        field: &'static str,
        /// Key of the label.
        key: String,
    },
    /// A Secret with a child's name does not belong to the stack.
    #[error("Secret {0} does not belong to this stack: delete it, or choose another stack name")]
    NameTaken(String),
    /// An image of another major version, which cannot read the volume.
    #[error(
        "database.managed.image: {wanted} cannot read volume claim {claim}, which PostgreSQL {major} initialised: set an \
         image of PostgreSQL {major}, or migrate the data as docs/upgrading.md describes"
    )]
    MajorVersionChange {
        /// Image in the spec.
        wanted: String,
        /// Name of the volume's claim.
        claim: String,
        /// Major version that initialised the volume.
        major: u32,
    },
    /// The operator has no default image for the major version that initialised the volume.
    #[error(
        "database.managed.image: PostgreSQL {major} initialised volume claim {claim}, and the operator has no default image for it: set an image of PostgreSQL {major}"
    )]
    NoImageForMajor {
        /// Name of the volume's claim.
        claim: String,
        /// Major version that initialised the volume.
        major: u32,
    },
}

impl ValidateError {
    /// Returns the reason for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::CredentialsMissing { .. } => "CredentialsMissing",
            Self::CredentialsIncomplete { .. } => "CredentialsIncomplete",
            Self::SecretNotFound { .. } | Self::HeadersNotFound(_) => "SecretNotFound",
            Self::NotASize { .. } => "NotASize",
            Self::NotALabel { .. } => "NotALabel",
            Self::NameTaken(_) => "NameTaken",
            Self::MajorVersionChange { .. } => "MajorVersionChange",
            Self::NoImageForMajor { .. } => "NoImageForMajor",
        }
    }

    /// Returns true when only an edit of the spec helps. An error that depends on another object can resolve without
    /// one.
    pub fn needs_an_edit(&self) -> bool {
        match self {
            Self::NotASize { .. }
            | Self::NotALabel { .. }
            | Self::MajorVersionChange { .. }
            | Self::NoImageForMajor { .. } => true,
            Self::CredentialsMissing { .. }
            | Self::CredentialsIncomplete { .. }
            | Self::SecretNotFound { .. }
            | Self::HeadersNotFound(_)
            | Self::NameTaken(_) => false,
        }
    }
}

/// Resolves every default and checks the spec against its surroundings.
///
/// # Errors
/// [`ValidateError`] with the remedy. The stack's objects stay unchanged until it is followed.
pub fn validate(
    stack: &ShortenerStack,
    facts: Facts,
    defaults: &Defaults,
) -> Result<ValidatedStack, ValidateError> {
    let Facts {
        identity,
        checksum_key,
        database,
        mut optional,
        queue,
        headers,
        has_monitoring_kinds,
        vector_key,
        upstream,
        host_conflict,
    } = facts;
    let spec = &stack.spec;
    let checksum_key = credential(
        checksum_key,
        &credentials::checksum_name(&identity.name),
        &identity.name,
        &[CHECKSUM_KEY],
    )?;
    let surroundings = Surroundings {
        stack,
        checksum_key: &checksum_key,
        defaults,
    };
    let database = database::database(&surroundings, database)?;
    let cache = optional
        .remove(&Component::Cache)
        .map(|facts| cache::cache(&surroundings, facts))
        .transpose()?;
    let drain = drain(stack, &queue);
    let queue = optional
        .remove(&Component::Rabbitmq)
        .map(|facts| queue::queue(&surroundings, facts, drain.draining()))
        .transpose()?;
    let vector = optional
        .remove(&Component::Qdrant)
        .map(|facts| vector::vector(&surroundings, facts, vector_key))
        .transpose()?;
    let own_backend = optional.remove(&Component::Telemetry);
    let collector = observability::collector(&surroundings, own_backend, headers)?;
    let monitoring = monitoring::monitoring(&spec.monitoring, collector.is_some())?;
    Ok(ValidatedStack {
        public_url: public_url(spec),
        stopped: spec.stopped,
        delete_data: spec.deletion_policy == DeletionPolicy::Delete,
        image_pull_secrets: spec.image_pull_secrets.clone(),
        app: app(spec, defaults, cache.as_ref()),
        gateway: gateway(spec, defaults, upstream, host_conflict),
        database,
        cache,
        queue,
        collector,
        monitoring,
        has_monitoring_kinds,
        vector,
        checksum_key,
        scrape_from: spec.observability.scrape_from.clone(),
        operator: defaults.operator.clone(),
        identity,
    })
}

/// Returns the base URL of the short links, without a trailing slash.
pub fn public_url(spec: &ShortenerStackSpec) -> String {
    let gateway = &spec.gateway;
    match &spec.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if gateway.host.is_empty() => LOCAL_URL.to_owned(),
        None if gateway.tls_secret_name.is_some() => format!("https://{}", gateway.host),
        None => format!("http://{}", gateway.host),
    }
}

fn app(spec: &ShortenerStackSpec, defaults: &Defaults, cache: Option<&Cache>) -> App {
    let near_memory = cache.map_or(0, |cache| cache.near_memory);
    App {
        replicas: if spec.stopped { 0 } else { spec.app.replicas },
        pod: pod(
            &spec.app.pod,
            &defaults.images.app,
            build::app::default_resources(near_memory),
        ),
        limits: spec.limits.clone(),
        trusted_hops: spec.gateway.trusted_hops,
        expose_metrics: spec.gateway.expose_metrics,
    }
}

fn gateway(
    spec: &ShortenerStackSpec,
    defaults: &Defaults,
    upstream: Option<String>,
    host_conflict: Option<String>,
) -> Gateway {
    let GatewaySpec {
        host,
        ingress_class_name,
        allow_from,
        tls_secret_name,
        service_type,
        ..
    } = spec.gateway.clone();
    let (routing, default_peers) = match spec.gateway.provider {
        GatewayProvider::IngressNginx => (
            Routing::IngressNginx {
                host,
                class: ingress_class_name,
                tls_secret: tls_secret_name,
                conflict: host_conflict,
            },
            defaults.gateway_allow_from.clone(),
        ),
        GatewayProvider::Standalone => (
            Routing::Standalone {
                host,
                service_type,
                upstream,
            },
            Vec::new(),
        ),
    };
    Gateway {
        replicas: if spec.stopped {
            0
        } else {
            spec.gateway.replicas
        },
        pod: pod(
            &spec.gateway.pod,
            &defaults.images.gateway,
            build::gateway::default_resources(),
        ),
        allow_from: if allow_from.is_empty() {
            default_peers
        } else {
            allow_from
        },
        routing,
    }
}

#[cfg(test)]
mod tests;
