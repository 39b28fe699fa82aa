//! The live state of the children after an apply, for the status.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
    networking::v1::Ingress,
};

use crate::{
    context::Scope,
    inventory::Child,
    metadata::{Component, StackIdentity, component_name},
    queues::QueueState,
};

/// The live state, and proof that every child that the stack depends on was written. Only `apply` constructs it.
#[derive(Clone, Debug)]
pub struct Applied {
    live: Live,
}

impl Applied {
    pub(super) fn new(live: Live) -> Self {
        Self { live }
    }

    /// Returns an `Applied` with this live state, for a test.
    #[cfg(test)]
    pub(crate) fn pretended(live: Live) -> Self {
        Self::new(live)
    }

    /// Returns the live state.
    pub fn live(&self) -> &Live {
        &self.live
    }
}

/// The live children whose state appears in the status.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The Deployment or StatefulSet of each component that has one.
    pub workloads: BTreeMap<Component, Workload>,
    /// The volume of each store that has one.
    pub claims: BTreeMap<Component, Arc<PersistentVolumeClaim>>,
    /// Ingresses of the public routes.
    pub ingresses: Vec<Arc<Ingress>>,
    /// Last observation of the queue's broker.
    pub queue: QueueState,
    /// Pods of every component.
    pub pods: Vec<Arc<Pod>>,
    /// Error of writing the monitoring objects, if that failed.
    pub monitoring_refused: Option<String>,
}

/// The state of a Deployment or a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Number of desired pods.
    pub wanted: i32,
    /// Number of existing pods.
    pub existing: i32,
    /// Number of ready pods.
    pub ready: i32,
    /// Number of pods of the newest template.
    pub updated: i32,
    /// True when the controller has observed the last write.
    pub observed: bool,
    /// The controller's message if it cannot create pods.
    pub failure: Option<String>,
}

/// Reads the live state without writing anything.
pub fn observe(scope: &Scope, identity: &StackIdentity) -> Live {
    let inventory = &scope.inventory;
    let (namespace, stack) = (identity.namespace.as_str(), identity.name.as_str());
    let mut live = Live {
        ingresses: inventory.of_stack::<Ingress>(namespace, stack),
        pods: inventory.of_stack::<Pod>(namespace, stack),
        queue: scope.context.queues.seen(&identity.key()),
        ..Live::default()
    };
    for component in Component::WITH_PODS {
        let name = component_name(stack, component);
        let workload =
            deployment(scope, identity, &name).or_else(|| stateful_set(scope, identity, &name));
        live.workloads
            .extend(workload.map(|workload| (component, workload)));
        let claim = inventory.kept::<PersistentVolumeClaim>(namespace, &name);
        live.claims.extend(claim.map(|claim| (component, claim)));
    }
    live
}

fn deployment(scope: &Scope, identity: &StackIdentity, name: &str) -> Option<Workload> {
    let live = scope
        .inventory
        .kept::<Deployment>(&identity.namespace, name)?;
    Some(of_deployment(
        &live,
        last_write::<Deployment>(scope, identity, name),
    ))
}

fn stateful_set(scope: &Scope, identity: &StackIdentity, name: &str) -> Option<Workload> {
    let live = scope
        .inventory
        .kept::<StatefulSet>(&identity.namespace, name)?;
    Some(of_stateful_set(
        &live,
        last_write::<StatefulSet>(scope, identity, name),
    ))
}

/// Returns the generation that the operator's last write resulted in. The watch may lag behind it.
fn last_write<K: Child>(scope: &Scope, identity: &StackIdentity, name: &str) -> i64 {
    let key = (
        K::kind(&()).into_owned(),
        identity.namespace.clone(),
        name.to_owned(),
    );
    scope
        .context
        .ledger
        .get(&key)
        .and_then(|record| record.generation)
        .unwrap_or_default()
}

fn of_deployment(live: &Deployment, last_write: i64) -> Workload {
    let status = live.status.clone().unwrap_or_default();
    let failure = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True");
    Workload {
        wanted: live
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1),
        existing: status.replicas.unwrap_or_default(),
        ready: status.ready_replicas.unwrap_or_default(),
        updated: status.updated_replicas.unwrap_or_default(),
        observed: status.observed_generation >= live.metadata.generation.max(Some(last_write)),
        failure: failure.and_then(|condition| condition.message.clone()),
    }
}

fn of_stateful_set(live: &StatefulSet, last_write: i64) -> Workload {
    let status = live.status.clone().unwrap_or_default();
    Workload {
        wanted: live
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1),
        existing: status.replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        updated: status.updated_replicas.unwrap_or_default(),
        observed: status.observed_generation >= live.metadata.generation.max(Some(last_write)),
        failure: None,
    }
}
