//! The Secrets that a stack reads: its own, and those that its spec refers to.

use std::{collections::BTreeSet, iter};

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

/// Returns the names of the Secrets that a stack reads: its own, and those that its spec refers to. A change of one of
/// them concerns the stack, whatever labels the Secret has.
///
/// The Secrets of `imagePullSecrets` and of a component's `env` are not among them: no step depends on them, and the
/// kubelet looks for them again by itself.
pub fn secrets(stack: &ShortenerStack) -> BTreeSet<String> {
    let (name, spec) = (
        stack.metadata.name.as_deref().unwrap_or_default(),
        &stack.spec,
    );
    let mut names = BTreeSet::from([
        credentials::checksum_name(name),
        credentials::job_ids_name(name),
    ]);
    for (component, external) in iter::once(database(spec)).chain(optional(spec)) {
        names.insert(component_name(name, component));
        names.extend(external.iter().flat_map(ExternalReference::secrets));
    }
    let others = [
        headers_secret(spec),
        keys_secret(spec),
        certificate_secret(spec),
    ];
    names.extend(others.into_iter().flatten().map(str::to_owned));
    let keys = vector_key(spec).into_iter().chain(probe_key(spec));
    names.extend(keys.map(|reference| reference.name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::shared::stored_stack;

    #[test]
    fn every_kind_of_reference_to_a_secret_is_found_and_only_those_in_use() {
        let tls = json!({
            "caSecretRef": {"name": "ca"},
            "clientCertificateSecretRef": {"name": "client"},
        });
        let mut spec = json!({
            "profiles": ["caching", "queue", "observability", "vector"],
            "gateway": {
                "auth": {"secretRef": {"name": "keys"}},
                "endToEnd": {"keySecretRef": {"name": "probe"}},
                "tls": {"secretName": "certificate"},
            },
            "database": {"external": {"secretRef": {"name": "database"}, "tls": tls}},
            "cache": {"external": {"secretRef": {"name": "cache"}}},
            "queue": {"external": {"secretRef": {"name": "queue"}}},
            "vector": {"external": {
                "secretRef": {"name": "vector"},
                "apiKeySecretRef": {"name": "vector-key", "key": "key"},
            }},
            "observability": {"backend": {"external": {
                "endpoint": "https://telemetry.test",
                "headersSecretRef": {"name": "headers"},
            }}},
        });
        let referred = [
            "ca",
            "cache",
            "certificate",
            "client",
            "database",
            "headers",
            "keys",
            "probe",
            "queue",
            "vector",
            "vector-key",
        ];
        let own = ["acme-checksum", "acme-job-ids", "acme-postgres"];
        let found = secrets(&stored_stack(spec.clone()));
        for name in referred.iter().chain(&own) {
            assert!(found.contains(*name), "{name} is not in {found:?}");
        }
        spec["profiles"] = json!([]);
        let found = secrets(&stored_stack(spec));
        for name in [
            "cache",
            "headers",
            "queue",
            "vector",
            "vector-key",
            "acme-cache",
        ] {
            assert!(!found.contains(name), "{name} is in {found:?}");
        }
    }
}
