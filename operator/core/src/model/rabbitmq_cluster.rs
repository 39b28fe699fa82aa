//! The kind of a broker of several members that RabbitMQ's cluster operator runs, with only the fields that stacks use. A
//! cluster may lack it.
//!
//! Every field has a default, because an object that does not parse would end the watch of its kind.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    api::SecretKeyRef,
    model::{external::ExternalReference, store_cluster::Runner},
};

/// What runs a RabbitmqCluster.
pub const RUNNER: Runner = Runner {
    field: "queue.rabbitmqCluster",
    noun: "broker",
    kind: "RabbitmqCluster",
    api: "rabbitmq.com/v1beta1",
    operator: "RabbitMQ's operator",
    versions: "RabbitMQ's cluster operator 2.16 or later",
};
/// Annotation of RabbitMQ's operator on a RabbitmqCluster without members: the only number of them that it takes next.
pub const MEMBERS_BEFORE: &str = "rabbitmq.com/before-zero-replicas-configured";
/// Largest number of members of a RabbitmqCluster.
pub const MOST_MEMBERS: i32 = 7;
/// Ports at which the members find each other and talk with each other.
pub const MEMBER_PORTS: [i32; 2] = [4369, 25672];
/// First and last port of RabbitMQ's command line tools, which members open for each other.
pub const TOOL_PORTS: [i32; 2] = [35672, 35682];

/// Conditions of a RabbitmqCluster that are true when it is whole, the most telling one first.
const CONDITIONS: [&str; 3] = ["ReconcileSuccess", "AllReplicasReady", "ClusterAvailable"];
/// Condition of a RabbitmqCluster: its Service has a member that is ready.
const AVAILABLE: &str = "ClusterAvailable";
/// Reasons of a failed reconcile that only a change of the RabbitmqCluster or of its surroundings ends.
const STUCK: [&str; 3] = [
    "UnsupportedOperation",
    "FailedReconcilePVC",
    "TransformErrorOperation",
];

/// Spec of a RabbitmqCluster. The user may set any of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "rabbitmq.com",
    version = "v1beta1",
    kind = "RabbitmqCluster",
    plural = "rabbitmqclusters",
    namespaced,
    schema = "disabled",
    status = "RabbitmqClusterStatus",
    derive = "PartialEq"
)]
pub struct RabbitmqClusterSpec {
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitmqClusterStatus {
    pub conditions: Vec<RabbitmqClusterCondition>,
    /// Generation that RabbitMQ's operator has brought about; 0 until every member was ready once.
    pub observed_generation: i64,
}

/// A condition. Unlike those of Kubernetes, it may lack a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RabbitmqClusterCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl RabbitmqCluster {
    /// Returns true when every member was ready once.
    pub fn has_started(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| status.observed_generation > 0)
    }

    /// Returns true when RabbitMQ's operator has brought about what is asked for, and every member is ready.
    pub fn is_whole(&self) -> bool {
        let observed = self
            .status
            .as_ref()
            .map(|status| status.observed_generation);
        CONDITIONS.iter().all(|type_| self.is_true(type_))
            && observed >= self.metadata.generation.or(Some(0))
    }

    /// Returns true when clients reach a member.
    pub fn is_available(&self) -> bool {
        self.is_true(AVAILABLE)
    }

    /// Returns true when RabbitMQ's operator waits for somebody.
    pub fn is_stuck(&self) -> bool {
        let failed = self.condition(CONDITIONS[0]);
        failed.is_some_and(|failed| {
            failed.status == "False" && STUCK.contains(&failed.reason.as_str())
        })
    }

    /// Returns what RabbitMQ's operator says first about a condition that is not true.
    pub fn phase(&self) -> Option<String> {
        let mut conditions = CONDITIONS.iter().filter_map(|type_| self.condition(type_));
        let first = conditions.find(|condition| condition.status == "False")?;
        let said = [&first.message, &first.reason].into_iter();
        let said = said.map(String::as_str).find(|said| !said.is_empty());
        Some(format!("{}: {}", first.type_, said.unwrap_or("False")))
    }

    /// Returns the number of members that it asks for.
    pub fn replicas(&self) -> Option<i64> {
        self.spec.fields.get("replicas")?.as_i64()
    }

    /// Returns the image of its members.
    pub fn image(&self) -> Option<&str> {
        self.spec.fields.get("image")?.as_str()
    }

    fn is_true(&self, type_: &str) -> bool {
        let condition = self.condition(type_);
        condition.is_some_and(|condition| condition.status == "True")
    }

    fn condition(&self, type_: &str) -> Option<&RabbitmqClusterCondition> {
        let mut conditions = self.status.as_ref()?.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }
}

