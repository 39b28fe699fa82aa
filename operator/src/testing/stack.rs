//! The smallest stack, and what turns it into others. Its name differs from every product's, so that a swapped name
//! or label shows.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{
            Affinity, EnvVar, LocalObjectReference, NodeAffinity, NodeSelector,
            NodeSelectorRequirement, NodeSelectorTerm, ResourceRequirements, Toleration,
        },
        networking::v1::NetworkPolicyPeer,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, OwnerReference},
    },
};

use crate::{
    api::{CacheMode, GatewayServiceType, LimitsSpec, ShortenerStack},
    metadata::StackIdentity,
    reconcile::{
        build,
        stack::{
            App, Cache, Credential, Draining, Gateway, ManagedStore, Pod, Queue, Routing, Store,
            StoreVolume, ValidatedStack, Workers,
        },
    },
    settings::{Cli, Command, Settings},
};

/// The stack `acme` in namespace `links`, as `spec: {}` gives it, with its Secrets in place.
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
                resources: build::app::default_resources(),
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
        database: managed(
            "registry.test/postgres:17",
            build::postgres::default_resources(),
            &[("username", "shortener"), ("password", "s3cret")],
        ),
        cache: None,
        queue: None,
        checksum_key: credential(&[("key", "0123456789abcdef")]),
        scrape_from: Vec::new(),
        operator: peer("operators", "operator"),
    }
}

/// The minimal stack with every profile on, each store run by the operator.
pub fn every_profile() -> ValidatedStack {
    minimal_stack().caching().queue()
}

/// A store that the operator runs.
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
        }),
        credentials: credential(data),
        checksum: "checksum-of-credentials".to_owned(),
    }))
}

/// A store that somebody else runs.
fn external(secret: &str) -> Store {
    Store::External {
        secret: secret.to_owned(),
        key: "uri".to_owned(),
        checksum: "checksum-of-url".to_owned(),
    }
}

/// A queue with one worker.
fn queue(store: Store) -> Queue {
    Queue {
        store,
        delivery_limit: 5,
        broker_memory: 512 << 20,
        workers: Workers {
            replicas: 1,
            pod: Pod {
                image: "registry.test/worker:1".to_owned(),
                resources: build::worker::default_resources(),
                ..Pod::default()
            },
        },
        draining: None,
    }
}

impl ValidatedStack {
    fn managed_stores_mut(&mut self) -> impl Iterator<Item = &mut ManagedStore> {
        let optional = [
            self.cache.as_mut().map(|cache| &mut cache.store),
            self.queue.as_mut().map(|queue| &mut queue.store),
        ];
        std::iter::once(&mut self.database)
            .chain(optional.into_iter().flatten())
            .filter_map(|store| match store {
                Store::Managed(store) => Some(&mut **store),
                Store::External { .. } => None,
            })
    }

    /// With a cache that the operator runs.
    pub fn caching(mut self) -> Self {
        let max_memory = 128 << 20;
        let mut store = managed(
            "registry.test/valkey:8",
            build::cache::default_resources(max_memory),
            &[("password", "s3cret")],
        );
        if let Store::Managed(store) = &mut store {
            store.volume = None;
        }
        self.cache = Some(Cache {
            store,
            ttl_seconds: 3600,
            max_memory,
            mode: CacheMode::Single,
            sentinel_master: None,
        });
        self
    }

    /// With a cache that somebody else runs behind sentinels.
    pub fn external_cache(mut self) -> Self {
        self.cache = Some(Cache {
            store: external("links-cache"),
            ttl_seconds: 60,
            max_memory: 128 << 20,
            mode: CacheMode::Sentinel,
            sentinel_master: Some("links".to_owned()),
        });
        self
    }

    /// With a queue whose broker the operator runs.
    pub fn queue(mut self) -> Self {
        let store = managed(
            "registry.test/rabbitmq:4",
            build::rabbitmq::default_resources(),
            &[("username", "shortener"), ("password", "s3cret")],
        );
        self.queue = Some(queue(store));
        self
    }

    /// With a queue on a broker that somebody else runs.
    pub fn external_queue(mut self) -> Self {
        self.queue = Some(queue(external("links-queue")));
        self
    }

    /// Its queue (after [`Self::queue`]) is given up when it is empty.
    pub fn draining(mut self) -> Self {
        if let Some(queue) = &mut self.queue {
            queue.draining = Some(Draining {
                closed: true,
                left: Some(3),
            });
        }
        self
    }

