//! The move of the links from the managed database of a stack to its Cluster.
//!
//! Nothing remembers how far a move is: each step follows from the objects in the cluster. Until the programs have the
//! Cluster, the managed database has every link, and the stack can go back to it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube_core::ResourceExt;
use serde_json::{Map, Value, json};

use super::{DATABASE, cluster, resolve};
use crate::{
    model::{
        cloud_native_pg::{Cluster, RUNNER, SOURCE, name, reference},
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        facts::{
            ClusterFact, MoveFacts, READ_ONLY, RunningServer, SERVER, StoreFacts, is_frozen,
            is_stopped,
        },
        metadata::{Component, component_name},
        pod_uses, quantity,
        stack::{DatabaseMove, MoveCopy, MoveStep, StoreCluster, ValidatedStack},
    },
    plan::{
        build::database_move::DIFFERS,
        error::{MoveProblem, ValidateError},
        stores::common::{StoreContext, with_template},
        verdict::{Verdict, View, patience::PODS_OVERDUE, pods},
    },
};

/// The least size of the Cluster's volume, as a fraction of the managed database's: five halves. The import keeps its dump beside
/// the copy, and the write-ahead log needs room too.
const SPACE: [u64; 2] = [5, 2];
/// The servers that have to be ready before the programs get the Cluster: with one alone, a write could wait for another.
const ENOUGH: i32 = 2;