/// Returns the name of the RabbitmqCluster of a stack, and of its Service.
pub fn name(stack: &str) -> String {
    format!("{stack}-mq")
}

/// Returns the host names of the members, without their namespace.
pub fn hosts(stack: &str, members: i32) -> impl Iterator<Item = String> {
    let cluster = name(stack);
    (0..members).map(move |member| format!("{cluster}-server-{member}.{cluster}-nodes"))
}

/// Returns the reference to the Secret of a RabbitmqCluster, which has its address and the credentials of its default user.
pub fn reference(stack: &str) -> ExternalReference {
    ExternalReference {
        secret: SecretKeyRef {
            name: format!("{}-default-user", name(stack)),
            key: None,
        },
        tls: None,
        by_parts: true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(generation: i64, observed: i64, conditions: &[[&str; 4]]) -> RabbitmqCluster {
        let conditions = conditions.iter().map(|[type_, status, reason, message]| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": null,
            })
        });
        serde_json::from_value(json!({
            "metadata": {"name": "acme-mq", "generation": generation},
            "spec": {"replicas": 3, "image": "rabbitmq:4.3"},
            "status": {
                "observedGeneration": observed, "conditions": conditions.collect::<Vec<_>>(),
            },
        }))
        .unwrap()
    }

    const WHOLE: [[&str; 4]; 3] = [
        ["AllReplicasReady", "True", "AllPodsAreReady", ""],
        [
            "ClusterAvailable",
            "True",
            "AtLeastOneEndpointAvailable",
            "",
        ],
        ["ReconcileSuccess", "True", "Success", "Finish reconciling"],
    ];

    #[test]
    fn a_cluster_is_whole_when_its_operator_has_seen_the_last_edit() {
        let whole = cluster(2, 2, &WHOLE);
        assert!(whole.is_whole() && whole.has_started() && whole.is_available());
        assert_eq!(whole.phase(), None);
        let edited = cluster(3, 2, &WHOLE);
        assert!(!edited.is_whole() && edited.has_started());
        let without = RabbitmqCluster::new("acme-mq", RabbitmqClusterSpec::default());
        assert!(!without.is_whole() && !without.has_started() && !without.is_stuck());
    }

    #[test]
    fn it_tells_which_member_is_missing_and_what_its_operator_refuses() {
        let mut conditions = WHOLE;
        conditions[0] = [
            "AllReplicasReady",
            "False",
            "NotAllPodsReady",
            "2/3 Pods ready",
        ];
        let lost = cluster(2, 2, &conditions);
        assert_eq!(
            lost.phase().as_deref(),
            Some("AllReplicasReady: 2/3 Pods ready")
        );
        assert!(!lost.is_whole() && lost.is_available() && !lost.is_stuck());
        conditions[2] = ["ReconcileSuccess", "False", "UnsupportedOperation", "no"];
        let refused = cluster(2, 2, &conditions);
        assert_eq!(refused.phase().as_deref(), Some("ReconcileSuccess: no"));
        assert!(refused.is_stuck());
        conditions[2] = ["ReconcileSuccess", "False", "Error", ""];
        let failed = cluster(2, 2, &conditions);
        assert_eq!(failed.phase().as_deref(), Some("ReconcileSuccess: Error"));
        assert!(!failed.is_stuck());
    }

    #[test]
    fn every_member_has_a_host_name() {
        let hosts: Vec<String> = hosts("acme", 2).collect();
        assert_eq!(
            hosts,
            [
                "acme-mq-server-0.acme-mq-nodes",
                "acme-mq-server-1.acme-mq-nodes"
            ]
        );
    }
}
