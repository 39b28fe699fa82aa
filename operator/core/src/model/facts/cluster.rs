//! The state of the clusters of a stack's stores that other operators run, as this operator reads it before it decides.

use crate::model::{
    cloud_native_pg::{Cluster, is_vulnerable},
    kinds::Deletion,
    metadata::StackIdentity,
    ownership::is_ours,
    rabbitmq_cluster::{MEMBERS_BEFORE, MOST_MEMBERS, RabbitmqCluster},
};

/// The cluster that holds the data of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterFact {
    /// Kubernetes does not serve the kind, or the operator may not list it.
    #[default]
    Unserved,
    /// It has not served yet; with the phase that its operator reports, if it does.
    Starting(Option<String>),
    /// A version of its operator runs it that must not.
    Vulnerable(String),
    /// It has served. It may be unavailable now.
    Started,
}

impl ClusterFact {
    /// Returns the fact about the live Cluster of CloudNativePG of the name, if there is one, and the version of
    /// CloudNativePG, if that is known.
    pub fn of(live: Option<&Cluster>, version: Option<&str>, identity: &StackIdentity) -> Self {
        if let Some(version) = version.filter(|version| is_vulnerable(version)) {
            return Self::Vulnerable(version.to_owned());
        }
        match live.filter(|live| is_ours(&live.metadata, identity, Deletion::Retained)) {
            Some(cluster) if cluster.has_started() => Self::Started,
            // That of others is reported when the operator cannot write it.
            other => Self::Starting(other.and_then(Cluster::phase)),
        }
    }
}

/// The RabbitmqCluster that holds the queue of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerFact {
    pub state: ClusterFact,
    /// What the live one asks for, if there is one and it belongs to the stack.
    pub live: Option<LiveBroker>,
}

/// What a RabbitmqCluster asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveBroker {
    /// Number of members; 0 while it is stopped.
    pub members: i64,
    /// The only number of members with which RabbitMQ's operator starts it again, if it is stopped.
    pub restarts_with: Option<i32>,
    /// Image of the members.
    pub image: Option<String>,
}

impl BrokerFact {
    /// Returns the fact about one that has served, of which nothing else is known.
    pub fn started() -> Self {
        Self {
            state: ClusterFact::Started,
            live: None,
        }
    }

    /// Returns the fact about the live RabbitmqCluster of the name, if there is one.
    pub fn of(live: Option<&RabbitmqCluster>, identity: &StackIdentity) -> Self {
        let live = live.filter(|live| is_ours(&live.metadata, identity, Deletion::Retained));
        let state = match live {
            Some(cluster) if cluster.has_started() => ClusterFact::Started,
            other => ClusterFact::Starting(other.and_then(RabbitmqCluster::phase)),
        };
        let annotation = |live: &RabbitmqCluster| {
            let annotations = live.metadata.annotations.as_ref()?;
            let members: i32 = annotations.get(MEMBERS_BEFORE)?.parse().ok()?;
            // Anyone who edits it can write any number.
            Some(members.clamp(1, MOST_MEMBERS))
        };
        Self {
            state,
            live: live.map(|live| LiveBroker {
                members: live.replicas().unwrap_or_default(),
                restarts_with: annotation(live),
                image: live.image().map(str::to_owned),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{model::metadata::Component, testing::stack::minimal_stack};

    #[test]
    fn a_broker_restarts_with_as_many_members_as_one_can_have() {
        let identity = minimal_stack().identity;
        for (annotation, expected) in [
            ("3", Some(3)),
            ("2000000000", Some(MOST_MEMBERS)),
            ("-2147483648", Some(1)),
            ("99999999999", None),
            ("many", None),
        ] {
            let mut metadata = identity.retained("acme-mq", Component::Rabbitmq);
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(MEMBERS_BEFORE.to_owned(), annotation.to_owned());
            let live: RabbitmqCluster =
                serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
            let live = BrokerFact::of(Some(&live), &identity).live.unwrap();
            assert_eq!(live.restarts_with, expected, "{annotation}");
        }
    }
}
