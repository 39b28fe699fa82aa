//! The Secrets that a stack reads: its own, and those that its spec refers to.

use super::stores::{self, Definition, postgres};
use crate::{
    api::{ApiKeyRef, Profile, ShortenerStack, ShortenerStackSpec},
    model::{
        credentials,
        external::ExternalReference,
        metadata::{Component, component_name},
    },
};

/// A store, and the references to the Secrets of an external one. Without references, the operator runs the store.
pub type StoreReference<'a> = (Component, Option<ExternalReference<'a>>);

/// Returns the database of a spec.
pub fn database(spec: &ShortenerStackSpec) -> StoreReference<'_> {
    reference(&postgres::STORE, spec)
}

/// Returns the stores of those profiles of a spec that are on.
pub fn optional(spec: &ShortenerStackSpec) -> Vec<StoreReference<'_>> {
    let on = stores::all().filter(|store| {
        let profile = store.profile;
        profile.is_some_and(|profile| spec.profiles.contains(&profile)) && (store.wanted)(spec)
    });
    on.map(|store| reference(store, spec)).collect()
}

fn reference<'a>(store: &Definition, spec: &'a ShortenerStackSpec) -> StoreReference<'a> {
    (store.component, (store.external)(spec))
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

/// Returns the name of the Secret with the keys of clients, if the spec refers to one.
pub fn keys_secret(spec: &ShortenerStackSpec) -> Option<&str> {
    let auth = spec.gateway.auth.as_ref()?;
    Some(auth.secret_ref.name.as_str())
}

/// Returns the reference to the key for the passage through the gateway, if the spec has one.
pub fn probe_key(spec: &ShortenerStackSpec) -> Option<&ApiKeyRef> {
    let settings = spec.gateway.end_to_end.as_ref()?;
    settings.key_secret_ref.as_ref()
}

/// Returns the name of the Secret with the gateway's certificate, if the spec refers to one in `gateway.tls`.
pub fn certificate_secret(spec: &ShortenerStackSpec) -> Option<&str> {
    let tls = spec.gateway.tls.as_ref()?;
    Some(tls.secret_name.as_str())
}

/// Returns true when a stack reads a Secret: one of its own, or one that its spec refers to.
pub fn reads_secret(stack: &ShortenerStack, secret: &str) -> bool {
    let name = stack.metadata.name.as_deref().unwrap_or_default();
    let read_by = |(component, external): StoreReference<'_>| {
        component_name(name, component) == secret
            || external.is_some_and(|reference| reference.reads(secret))
    };
    credentials::checksum_name(name) == secret
        || credentials::job_ids_name(name) == secret
        || read_by(database(&stack.spec))
        || optional(&stack.spec).into_iter().any(read_by)
        || headers_secret(&stack.spec) == Some(secret)
        || keys_secret(&stack.spec) == Some(secret)
        || certificate_secret(&stack.spec) == Some(secret)
        || vector_key(&stack.spec).is_some_and(|reference| reference.name == secret)
        || probe_key(&stack.spec).is_some_and(|reference| reference.name == secret)
}
