//! The minimal stack and the modifiers that turn it into others. Its name differs from every product's, so that a
//! swapped name or label shows.

mod profiles;
mod variants;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{core::v1::ResourceRequirements, networking::v1::NetworkPolicyPeer},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, OwnerReference},
    },
};

use crate::{
    access::Access,
    api::{LimitsSpec, ShortenerStack},
    metadata::StackIdentity,
    reconcile::{
        build,
        stack::{
            App, Credential, Gateway, ManagedStore, Pod, Routing, Store, StoreVolume,
            ValidatedStack,
        },
    },
    settings::{Cli, Command, Settings},
};

pub use profiles::combinations;

/// Returns the stack `acme` in namespace `links`, as it results from `spec: {}`, with its Secrets in place.
pub fn minimal_stack() -> ValidatedStack {
    ValidatedStack {
        identity: StackIdentity {
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
        },
        public_url: "http://localhost:8080".to_owned(),
        stopped: false,
        delete_data: false,
        image_pull_secrets: Vec::new(),
        app: App {
            replicas: 2,
            pod: Pod {
                image: "registry.test/app:1".to_owned(),
                resources: build::app::default_resources(0),
                ..Pod::default()
            },
            limits: LimitsSpec::default(),
            trusted_hops: 1,
            expose_metrics: true,
        },
        gateway: Gateway {
            replicas: 2,
            pod: Pod {
                image: "registry.test/nginx:1".to_owned(),
                resources: build::gateway::default_resources(),
                ..Pod::default()
            },
            allow_from: vec![peer("ingress-nginx", "controller")],
            routing: Routing::IngressNginx {
                host: String::new(),
                class: "nginx".to_owned(),
                tls_secret: None,
                conflict: None,
            },
        },
        database: database(),
        cache: None,
        queue: None,
        collector: None,
        monitoring: None,
        has_monitoring_kinds: false,
        vector: None,
        checksum_key: credential(&[("key", "0123456789abcdef")]),
        scrape_from: Vec::new(),
        operator: peer("operators", "operator"),
    }
}

/// Returns the minimal stack with every profile on and every store managed.
pub fn every_profile() -> ValidatedStack {
    minimal_stack().caching().queue().telemetry().vector()
}

fn database() -> Store {
    let mut store = managed(
        "registry.test/postgres:18",
        build::postgres::default_resources(),
        &[("username", "shortener"), ("password", "s3cret")],
    );
    if let Store::Managed(store) = &mut store
        && let Some(volume) = &mut store.volume
    {
        volume.postgres_major = Some(18);
    }
    store
}

/// Returns a managed store.
fn managed(image: &str, resources: ResourceRequirements, data: &[(&str, &str)]) -> Store {
    Store::Managed(Box::new(ManagedStore {
        replicas: 1,
        pod: Pod {
            image: image.to_owned(),
            resources,
            ..Pod::default()
        },
        volume: Some(StoreVolume {
            size: Quantity("1Gi".to_owned()),
            class: None,
            postgres_major: None,
        }),
        credentials: credential(data),
        checksum: "checksum-of-credentials".to_owned(),
    }))
}

/// Returns an external store.
fn external(secret: &str) -> Store {
    Store::External {
        secret: secret.to_owned(),
        access: Access::Url("uri".to_owned()),
        checksum: "checksum-of-url".to_owned(),
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

fn credential(data: &[(&str, &str)]) -> Credential {
    Credential {
        data: data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect(),
        is_new: false,
    }
}

/// Returns the resource `acme` in namespace `links` as the API server stores it.
pub fn stored_stack(spec: serde_json::Value) -> ShortenerStack {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "shortener.dev/v1alpha1",
        "kind": "ShortenerStack",
        "metadata": {
            "name": "acme",
            "namespace": "links",
            "uid": "5f0c2d1e-0000-4000-8000-000000000001",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }))
    .unwrap()
}

/// Returns the operator's settings with only the required flags.
pub fn settings() -> Settings {
    let arguments = [
        "operator",
        "--pod-name",
        "op-0",
        "--pod-namespace",
        "operators",
    ];
    match Cli::read(arguments.map(Into::into)).unwrap().command {
        Command::Run(settings) => *settings,
        Command::Crd { .. } | Command::Dlq(_) => panic!("not the run command"),
    }
}
