//! The Secrets that a stack uses: its own, and those that its spec refers to.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use k8s_openapi::api::core::v1::PodSpec;

use super::{
    pod_settings,
    stores::{self, Definition, postgres, rabbitmq},
};
use crate::{
    api::{ApiKeyRef, BackupBucket, Profile, ShortenerStack, ShortenerStackSpec},
    model::{
        credentials,
        external::ExternalReference,
        metadata::{Component, component_name},
        pod_uses::{self, SecretUse},
    },
};

/// A store, and the references to the Secrets of an external one. Without references, the operator runs the store.
pub type StoreReference = (Component, Option<ExternalReference>);

/// Returns the database of a stack.
pub fn database(spec: &ShortenerStackSpec, stack: &str) -> StoreReference {
    reference(&postgres::STORE, spec, stack)
}

/// Returns the stores of those profiles of a stack that are on.
pub fn optional(spec: &ShortenerStackSpec, stack: &str) -> Vec<StoreReference> {
    let on = stores::all().filter(|store| {
        let profile = store.profile;
        profile.is_some_and(|profile| spec.profiles.contains(&profile)) && (store.wanted)(spec)
    });
    on.map(|store| reference(store, spec, stack)).collect()
}

/// Returns the queue of a stack whose profile is off and that is drained. An external broker is not drained.
pub fn drained(spec: &ShortenerStackSpec, stack: &str) -> StoreReference {
    match spec.queue.rabbitmq_cluster {
        Some(_) => reference(&rabbitmq::STORE, spec, stack),
        None => (Component::Rabbitmq, None),
    }
}

fn reference(store: &Definition, spec: &ShortenerStackSpec, stack: &str) -> StoreReference {
    (store.component, (store.external)(spec, stack))
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

/// Returns the name of the Secret of the proxy that signs people in, if the spec refers to one.
pub fn auth_proxy_secret(spec: &ShortenerStackSpec) -> Option<&str> {
    let proxy = spec.gateway.auth.as_ref()?.proxy.as_ref()?;
    Some(proxy.secret_ref.name.as_str())
}

/// Returns the names of the Secrets of the receivers of webhooks.
pub fn webhook_secrets(spec: &ShortenerStackSpec) -> impl Iterator<Item = &str> {
    let receivers = spec.links.webhooks.iter();
    receivers.map(|receiver| receiver.secret_ref.name.as_str())
}

/// Returns the reference to the key for the end-to-end probe through the gateway, if the spec has one.
pub fn probe_key(spec: &ShortenerStackSpec) -> Option<&ApiKeyRef> {
    let settings = spec.gateway.end_to_end_probe.as_ref()?;
    settings.key_secret_ref.as_ref()
}

/// Returns the buckets of a spec.
fn buckets(spec: &ShortenerStackSpec) -> impl Iterator<Item = &BackupBucket> {
    let database = &spec.database;
    let backup = database.backup.iter().flat_map(|backup| &backup.s3);
    let restore = database.restore_from.iter().flat_map(|from| &from.s3);
    backup.chain(restore).map(|bucket| &**bucket)
}

/// Returns the name of the Secret with the gateway's certificate, if the spec refers to one in `gateway.tls`.
pub fn certificate_secret(spec: &ShortenerStackSpec) -> Option<&str> {
    let tls = spec.gateway.tls.as_ref()?;
    Some(tls.secret_name.as_str())
}

/// Returns the contents of Secrets that the pods of each component read because the user's `podTemplate` names them. Those
/// of the app's variables are the app's alone: the workers have them while they wait for migrations,
/// and read them no more. `draining` tells that a queue whose profile is off still has its pods.
pub fn contents(
    spec: &ShortenerStackSpec,
    stack: &str,
    draining: bool,
) -> BTreeMap<Component, BTreeSet<SecretUse>> {
    let contents =
        added(spec, stack, draining).map(|(component, pod)| (component, pod_uses::contents(&pod)));
    contents
        .filter(|(_, contents)| !contents.is_empty())
        .collect()
}

/// Returns a pod of each component that runs pods, with nothing but what the user's settings add.
fn added<'a>(
    spec: &'a ShortenerStackSpec,
    stack: &str,
    draining: bool,
) -> impl Iterator<Item = (Component, PodSpec)> + use<'a> {
    let components = with_pods(spec, stack, draining).into_iter();
    components.filter_map(|component| {
        let (_, settings) = pod_settings::of(spec, component)?;
        Some((component, pod_settings::added(settings)?))
    })
}

/// Returns the components of a spec that run pods.
fn with_pods(spec: &ShortenerStackSpec, stack: &str, draining: bool) -> BTreeSet<Component> {
    let queue = draining || spec.profiles.contains(&Profile::Queue);
    let drained = draining.then(|| drained(spec, stack));
    let stores = iter::once(database(spec, stack))
        .chain(optional(spec, stack))
        .chain(drained);
    let managed = stores.filter(|(_, external)| external.is_none());
    let collector = spec.profiles.contains(&Profile::Observability)
        && spec.observability.collector.external.is_none();
    let others = [
        Some(Component::App),
        Some(Component::Gateway),
        queue.then_some(Component::Worker),
        collector.then_some(Component::Otel),
    ];
    let managed = managed.map(|(component, _)| component);
    managed.chain(others.into_iter().flatten()).collect()
}

