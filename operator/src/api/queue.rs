//! The job queue of a stack: a broker that the operator runs, or one that the user brings.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodSettings, SecretKeyRef};

/// Where jobs wait for a worker. Neither member given means `managed` with its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("!(has(self.managed) && has(self.external))").message(
    "queue.managed and queue.external exclude each other: remove one of them"
))]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// How often a job is given to a worker at most. One that fails every time becomes a dead letter. It takes effect
    /// at once, on waiting jobs too; on an external broker whoever runs it sets the limit.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    pub delivery_limit: i32,
    /// A RabbitMQ server that the operator runs in the stack's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedQueue>,
    /// A RabbitMQ server or cluster that somebody else runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalQueue>,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            delivery_limit: default_limit(),
            managed: None,
            external: None,
        }
    }
}

/// A RabbitMQ server of one replica with a volume of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedQueue {
    /// Size of the volume, a quantity such as `1Gi` (the default). It can grow where the storage class allows it, and never shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0").message(
        "queue.managed.storage is not a size of at least 512Mi: write a quantity such as 1Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; the cluster's default class if absent. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// How the pod runs.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A RabbitMQ server or cluster outside the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalQueue {
    /// The Secret, in the stack's namespace, with the connection URL (`amqp[s]://user:password@host:port/vhost`) or its parts,
    /// such as the one that RabbitMQ's operator writes. No virtual host, or an empty one, is the default one. TLS needs a URL.
    pub secret_ref: SecretKeyRef,
}

fn default_limit() -> i32 {
    5
}
