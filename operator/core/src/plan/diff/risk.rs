//! Data at risk: what an apply deletes, leaves behind or cannot reach any more.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube_core::Resource;
use serde::Serialize;
use serde_json::Value;

use super::{
    Changes, ChildName, LiveChildren, Plan,
    home::home,
    rendered::{self, Rendered},
};
use crate::model::{
    drift::FieldChange,
    metadata::{Component, component_name},
    rabbitmq_cluster::{self, RabbitmqCluster},
    stack::{Drain, RestorePlace},
};

/// Reason why data is at risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RiskReason {
    VolumeDeleted,
    /// From now on a volume is deleted with the stack, or all those of servers that another operator runs.
    VolumeDeletedWithStack,
    /// Documents stay in a collection, or in a vector store, that is no longer searched.
    CollectionChanges,
    /// The jobs of a queue are worked off before it is deleted.
    QueueDrains,
    /// A queue is deleted without waiting for its jobs.
    QueueGivenUp,
    /// The data of a store stays where it is, because the stack uses another server.
    StoreReplaced,
    /// The database begins with a backup, which lacks what was done after it.
    TakedownsNotInBackup,
}

/// Data at risk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// Reason in CamelCase, for machines.
    pub reason: RiskReason,
    /// The object that holds the data.
    #[serde(flatten)]
    pub child: ChildName,
    /// Sentence for people.
    pub message: String,
}

/// Returns the data that an apply puts at risk.
pub(super) fn risks(
    plan: &Plan,
    rendered: &[Rendered],
    live: &LiveChildren,
    changes: &Changes,
) -> Vec<Risk> {
    let mut risks = volumes(changes);
    risks.extend(collection(plan, changes));
    risks.extend(queue(plan, live, changes));
    risks.extend(replaced(plan, rendered, live, changes));
    risks.extend(restored(plan, changes));
    risks
}

fn volumes(changes: &Changes) -> Vec<Risk> {
    let deleted = changes.deleted.iter().filter(|child| holds_data(child));
    let mut risks: Vec<Risk> = deleted
        .map(|child| Risk {
            reason: RiskReason::VolumeDeleted,
            child: child.clone(),
            message: "its part of the stack is off and deletionPolicy is Delete, so the volume and its data are deleted: set deletionPolicy: Retain to keep them".to_owned(),
        })
        .collect();
    let owned = changes.changed.iter().filter(|changed| {
        let gains_owner = |field: &FieldChange| {
            field.path.starts_with("metadata.ownerReferences") && field.before.is_none()
        };
        holds_data(&changed.child) && changed.fields.iter().any(gains_owner)
    });
    risks.extend(owned.map(|changed| {
        let data = match changed.child.kind == PersistentVolumeClaim::kind(&()) {
            true => "the volume and its data",
            false => "its servers, their volumes and the data",
        };
        Risk {
            reason: RiskReason::VolumeDeletedWithStack,
            child: changed.child.clone(),
            message: format!(
                "deletionPolicy is Delete, so {data} are deleted together with the stack"
            ),
        }
    }));
    risks
}

/// Returns true for an object whose deletion deletes data: one of the kinds that may outlive the stack, except the Secrets with
/// the credentials.
fn holds_data(child: &ChildName) -> bool {
    let retained = rendered::retained();
    let mut retained = retained.iter().flatten();
    child.kind != "Secret" && retained.any(|kind| *kind == child.kind)
}

/// Returns the collection of documents that the app leaves.
fn collection(plan: &Plan, changes: &Changes) -> Option<Risk> {
    let app = component_name(&plan.stack.identity.name, Component::App);
    let mut changed = changes.changed.iter();
    let changed =
        changed.find(|changed| changed.child.name == app && changed.child.kind == "Deployment")?;
    let mut fields = changed.fields.iter();
    let field = fields.find(|field| field.path.ends_with("env[VECTOR_COLLECTION].value"))?;
    let (before, after) = (field.before.as_ref()?, field.after.as_ref()?);
    Some(Risk {
        reason: RiskReason::CollectionChanges,
        child: changed.child.clone(),
        message: format!(
            "the collection changes from {} to {}: documents are not found until the app has filled the new one from the database",
            text(Some(before)),
            text(Some(after))
        ),
    })
}

