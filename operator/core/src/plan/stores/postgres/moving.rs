//! The move of the links from the managed database of a stack to its Cluster.
//!
//! Nothing remembers how far a move is: each step follows from the objects in the cluster. Until the programs have the
//! Cluster, the managed database has every link, and the stack can go back to it.

mod check;
mod objects;
mod verdict;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube_core::ResourceExt;

use super::resolve;
use crate::{
    model::{
        cloud_native_pg::{Cluster, name, secret},
        credentials::USERNAME_KEY,
        facts::{ClusterFact, MoveFacts, RunningServer, StoreFacts, is_frozen, is_stopped},
        metadata::{Component, component_name},
        pod_uses,
        stack::{DatabaseMove, MoveCopy, MoveStep, StoreCluster},
    },
    plan::{
        error::{MoveProblem, ValidateError},
        stores::common::StoreContext,
    },
};
use check::{begins_empty, check};
pub(super) use objects::add_import;
pub(in crate::plan) use objects::stateful_set;
pub(super) use verdict::verdict;

/// The servers that have to be ready before the programs get the Cluster: with one alone, a write could wait for another.
const ENOUGH: i32 = 2;

/// Returns the move of a stack that asks for a Cluster, if its links are in a managed database yet.
///
/// # Errors
/// Something has to be done before the move begins or continues, or before the links can move back.
pub(in crate::plan) fn of(
    context: &StoreContext<'_>,
    found: MoveFacts,
    (database, cluster): (&StoreFacts, &ClusterFact),
    programs: &BTreeMap<Component, Arc<Deployment>>,
    wanted: Option<&StoreCluster>,
) -> Result<Option<DatabaseMove>, ValidateError> {
    let Some(wanted) = wanted else {
        return check_way_back(context, &found, database, programs).map(|()| None);
    };
    if *cluster == ClusterFact::Unserved || have_cluster(context, programs) {
        return Ok(None);
    }
    let managed = component_name(&context.stack.name_any(), Component::Postgres);
    let is_managed = is_used(programs, &managed);
    let Some(step) = step(context, &found, wanted, (cluster, is_managed))? else {
        return Ok(None);
    };
    let is_compared = matches!(step, MoveStep::Comparing | MoveStep::Stopping);
    let copy = match found.cluster.as_ref().filter(|_| is_compared) {
        Some(live) => Some(MoveCopy {
            database: resolve(context, database.clone(), cluster)?,
            uid: live.uid().unwrap_or_default(),
        }),
        None => None,
    };
    let username = found.username.filter(|name| !name.is_empty());
    if username.is_none() && found.server.is_some() {
        return Err(ValidateError::CredentialsIncomplete {
            secret: managed,
            key: USERNAME_KEY,
        });
    }
    Ok(Some(DatabaseMove {
        step,
        server: found.server,
        username: username.unwrap_or_default(),
        copy,
    }))
}

/// Returns true when the programs have a managed database that a move has left without writes, or that is gone in the middle
/// of one.
pub(in crate::plan) fn takes_no_writes(
    context: &StoreContext<'_>,
    found: &MoveFacts,
    programs: &BTreeMap<Component, Arc<Deployment>>,
) -> bool {
    let managed = component_name(&context.stack.name_any(), Component::Postgres);
    let is_moving = context.stack.spec.database.cloud_native_pg.is_some();
    let is_gone = is_moving && is_used(programs, &managed);
    let is_frozen = found.server.as_deref().map_or(is_gone, is_frozen);
    is_frozen && !have_cluster(context, programs)
}

/// Checks that a managed database does not begin with the links of a time before those in the Cluster.
fn check_way_back(
    context: &StoreContext<'_>,
    found: &MoveFacts,
    database: &StoreFacts,
    programs: &BTreeMap<Component, Arc<Deployment>>,
) -> Result<(), ValidateError> {
    let has_volume = matches!(database, StoreFacts::Managed { claim: Some(_), .. });
    let begins_with_backup = context.stack.spec.database.restore_from.is_some();
    // One that runs and takes writes was begun on purpose.
    let is_begun = found
        .server
        .as_deref()
        .is_some_and(|server| !is_frozen(server));
    if !has_volume || begins_with_backup || is_begun || !have_cluster(context, programs) {
        return Ok(());
    }
    let stack = context.stack.name_any();
    Err(ValidateError::Move(MoveProblem::BackNeedsBackup {
        cluster: name(&stack),
        claim: component_name(&stack, Component::Postgres),
    }))
}

