//! The minimal stack and the modifiers that turn it into others. Its name differs from every product's, so that a
//! swapped name or label shows.

mod databases;
mod gateways;
mod profiles;
mod variants;
mod visitors;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString,
    api::networking::v1::NetworkPolicyPeer,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use serde_json::{Value, json};

use super::shared::stored_stack;
use crate::{
    api::ShortenerStackSpec,
    model::{
        checksum::CHECKSUM_KEY,
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY, PASSWORD_KEY, USERNAME_KEY},
        defaults::{Defaults, Images, PodTemplatePolicy},
        external,
        facts::{
            BrokerFact, ClusterFact, CredentialState, ExternalAccess, Facts, GatewayFacts,
            HeaderFacts, MissingKeys, MoveFacts, PodContents, QueueFacts, Referenced, StoreFacts,
            TlsEntry,
        },
        metadata::StackIdentity,
        stack::{Backend, Collector, Store, ValidatedStack},
    },
    plan::{
        references::{self, StoreReference},
        stores,
        validate::validate,
    },
};

/// Returns the stack `acme` in namespace `links`, as it results from `spec: {}`, with its Secrets in place.
pub fn minimal_stack() -> ValidatedStack {
    resolved(json!({}))
}

/// Returns the minimal stack with every profile on and every store managed.
pub fn every_profile() -> ValidatedStack {
    minimal_stack().caching().queue().telemetry().vector()
}

/// Returns the stack `acme` as it results from a spec, with every Secret in place. Its checksums are words, so that
/// golden manifests show their origin.
pub fn resolved(spec: Value) -> ValidatedStack {
    let stack = stored_stack(spec);
    let mut resolved = validate(&stack, facts(&stack.spec), &defaults()).unwrap();
    resolved.app.job_ids.checksum = "checksum-of-job-ids".to_owned();
    resolved.app.management.checksum = "checksum-of-management".to_owned();
    for store in resolved.stores_mut() {
        match store {
            Store::Managed(store) => store.checksum = "checksum-of-credentials".to_owned(),
            Store::External { checksum, .. } => *checksum = "checksum-of-url".to_owned(),
        }
    }
    if let Some(Collector::Managed(collector)) = &mut resolved.collector
        && let Backend::External(backend) = &mut collector.backend
        && let Some(headers) = &mut backend.headers
    {
        headers.checksum = "checksum-of-headers".to_owned();
    }
    resolved
}

/// Returns the facts about a new stack with this spec, whose Secrets and those of the user exist.
pub fn facts(spec: &ShortenerStackSpec) -> Facts {
    Facts {
        identity: identity(),
        checksum_key: CredentialState::Existing(data(&[CHECKSUM_KEY])),
        job_ids: CredentialState::Existing(data(&[JOB_IDS_KEY])),
        management: CredentialState::Existing(data(&[MANAGEMENT_KEY])),
        database: store(references::database(spec, "acme")),
        optional: references::optional(spec, "acme")
            .into_iter()
            .map(|reference| (reference.0, store(reference)))
            .collect(),
        queue: QueueFacts::default(),
        headers: references::headers_secret(spec).map(|secret| HeaderFacts {
            secret: secret.to_owned(),
            data: Ok(Some(data(&["authorization", "x-scope-orgid"]))),
            usable: true,
        }),
        has_monitoring_kinds: false,
        has_gateway_kinds: false,
        cluster: ClusterFact::Started,
        pooler_in_use: false,
        database_move: MoveFacts::default(),
        broker_cluster: BrokerFact::started(),
        backup_claim: None,
        restore_claim_usable: Ok(true),
        vector_key: references::vector_key(spec).map(|reference| Referenced {
            reference: reference.clone(),
            value: Some(ByteString(b"s3cret".to_vec())),
            usable: true,
        }),
        missing_keys: MissingKeys::default(),
        missing_webhook_secrets: BTreeSet::new(),
        gateway: GatewayFacts {
            probe_key: references::probe_key(spec).map(|reference| {
                Ok(Referenced {
                    reference: reference.clone(),
                    value: Some(ByteString(b"s3cret".to_vec())),
                    usable: true,
                })
            }),
            ..GatewayFacts::default()
        },
        drill: None,
        rival: None,
        programs: BTreeMap::new(),
        recorded: BTreeMap::new(),
        contents: references::contents(spec, "acme", false)
            .into_iter()
            .map(|(component, uses)| (component, Ok(PodContents::of_usable(&uses))))
            .collect(),
    }
}

