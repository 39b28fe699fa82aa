//! Stacks with other settings than the minimal one.

use k8s_openapi::api::{core::v1::LocalObjectReference, networking::v1::NetworkPolicyPeer};
use serde_json::json;

use super::resolved;
use crate::{
    api::AppAutoscaling,
    model::{
        metadata::Component,
        pod_patch::PodPatch,
        stack::{AppScaling, Backend, Collector, ManagedStore, Rival, Store, ValidatedStack},
    },
};

impl ValidatedStack {
    /// Returns every store of the stack.
    pub(crate) fn stores_mut(&mut self) -> impl Iterator<Item = &mut Store> {
        let optional = [
            self.cache.as_mut().map(|cache| &mut cache.store),
            self.queue.as_mut().map(|queue| &mut queue.store),
            match &mut self.collector {
                Some(Collector::Managed(collector)) => match &mut collector.backend {
                    Backend::Managed(store) => Some(store),
                    _ => None,
                },
                _ => None,
            },
            self.vector.as_mut().map(|vector| &mut vector.store),
        ];
        let database = self.database.iter_mut();
        database.chain(optional.into_iter().flatten())
    }

    fn managed_stores_mut(&mut self) -> impl Iterator<Item = &mut ManagedStore> {
        self.stores_mut().filter_map(|store| match store {
            Store::Managed(store) => Some(&mut **store),
            Store::External { .. } => None,
        })
    }

    /// Turns monitoring on, with a label by which the Prometheus operator and the Grafana of the cluster select
    /// objects.
    pub fn told(mut self, key: &str, value: &str) -> Self {
        let spec = json!({"monitoring": {"enabled": true, "labels": {key: value}}});
        self.monitoring = resolved(spec).monitoring;
        self
    }

    /// Adds the kinds of the Prometheus operator to the cluster.
    pub fn with_monitoring_kinds(mut self) -> Self {
        self.has_monitoring_kinds = true;
        self
    }

    /// Marks the Secrets as not created yet.
    pub fn with_new_secrets(mut self) -> Self {
        self.checksum_key.is_new = true;
        self.app.job_ids.key.is_new = true;
        self.app.management.key.is_new = true;
        for store in self.managed_stores_mut() {
            store.credentials.is_new = true;
        }
        self
    }

    /// Deletes volumes and credentials with the stack.
    pub fn deleting_data(mut self) -> Self {
        self.delete_data = true;
        self
    }

    /// Scales every component to zero.
    pub fn stopped(mut self) -> Self {
        self.stopped = true;
        for store in self.managed_stores_mut() {
            store.replicas = 0;
        }
        if let Some(queue) = &mut self.queue {
            queue.workers.replicas = 0;
        }
        if let Some(Collector::Managed(collector)) = &mut self.collector {
            collector.replicas = 0;
        }
        self.replicas(0)
    }

    /// Sets the number of pods of the app and of the gateway.
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.app.replicas = replicas;
        self.gateway.replicas = replicas;
        self
    }

    /// Scales the app by its load, beside an autoscaler that the operator did not make, if it is named.
    pub fn scaled_by_load(mut self, rival: Option<&str>) -> Self {
        self.app.scaling = Some(AppScaling {
            limits: Some(AppAutoscaling {
                min_replicas: 2,
                max_replicas: 4,
                target_cpu_utilization_percentage: 80,
            }),
            rival: rival.map(|name| Rival {
                name: name.to_owned(),
                most: 20,
            }),
            is_left: false,
        });
        self
    }

    /// Gives clients keys. Jobs and documents need one.
    pub fn keys(mut self) -> Self {
        let auth = json!({
            "secretRef": {"name": "links-keys"},
            "protect": ["jobs", "docs"],
            "rateLimits": {"requestsPerSecond": 500},
            "proxy": {
                "secretRef": {"name": "links-auth-proxy"},
                "trustedPeers": ["10.0.0.0/8", "fd00::/8"],
                "scopes": [
                    {"group": "*", "scopes": ["shorten"]},
                    {"group": "editors", "scopes": ["links:own", "jobs"]},
                ],
            },
        });
        self.app.auth = resolved(json!({"gateway": {"auth": auth}})).app.auth;
        self
    }

    /// Allows a peer to scrape the internal port.
    pub fn scraped_from(mut self, peer: NetworkPolicyPeer) -> Self {
        self.scrape_from.push(peer);
        self
    }

    /// Sets every pod setting that a user may set, on every component.
    pub fn user_settings(mut self) -> Self {
        self.image_pull_secrets = vec![LocalObjectReference {
            name: "registry".to_owned(),
        }];
        for (component, container) in [
            (Component::App, "app"),
            (Component::Gateway, "nginx"),
            (Component::Worker, "worker"),
            (Component::Otel, "collector"),
            (Component::Postgres, "postgres"),
            (Component::Cache, "valkey"),
            (Component::Rabbitmq, "rabbitmq"),
            (Component::Qdrant, "qdrant"),
            (Component::Telemetry, "lgtm"),
        ] {
            let changes = changes_of_the_user(container);
            self.pod_templates.insert(component, changes);
        }
        for store in self.managed_stores_mut() {
            if let Some(volume) = &mut store.volume {
                volume.class = Some("fast".to_owned());
            }
        }
        self
    }
}

/// Returns changes of the pods of a component, whose main container has this name.
fn changes_of_the_user(container: &str) -> PodPatch {
    let changes = json!({"spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
        }}},
        "priorityClassName": "important",
        "containers": [{"name": container, "env": [{"name": "TZ", "value": "of-the-user"}]}],
    }});
    let changes = changes.as_object().unwrap();
    PodPatch::read(changes).unwrap()
}