    /// Its Secrets have yet to be created.
    pub fn minted(mut self) -> Self {
        self.checksum_key.minted = true;
        for store in self.managed_stores_mut() {
            store.credentials.minted = true;
        }
        self
    }

    /// Volumes and credentials go with the stack.
    pub fn deleting_data(mut self) -> Self {
        self.delete_data = true;
        self
    }

    /// Scaled to zero.
    pub fn stopped(mut self) -> Self {
        self.stopped = true;
        for store in self.managed_stores_mut() {
            store.replicas = 0;
        }
        if let Some(queue) = &mut self.queue {
            queue.workers.replicas = 0;
        }
        self.replicas(0)
    }

    /// Another number of pods of the app and of the gateway.
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.app.replicas = replicas;
        self.gateway.replicas = replicas;
        self
    }

    /// A database that somebody else runs.
    pub fn external_database(mut self) -> Self {
        self.database = external("links-database");
        self
    }

    /// An nginx of the stack's own, open to everybody.
    pub fn standalone(mut self) -> Self {
        self.gateway.allow_from = Vec::new();
        self.gateway.routing = Routing::Standalone {
            host: String::new(),
            service_type: GatewayServiceType::ClusterIP,
            upstream: Some("10.96.0.42".to_owned()),
        };
        self
    }

    /// Another address of the app (after [`Self::standalone`]).
    pub fn upstream(mut self, address: Option<&str>) -> Self {
        if let Routing::Standalone { upstream, .. } = &mut self.gateway.routing {
            *upstream = address.map(str::to_owned);
        }
        self
    }

    /// Another type of the gateway's Service (after [`Self::standalone`]).
    pub fn service_type(mut self, wanted: GatewayServiceType) -> Self {
        if let Routing::Standalone { service_type, .. } = &mut self.gateway.routing {
            *service_type = wanted;
        }
        self
    }

    /// Answers to one host.
    pub fn host(mut self, name: &str) -> Self {
        match &mut self.gateway.routing {
            Routing::IngressNginx { host, .. } | Routing::Standalone { host, .. } => {
                *host = name.to_owned();
            }
        }
        self
    }

    /// Serves its host by TLS.
    pub fn tls(mut self, secret: &str) -> Self {
        if let Routing::IngressNginx { tls_secret, .. } = &mut self.gateway.routing {
            *tls_secret = Some(secret.to_owned());
        }
        self
    }

    /// An older stack holds the host.
    pub fn conflict(mut self, older: &str) -> Self {
        if let Routing::IngressNginx { conflict, .. } = &mut self.gateway.routing {
            *conflict = Some(older.to_owned());
        }
        self
    }

    /// Its internal port is scraped.
    pub fn scraped_from(mut self, peer: NetworkPolicyPeer) -> Self {
        self.scrape_from.push(peer);
        self
    }

    /// Every setting of a pod that a user may make, on every component.
    pub fn user_settings(mut self) -> Self {
        self.image_pull_secrets = vec![LocalObjectReference {
            name: "registry".to_owned(),
        }];
        user_settings(&mut self.app.pod, "LIMIT_SHORTEN_BURST");
        user_settings(&mut self.gateway.pod, "TZ");
        if let Some(queue) = &mut self.queue {
            user_settings(&mut queue.workers.pod, "TZ");
        }
        for store in self.managed_stores_mut() {
            if let Some(volume) = &mut store.volume {
                volume.class = Some("fast".to_owned());
            }
            user_settings(&mut store.pod, "TZ");
        }
        self
    }
}

fn user_settings(pod: &mut Pod, variable: &str) {
    pod.node_selector = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
    pod.tolerations = vec![Toleration {
        key: Some("dedicated".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    }];
    pod.affinity = Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_expressions: Some(vec![NodeSelectorRequirement {
                        key: "zone".to_owned(),
                        operator: "Exists".to_owned(),
                        values: None,
                    }]),
                    ..NodeSelectorTerm::default()
                }],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    });
    pod.priority_class = Some("important".to_owned());
    pod.env = vec![EnvVar {
        name: variable.to_owned(),
        value: Some("of-the-user".to_owned()),
        ..EnvVar::default()
    }];
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
        minted: false,
    }
}

/// The resource `acme` in namespace `links` as the API server stores it.
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

/// The operator's settings without any flag but the required ones.
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
