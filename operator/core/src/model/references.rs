//! The Secrets that a stack reads: its own, and those that its spec refers to.

use super::{
    credentials,
    metadata::{Component, component_name},
};
use crate::api::{ApiKeyRef, Profile, SecretKeyRef, ShortenerStack, ShortenerStackSpec};

/// A store, and the reference to the Secret of an external one. Without a reference, the operator runs the store.
pub type StoreReference<'a> = (Component, Option<&'a SecretKeyRef>);

/// Returns the database of a spec.
pub fn database(spec: &ShortenerStackSpec) -> StoreReference<'_> {
    let external = spec.database.external.as_ref();
    (
        Component::Postgres,
        external.map(|external| &external.secret_ref),
    )
}

/// Returns the stores of those profiles of a spec that are on.
pub fn optional(spec: &ShortenerStackSpec) -> Vec<StoreReference<'_>> {
    let cache = spec.cache.external.as_ref();
    let queue = spec.queue.external.as_ref();
    let vector = spec.vector.external.as_ref();
    // The telemetry store exists only if the spec has one. An external backend is not a store of this table.
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
pub fn vector_key(spec: &ShortenerStackSpec) -> Option<&ApiKeyRef> {
    let external = spec.vector.external.as_ref()?;
    let reference = external.api_key_secret_ref.as_ref();
    reference.filter(|_| spec.profiles.contains(&Profile::Vector))
}

/// Returns the name of the Secret with the headers for a backend of traces and logs, if the profile is on and the
/// spec refers to one.
pub fn headers_secret(spec: &ShortenerStackSpec) -> Option<&str> {
    let external = spec.observability.backend.external.as_ref()?;
    let reference = external.headers_secret_ref.as_ref()?;
    let used = spec.profiles.contains(&Profile::Observability);
    used.then_some(reference.name.as_str())
}

/// Returns true when a stack reads a Secret: one of its own, or one that its spec refers to.
pub fn reads_secret(stack: &ShortenerStack, secret: &str) -> bool {
    let name = stack.metadata.name.as_deref().unwrap_or_default();
    let read_by = |(component, external): StoreReference<'_>| {
        component_name(name, component) == secret
            || external.is_some_and(|reference| reference.name == secret)
    };
    credentials::checksum_name(name) == secret
        || read_by(database(&stack.spec))
        || optional(&stack.spec).into_iter().any(read_by)
        || headers_secret(&stack.spec) == Some(secret)
        || vector_key(&stack.spec).is_some_and(|reference| reference.name == secret)
}