/// Returns the names of the Secrets that a stack uses: its own, and those that its spec refers to. A change of one of
/// them concerns the stack, whatever labels the Secret has.
pub fn secrets(stack: &ShortenerStack) -> BTreeSet<String> {
    let (name, spec) = (
        stack.metadata.name.as_deref().unwrap_or_default(),
        &stack.spec,
    );
    let mut names = BTreeSet::from([
        credentials::checksum_name(name),
        credentials::job_ids_name(name),
        credentials::management_name(name),
    ]);
    for (component, external) in iter::once(database(spec, name)).chain(optional(spec, name)) {
        names.insert(component_name(name, component));
        names.extend(external.iter().flat_map(ExternalReference::secrets));
    }
    let others = [
        headers_secret(spec),
        keys_secret(spec),
        auth_proxy_secret(spec),
        certificate_secret(spec),
    ];
    let others = others.into_iter().flatten();
    names.extend(others.chain(webhook_secrets(spec)).map(str::to_owned));
    names.extend(buckets(spec).map(|bucket| bucket.secret_ref.name.clone()));
    let keys = vector_key(spec).into_iter().chain(probe_key(spec));
    names.extend(keys.map(|reference| reference.name.clone()));
    names.extend(
        spec.image_pull_secrets
            .iter()
            .map(|secret| secret.name.clone()),
    );
    for (_, pod) in added(spec, name, false) {
        names.extend(pod_uses::contents(&pod).into_iter().map(|used| used.secret));
        names.extend(pod_uses::pull_secrets(&pod).map(str::to_owned));
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::shared::stored_stack;

    /// Returns a spec with a reference of every kind. The names of the Secrets say where they are named.
    fn with_every_reference() -> serde_json::Value {
        let tls = json!({
            "caSecretRef": {"name": "ca"},
            "clientCertificateSecretRef": {"name": "client"},
        });
        let variable = |secret: &str| json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}}});
        json!({
            "profiles": ["caching", "queue", "observability", "vector"],
            "gateway": {
                "auth": {"secretRef": {"name": "keys"}, "proxy": {
                    "secretRef": {"name": "auth-proxy"}, "trustedPeers": ["10.0.0.0/8"], "scopes": [],
                }},
                "endToEndProbe": {"keySecretRef": {"name": "probe"}},
                "tls": {"secretName": "certificate"},
                "podTemplate": {"spec": {
                    "imagePullSecrets": [{"name": "pod-registry"}],
                    "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "init"}}]}],
                    "containers": [{"name": "c", "env": [variable("sidecar")]}],
                    "volumes": [
                        {"name": "v", "secret": {"secretName": "volume"}},
                        {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
                    ],
                }},
            },
            "database": {
                "external": {"secretRef": {"name": "database"}, "tls": tls},
                "backup": {"schedule": "@daily", "s3": {
                    "endpoint": "https://s3.test", "bucket": "backups", "secretRef": {"name": "bucket"},
                }},
            },
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
            "links": {"webhooks": [
                {"name": "crm", "url": "https://crm.test", "secretRef": {"name": "webhook"}},
            ]},
            "imagePullSecrets": [{"name": "registry"}],
            "app": {"podTemplate": {"spec": {"containers": [{"name": "app", "env": [variable("app-env")]}]}}},
            "workers": {"podTemplate": {"spec": {"containers": [{"name": "worker", "env": [variable("worker-env")]}]}}},
        })
    }

    #[test]
    fn every_kind_of_reference_to_a_secret_is_found_and_only_those_in_use() {
        let mut spec = with_every_reference();
        let referred = [
            "app-env",
            "auth-proxy",
            "bucket",
            "ca",
            "cache",
            "certificate",
            "client",
            "database",
            "headers",
            "init",
            "keys",
            "pod-registry",
            "probe",
            "projected",
            "queue",
            "registry",
            "sidecar",
            "vector",
            "vector-key",
            "volume",
            "webhook",
            "worker-env",
        ];
        let own = [
            "acme-checksum",
            "acme-job-ids",
            "acme-management",
            "acme-postgres",
        ];
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
            "worker-env",
            "acme-cache",
        ] {
            assert!(!found.contains(name), "{name} is in {found:?}");
        }
    }

    #[test]
    fn the_secrets_that_pods_read_are_those_of_their_component() {
        let reading = |secret: &str| {
            let variable =
                json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}}});
            let containers = json!([{"name": "c", "env": [variable]}]);
            json!({"podTemplate": {"spec": {"containers": containers}}})
        };
        let managed = |secret: &str| json!({"managed": reading(secret)});
        let mut spec = json!({
            "profiles": ["caching", "queue", "observability", "vector"],
            "imagePullSecrets": [{"name": "registry"}],
            "app": reading("app"),
            "gateway": reading("gateway"),
            "workers": reading("worker"),
            "database": managed("postgres"),
            "cache": managed("cache"),
            "queue": managed("rabbitmq"),
            "vector": managed("qdrant"),
            "observability": {"collector": managed("otel"), "backend": managed("telemetry")},
        });
        let found = |spec: &serde_json::Value, draining: bool| {
            let found = contents(&stored_stack(spec.clone()).spec, "acme", draining);
            for (component, uses) in &found {
                let names: Vec<&str> = uses.iter().map(|used| used.secret.as_str()).collect();
                assert_eq!(names, [component.as_str()]);
            }
            found.into_keys().collect::<Vec<Component>>()
        };
        let mut settable = Component::WITH_PODS.to_vec();
        let of_app = [
            Component::Purge,
            Component::Webhooks,
            Component::Backup,
            Component::Verify,
            Component::Move,
        ];
        settable.retain(|component| !of_app.contains(component));
        assert_eq!(found(&spec, false), settable);
        spec["profiles"] = json!([]);
        let base = [Component::App, Component::Gateway, Component::Postgres];
        assert_eq!(found(&spec, false), base);
        let drained = [Component::Rabbitmq, Component::Worker];
        assert_eq!(found(&spec, true), [base.as_slice(), &drained].concat());
        assert_eq!(
            found(&json!({"imagePullSecrets": [{"name": "registry"}]}), false),
            []
        );
    }
}