fn identity() -> StackIdentity {
    StackIdentity {
        name: "acme".to_owned(),
        namespace: "links".to_owned(),
        owner: OwnerReference {
            api_version: "shortener.dev/v1alpha1".to_owned(),
            kind: "ShortenerStack".to_owned(),
            name: "acme".to_owned(),
            uid: "5f0c2d1e-0000-4000-8000-000000000001".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        },
    }
}

fn store((component, reference): StoreReference) -> StoreFacts {
    let keys = ["uri", "host", "port", USERNAME_KEY, PASSWORD_KEY];
    match reference {
        Some(reference) => StoreFacts::External {
            found: ExternalAccess::find(stores::parts(component), &reference, data(&keys)),
            reference: reference.secret,
            tls: reference.tls.map(|tls| {
                let value = Some(ByteString(b"s3cret".to_vec()));
                let files = external::files(&tls).into_iter();
                files
                    .map(|file| TlsEntry {
                        file,
                        value: value.clone(),
                    })
                    .collect()
            }),
        },
        None => StoreFacts::Managed {
            credentials: CredentialState::Existing(data(stores::keys(component))),
            running: None,
            claim: None,
        },
    }
}

fn data(keys: &[&str]) -> BTreeMap<String, ByteString> {
    let value = |key: &str| match key {
        USERNAME_KEY => "shortener",
        CHECKSUM_KEY => "0123456789abcdef",
        _ => "s3cret",
    };
    keys.iter()
        .map(|key| ((*key).to_owned(), ByteString(value(key).into())))
        .collect()
}

/// Returns the settings of an operator whose images have names of their own.
pub fn defaults() -> Defaults {
    let image = |name: &str| format!("registry.test/{name}");
    Defaults {
        images: Images {
            app: image("app:1"),
            gateway: image("nginx:1"),
            postgres: image("postgres:18"),
            postgres_17: image("postgres:17"),
            cache: image("valkey:8"),
            rabbitmq: image("rabbitmq:4.3"),
            worker: image("worker:1"),
            otel: image("otel:1"),
            telemetry: image("lgtm:1"),
            qdrant: image("qdrant:1.19"),
            rclone: image("rclone:1"),
        },
        gateway_allow_from: vec![peer("ingress-nginx", "controller")],
        operator: peer("operators", "operator"),
        pod_template_policy: PodTemplatePolicy::Restricted,
        probe_hosts: vec!["*.ingress-nginx.svc".to_owned()],
    }
}

fn peer(namespace: &str, component: &str) -> NetworkPolicyPeer {
    let selector = |key: &str, value: &str| LabelSelector {
        match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
        ..LabelSelector::default()
    };
    NetworkPolicyPeer {
        namespace_selector: Some(selector("kubernetes.io/metadata.name", namespace)),
        pod_selector: Some(selector("app.kubernetes.io/component", component)),
        ..NetworkPolicyPeer::default()
    }
}

#[test]
fn modifiers_lead_to_what_validation_makes_of_the_same_spec() {
    let spec = |stopped| {
        json!({
            "profiles": ["caching", "queue", "observability", "vector"],
            "observability": {"backend": {"managed": {}}},
            "stopped": stopped,
        })
    };
    assert_eq!(every_profile(), resolved(spec(false)));
    assert_eq!(every_profile().stopped(), resolved(spec(true)));
}