/// Returns the queue that ends.
fn queue(plan: &Plan, live: &LiveChildren, changes: &Changes) -> Option<Risk> {
    let (broker, child) = match plan.stack.broker_cluster {
        Some(_) => ("its members", members(plan)),
        None => ("the broker", server(plan, Component::Rabbitmq)),
    };
    if !live.contains_key(&child) {
        return None;
    }
    let (reason, message) = match plan.drain {
        Drain::Draining(draining) => {
            let left = match draining.left {
                Some(jobs) => format!("{jobs} jobs are left"),
                None => "the number of jobs that are left is unknown".to_owned(),
            };
            let message = format!(
                "its profile is off: the app takes no more jobs, and {broker} and the workers are deleted once the queue is empty ({left})"
            );
            (RiskReason::QueueDrains, message)
        }
        Drain::Skipped if plan.stack.queue.is_none() && changes.deleted.contains(&child) => {
            let message = "it is deleted with the jobs in it, which are never processed: remove the annotation shortener.dev/force-disable to drain the queue first";
            (RiskReason::QueueGivenUp, message.to_owned())
        }
        Drain::Skipped | Drain::Wanted | Drain::Drained => return None,
    };
    Some(Risk {
        reason,
        child,
        message,
    })
}

/// Returns the objects with the data of stores in whose place the app gets others.
fn replaced(
    plan: &Plan,
    rendered: &[Rendered],
    live: &LiveChildren,
    changes: &Changes,
) -> Vec<Risk> {
    let stack = &plan.stack.identity.name;
    let app = ChildName {
        kind: "Deployment".to_owned(),
        name: component_name(stack, Component::App),
    };
    let Some((now, next)) = live
        .get(&app)
        .zip(rendered.iter().find(|child| child.child == app))
    else {
        return Vec::new();
    };
    // Links move to a Cluster before the app gets it, and come with a backup.
    let are_brought = plan.stack.database_move.is_some() || restored(plan, changes).is_some();
    let database = (!are_brought).then_some(Component::Postgres);
    let others = [Component::Rabbitmq, Component::Qdrant];
    let replaced = database.into_iter().chain(others).filter_map(|store| {
        let (before, after) = (home(stack, store, now)?, home(stack, store, &next.object)?);
        if before == after {
            return None;
        }
        let (reason, effect) = match (store, before.holder.kind.as_str()) {
            (Component::Qdrant, _) => (
                RiskReason::CollectionChanges,
                "documents are not found until the app has filled it from the database",
            ),
            (_, "Secret") => (
                RiskReason::StoreReplaced,
                "the operator copies nothing, so copy the data first, unless it is there already",
            ),
            (_, "StatefulSet") => (
                RiskReason::StoreReplaced,
                "the operator copies nothing, so copy the data first; the old volume is kept",
            ),
            _ => (
                RiskReason::StoreReplaced,
                "the operator copies nothing, so copy the data first; the old servers are kept",
            ),
        };
        Some(Risk {
            reason,
            message: format!("the stack uses {after} in place of {before}: {effect}"),
            child: before.holder,
        })
    });
    replaced.collect()
}

/// Returns the database that begins with a backup.
fn restored(plan: &Plan, changes: &Changes) -> Option<Risk> {
    let from = plan.stack.restore_from.as_ref()?;
    let child = server(plan, Component::Postgres);
    let backup = from.backup.as_deref().unwrap_or("that is the newest");
    let place = match &from.place {
        RestorePlace::Claim(claim) => format!("volume claim {claim}"),
        RestorePlace::Bucket(bucket) => format!("bucket {}", bucket.path),
    };
    changes.created.contains(&child).then(|| Risk {
        reason: RiskReason::TakedownsNotInBackup,
        child,
        message: format!(
            "the database begins with the backup {backup} of the {place}: links that were disabled or deleted after it redirect again, so disable them before the gateway is public"
        ),
    })
}

/// Returns the RabbitmqCluster of the stack.
fn members(plan: &Plan) -> ChildName {
    ChildName {
        kind: RabbitmqCluster::kind(&()).into_owned(),
        name: rabbitmq_cluster::name(&plan.stack.identity.name),
    }
}

/// Returns the name of the server of a store.
fn server(plan: &Plan, component: Component) -> ChildName {
    ChildName {
        kind: "StatefulSet".to_owned(),
        name: component_name(&plan.stack.identity.name, component),
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
