//! Stacks with other settings than the minimal one.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{
        Affinity, EnvVar, LocalObjectReference, NodeAffinity, NodeSelector,
        NodeSelectorRequirement, NodeSelectorTerm, Toleration,
    },
    networking::v1::NetworkPolicyPeer,
};
use serde_json::json;

use super::resolved;
use crate::{
    api::AppAutoscaling,
    model::stack::{AppScaling, Backend, Collector, ManagedStore, Pod, Store, ValidatedStack},
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
                cpu_percent: 80,
            }),
            rival: rival.map(str::to_owned),
            is_left: false,
        });
        self
    }

    /// Gives clients keys. Jobs and documents need one.
    pub fn keys(mut self) -> Self {
        let auth = json!({
            "secretRef": {"name": "links-keys"},
            "protect": ["jobs", "docs"],
            "limits": {"requestsPerSecond": 500},
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
        user_settings(&mut self.app.pod, "LIMIT_SHORTEN_BURST");
        user_settings(&mut self.gateway.pod, "TZ");
        if let Some(queue) = &mut self.queue {
            user_settings(&mut queue.workers.pod, "TZ");
        }
        if let Some(Collector::Managed(collector)) = &mut self.collector {
            user_settings(&mut collector.pod, "TZ");
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
