//! The job queue of a stack: a broker that the operator runs, or an external one.

mod cluster;

use std::collections::BTreeSet;

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{ClientTls, PodSettings, SecretKeyRef, names, rules::managed_or_external};

pub use cluster::QueueCluster;

/// The broker that queues the jobs (profile `queue`). Without `managed`, `external` and `rabbitmqCluster`, `managed`
/// applies with its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("queue"), validation = cluster::stands_alone())]
#[serde(rename_all = "camelCase", default = "QueueSpec::default")]
pub struct QueueSpec {
    /// Maximum number of deliveries of a job. A job that fails every time is then moved to the dead-letter queue. A
    /// change takes effect at once, also for waiting jobs. On an external broker, its administrator sets the limit.
    #[schemars(range(min = 1, max = 100))]
    pub delivery_limit: i32,
    /// Tasks that can be enqueued without a key. `*` stands for every task except `purge_expired`, `reindex` and `wait`,
    /// and is the default. With an empty list every job needs a key. A client with a key for
    /// jobs may enqueue every task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tasks")]
    pub public_tasks: Option<BTreeSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<DeadLettersSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedQueue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalQueue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq_cluster: Option<Box<QueueCluster>>,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            delivery_limit: 5,
            public_tasks: None,
            dead_letters: None,
            managed: None,
            external: None,
            rabbitmq_cluster: None,
        }
    }
}

/// Limits of the dead-letter queue. Beyond them, the broker drops the oldest dead letters. A change takes effect at
/// once. On an external broker, its administrator sets them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersSpec {
    /// Maximum number of dead letters. Defaults to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_length: Option<i32>,
    /// Maximum size of all dead letters together, a quantity such as `64Mi` (the default). It counts their bodies only,
    /// so keep it well below the size of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0").message(
        "queue.deadLetters.maxBytes is not a size of at least 1Mi: write a quantity such as 64Mi"
    ))]
    pub max_bytes: Option<String>,
}

/// A RabbitMQ server of one replica with a volume, which the operator runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ManagedQueue {
    /// Size of the volume, a quantity such as `1Gi` (the default). It can grow if the storage class allows expansion.
    /// It cannot shrink, except back to its size in `status.volumes` after a growth was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0").message(
        "queue.managed.storage is not a size of at least 512Mi: write a quantity such as 1Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; defaults to the default class of the cluster. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A RabbitMQ server or cluster that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalQueue {
    /// The Secret, in the stack's namespace, that holds the connection URL
    /// (`amqp[s]://user:password@host:port/vhost`) or its parts, such as the Secret that RabbitMQ's operator writes.
    /// Without a virtual host, or with an empty one, the broker's default virtual host applies.
    pub secret_ref: SecretKeyRef,
    /// TLS to the broker. If unset, the connection URL decides (`amqps`), and only public authorities are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
}

/// Returns the schema of a set of names of tasks.
fn tasks(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 64, "pattern": "^([*]|[A-Za-z0-9_.:-]+)$"},
    })
}