/// Returns true when a program has the address of the Cluster.
fn have_cluster(
    context: &StoreContext<'_>,
    programs: &BTreeMap<Component, Arc<Deployment>>,
) -> bool {
    is_used(programs, &secret(&context.stack.name_any()))
}

/// Returns true when a program has the address of a database in this Secret.
fn is_used(programs: &BTreeMap<Component, Arc<Deployment>>, secret: &str) -> bool {
    let uses = |program: &Arc<Deployment>| {
        let template = program.spec.as_ref().map(|spec| &spec.template);
        let pod = template.and_then(|template| template.spec.as_ref());
        pod.is_some_and(|pod| pod_uses::secrets(pod).any(|used| used == secret))
    };
    programs.values().any(uses)
}

/// Returns the step, or `None` if there is nothing to move. `is_managed` tells that a program has the managed database.
fn step(
    context: &StoreContext<'_>,
    found: &MoveFacts,
    wanted: &StoreCluster,
    (fact, is_managed): (&ClusterFact, bool),
) -> Result<Option<MoveStep>, ValidateError> {
    let stack = context.stack.name_any();
    let (cluster, server) = (name(&stack), component_name(&stack, Component::Postgres));
    let problem = match (found.server.as_deref(), found.cluster.as_deref()) {
        (Some(running), None) => {
            check(found, wanted, server)?;
            let is_ready = RunningServer::of(running).is_some_and(|server| server.is_ready);
            return Ok(Some(if is_frozen(running) && is_ready {
                MoveStep::Importing
            } else {
                MoveStep::Freezing
            }));
        }
        (Some(running), Some(live)) if is_frozen(running) => {
            let step = step_of_copy(found, (running, live), wanted, fact);
            if step == MoveStep::Importing {
                begins_empty(&wanted.template)?;
            }
            return Ok(Some(step));
        }
        (Some(_), Some(live)) => MoveProblem::ClusterExists {
            cluster,
            server: Some(server).filter(|_| !live.imports()),
        },
        (None, Some(live)) if found.is_compared() && !is_going(live) => {
            return Ok(Some(MoveStep::Switching));
        }
        (None, Some(live)) if live.imports() => MoveProblem::Interrupted { cluster, server },
        (None, None) if is_managed => MoveProblem::Interrupted { cluster, server },
        (None, None) if found.claim.is_some() => MoveProblem::VolumeLeft { claim: server },
        (None, _) => return Ok(None),
    };
    Err(ValidateError::Move(problem))
}

/// Returns the step of a managed database without writes beside a Cluster.
fn step_of_copy(
    found: &MoveFacts,
    (server, live): (&StatefulSet, &Cluster),
    wanted: &StoreCluster,
    fact: &ClusterFact,
) -> MoveStep {
    let is_usable = *fact == ClusterFact::Started && !is_going(live);
    match found.is_compared() {
        _ if !is_usable => MoveStep::Importing,
        true if is_stopped(server) => MoveStep::Switching,
        true => MoveStep::Stopping,
        false if has_enough_servers(live, wanted) => MoveStep::Comparing,
        false => MoveStep::Importing,
    }
}

fn is_going(live: &Cluster) -> bool {
    live.metadata.deletion_timestamp.is_some()
}

fn has_enough_servers(live: &Cluster, wanted: &StoreCluster) -> bool {
    let ready = live
        .status
        .as_ref()
        .map_or(0, |status| status.ready_instances);
    ready >= wanted.members.min(ENOUGH)
}

/// Returns the error of a database that the programs do not have yet.
pub(in crate::plan) fn waits(
    context: &StoreContext<'_>,
    step: MoveStep,
    cluster: &ClusterFact,
) -> ValidateError {
    let phase = match cluster {
        ClusterFact::Vulnerable(version) => {
            return ValidateError::ClusterVulnerable(version.clone());
        }
        ClusterFact::Starting(phase) => phase.clone(),
        ClusterFact::Unserved | ClusterFact::Started => Some("more servers join".to_owned()),
    };
    let cluster = name(&context.stack.name_any());
    ValidateError::Move(MoveProblem::Waits {
        step,
        cluster,
        phase,
    })
}