/// Returns the move of a stack that asks for a Cluster, if its links are in a managed database yet.
///
/// # Errors
/// Something has to be done before the move begins or continues.
pub(in crate::plan) fn of(
    context: &StoreContext<'_>,
    found: Option<MoveFacts>,
    (database, cluster): (&StoreFacts, &ClusterFact),
    programs: &BTreeMap<Component, Arc<Deployment>>,
    wanted: Option<&StoreCluster>,
) -> Result<Option<DatabaseMove>, ValidateError> {
    let (Some(found), Some(wanted)) = (found, wanted) else {
        return Ok(None);
    };
    let stack = context.stack.name_any();
    let managed = component_name(&stack, Component::Postgres);
    let spec = context.stack.spec.database.cloud_native_pg.as_deref();
    let own = spec.map(|spec| reference(spec, &stack).secret.name);
    if *cluster == ClusterFact::Unserved || own.is_none_or(|own| is_used(programs, &own)) {
        return Ok(None);
    }
    let Some(step) = step(context, &found, wanted, is_used(programs, &managed))? else {
        return Ok(None);
    };
    let copy = match (&found.cluster, step >= MoveStep::Comparing) {
        (Some(live), true) => Some(MoveCopy {
            database: resolve(context, database.clone(), &ClusterFact::Started)?,
            uid: live.uid().unwrap_or_default(),
        }),
        _ => None,
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
    is_managed: bool,
) -> Result<Option<MoveStep>, ValidateError> {
    let stack = context.stack.name_any();
    let names = || (name(&stack), component_name(&stack, Component::Postgres));
    let live = found.cluster.as_ref();
    let is_going = live.is_some_and(|live| live.metadata.deletion_timestamp.is_some());
    let is_compared = found.is_compared() && !is_going;
    let Some(server) = &found.server else {
        let is_begun = live.map_or(is_managed, |live| live.imports());
        let (cluster, server) = names();
        let interrupted = MoveProblem::Interrupted { cluster, server };
        return match is_compared {
            true => Ok(Some(MoveStep::Switching)),
            false if is_begun => Err(ValidateError::Move(interrupted)),
            false => Ok(None),
        };
    };
    let Some(live) = live else {
        check(found, wanted, names().1)?;
        let is_ready = RunningServer::of(server).is_some_and(|server| server.is_ready);
        let begins = is_frozen(server) && is_ready;
        return Ok(Some(if begins {
            MoveStep::Importing
        } else {
            MoveStep::Freezing
        }));
    };
    if !is_frozen(server) {
        let (cluster, server) = names();
        return Err(ValidateError::Move(MoveProblem::ClusterExists {
            cluster,
            server,
        }));
    }
    Ok(Some(match is_compared {
        true if is_stopped(server) => MoveStep::Switching,
        true => MoveStep::Stopping,
        false if !is_going && has_enough_servers(live, wanted) => MoveStep::Comparing,
        false => MoveStep::Importing,
    }))
}

fn has_enough_servers(live: &Cluster, wanted: &StoreCluster) -> bool {
    let ready = live
        .status
        .as_ref()
        .map_or(0, |status| status.ready_instances);
    live.has_started() && ready >= wanted.members.min(ENOUGH)
}

/// Checks that the links can be imported.
fn check(found: &MoveFacts, wanted: &StoreCluster, claim: String) -> Result<(), ValidateError> {
    let bootstrap = wanted.template.get("bootstrap").and_then(Value::as_object);
    let mut ways = bootstrap.into_iter().flat_map(|bootstrap| bootstrap.keys());
    if let Some(way) = ways.find(|way| *way != "initdb") {
        return Err(ValidateError::ClusterTemplate {
            field: RUNNER.field,
            path: format!("bootstrap.{way}"),
            problem: "excludes the links of the managed database: remove it, or delete the StatefulSet of the managed database while the stack is paused",
        });
    }
    let storage = wanted
        .template
        .get("storage")
        .and_then(|storage| storage.get("size"));
    let size = storage.and_then(Value::as_str).unwrap_or(&wanted.storage.0);
    let present = found.claim.as_ref().and_then(|claim| claim.size());
    let bytes = |Quantity(size): &Quantity| quantity::bytes(size);
    let [needed, of] = SPACE;
    let least = present
        .and_then(bytes)
        .map(|bytes| bytes.saturating_mul(needed).div_ceil(of));
    match (quantity::bytes(size), least) {
        (Some(bytes), Some(least)) if bytes < least => {
            Err(ValidateError::Move(MoveProblem::TooSmall {
                wanted: size.to_owned(),
                claim,
                least: format!("{}Mi", least.div_ceil(1 << 20)),
            }))
        }
        _ => Ok(()),
    }
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

/// Adds the import of the managed database to the spec of a Cluster.
pub(super) fn add_import(spec: &mut Map<String, Value>, stack: &ValidatedStack) {
    let Some(moving) = &stack.database_move else {
        return;
    };
    let server = component_name(&stack.identity.name, Component::Postgres);
    let bootstrap = spec.entry("bootstrap").or_insert_with(|| json!({}));
    bootstrap["initdb"]["import"] = json!({
        "type": "microservice",
        "databases": [DATABASE],
        "source": {"externalCluster": SOURCE},
    });
    let source = json!({
        "name": SOURCE,
        "connectionParameters": {"host": server, "user": moving.username, "dbname": DATABASE},
        "password": {"name": server, "key": PASSWORD_KEY},
    });
    let sources = spec.entry("externalClusters").or_insert_with(|| json!([]));
    if let Some(sources) = sources.as_array_mut() {
        sources.push(source);
    }
}

/// Returns the StatefulSet of the managed database while its links move: as it is, but without writes. Its settings are no
/// longer in the spec.
pub(in crate::plan) fn stateful_set(stack: &ValidatedStack) -> Option<StatefulSet> {
    let moving = stack.database_move.as_ref()?;
    let live = moving.server.as_ref()?.spec.as_ref()?;
    let replicas = match moving.step {
        MoveStep::Freezing | MoveStep::Importing | MoveStep::Comparing => !stack.stopped,
        MoveStep::Stopping => false,
        // It stays as it is until the programs have the Cluster, and then it goes.
        MoveStep::Switching => return None,
    };
    let template = frozen(live.template.clone());
    let component = Component::Postgres;
    Some(with_template(
        &stack.identity,
        component,
        replicas.into(),
        template,
    ))
}

/// Returns the pod template of a server that takes no writes. Only the password of the Secret is still set.
fn frozen(mut template: PodTemplateSpec) -> PodTemplateSpec {
    let pod = template.spec.iter_mut();
    let mut containers = pod.flat_map(|pod| &mut pod.containers);
    let Some(server) = containers.find(|container| container.name == SERVER) else {
        return template;
    };
    let arguments = server.args.get_or_insert_default();
    if arguments.iter().any(|argument| argument == READ_ONLY) {
        return template;
    }
    arguments.extend(["-c", READ_ONLY].map(str::to_owned));
    let start = server
        .lifecycle
        .as_mut()
        .and_then(|lifecycle| lifecycle.post_start.as_mut());
    let command = start.and_then(|start| start.exec.as_mut()?.command.as_mut()?.last_mut());
    if let Some(script) = command {
        let writes = "export PGOPTIONS='-c default_transaction_read_only=off'\n";
        script.insert_str(0, writes);
    }
    template
}

/// Returns the verdict on a database whose links move: redirects are served, and writes are not.
pub(super) fn verdict(view: View<'_>, moving: &DatabaseMove) -> Option<Verdict> {
    let failure = view.stack.held.get(&Component::Postgres)?;
    if view.stack.stopped {
        let message = "the links move when the stack runs: set spec.stopped to false";
        return Some(Verdict::no("Stopped", message));
    }
    let problem = match moving.step {
        MoveStep::Freezing => pods::problem(view.live, Component::Postgres),
        MoveStep::Importing => stuck(view),
        MoveStep::Comparing => differs(view).or_else(|| {
            let problem = pods::problem(view.live, Component::Move);
            // It may take long.
            problem.filter(|problem| problem.reason != PODS_OVERDUE.reason)
        }),
        MoveStep::Stopping | MoveStep::Switching => None,
    };
    let message = failure.message.clone();
    Some(match problem {
        Some(problem) => Verdict {
            message: format!("{}; {message}", problem.message),
            ..problem
        },
        None => Verdict::no(failure.reason, message),
    })
}

/// Returns the verdict on a Cluster that CloudNativePG cannot make.
fn stuck(view: View<'_>) -> Option<Verdict> {
    let said = view.live.cluster.as_deref()?.phase()?;
    cluster::is_stuck(&said).then(|| Verdict::fault("ClusterStuck", said))
}

/// Returns the verdict on a copy that differs.
fn differs(view: View<'_>) -> Option<Verdict> {
    let ends = pods::of(&view.live.pods, Component::Move).flat_map(|pod| {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        containers.into_iter().flatten()
    });
    let mut ends = ends.filter_map(|container| {
        let now = container
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        let last = container.last_state.as_ref();
        now.or_else(|| last.and_then(|state| state.terminated.as_ref()))
    });
    let end = ends.find(|end| end.exit_code == DIFFERS)?;
    let tables = end
        .message
        .as_deref()
        .unwrap_or_default()
        .trim()
        .replace('\n', ", ");
    let cluster = name(&view.stack.identity.name);
    Some(Verdict::fault(
        "MoveDiffers",
        format!(
            "the managed database has every link, and Cluster {cluster} differs from it ({tables}): delete the Cluster for another import (kubectl delete clusters.postgresql.cnpg.io {cluster}), or set database.managed again while the stack is paused"
        ),
    ))
}
