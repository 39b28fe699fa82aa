//! A broker of several members that RabbitMQ's own operator runs.

use kube_core::Rule;
use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{defaults::number, names, schema};

/// A RabbitMQ cluster that survives the loss of a node. The operator writes the RabbitmqCluster `<stack>-mq`, and RabbitMQ's
/// cluster operator, which has to be installed, runs it. A stack gets or loses this field only while it is paused, because
/// the jobs do not move by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct QueueCluster {
    /// Number of members, 1, 3, 5 or 7: a queue works while more than half of them do, so an even number survives no more
    /// losses than one member less. It can grow. It cannot shrink, because the members that go would take their copies of
    /// the jobs along.
    #[serde(default = "number::<3>")]
    #[schemars(range(min = 1, max = 7))]
    #[x_kube(validation = Rule::new("self % 2 == 1").message(
        "queue.rabbitmqCluster.replicas is even: write 1, 3, 5 or 7, because a queue needs more than half of its members, and an even number survives no more losses than one less"
    ))]
    pub replicas: i32,
    /// Size of the volume of each member, a quantity such as `1Gi` (the default). It can grow if the storage class allows
    /// expansion. It cannot shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0").message(
        "queue.rabbitmqCluster.storage is not a size of at least 512Mi: write a quantity such as 1Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volumes; defaults to the default class of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
    /// Other fields of the RabbitmqCluster's `spec`, such as `image`, `resources` or `affinity`. They are merged over the
    /// operator's (RFC 7396: objects field by field, lists as a whole, `null` removes a field), except that
    /// `rabbitmq.additionalConfig` follows the operator's lines. The policy `Restricted` for pod templates admits only
    /// fields that refer to no other object and run no other program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub template: Option<Map<String, Value>>,
}

/// Returns the rule that a queue has one kind of broker.
pub(super) fn stands_alone() -> Rule {
    Rule::new("!(has(self.rabbitmqCluster) && (has(self.managed) || has(self.external)))").message(
        "queue.rabbitmqCluster excludes queue.managed and queue.external: remove one of them",
    )
}
