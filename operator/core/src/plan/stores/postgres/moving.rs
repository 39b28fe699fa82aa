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
        cloud_native_pg::{Cluster, READY, RUNNER, SOURCE, name, secret},
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        facts::{
            ClusterFact, MoveFacts, READ_ONLY, RunningServer, SERVER, StoreFacts, is_frozen,
            is_stopped,
        },
        metadata::{Component, component_name},
        pod_uses, quantity,
        stack::{DatabaseMove, MoveCopy, MoveStep, StoreCluster, ValidatedStack},
        version::Version,
    },
    plan::{
        build::database_move::DIFFERS,
        error::{MoveProblem, ValidateError},
        stores::common::{StoreContext, with_template},
        verdict::{
            Verdict, View,
            patience::{IMPORT_OVERDUE, PODS_OVERDUE},
            pods,
        },
    },
};

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

/// Checks that the links can be imported.
fn check(found: &MoveFacts, wanted: &StoreCluster, claim: String) -> Result<(), ValidateError> {
    begins_empty(&wanted.template)?;
    reads_dump(found, &wanted.template)?;
    let storage = wanted.template.get("storage");
    let size = storage.and_then(|storage| storage.get("size"));
    let size = size.and_then(Value::as_str).unwrap_or(&wanted.storage.0);
    let present = found.claim.as_ref().and_then(|claim| claim.size());
    let present = present.and_then(|Quantity(size)| quantity::bytes(size));
    // The import keeps its dump beside the copy, and the write-ahead log needs room too.
    let least = present.map(|bytes| (bytes / 2).saturating_mul(5));
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

/// Checks that a template lets the Cluster begin with an import.
fn begins_empty(template: &Map<String, Value>) -> Result<(), ValidateError> {
    let fields = |value: Option<&Value>, path: &str| match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        Some(_) => Err(refusal(path, "is not an object: remove it")),
    };
    let bootstrap = fields(template.get("bootstrap"), "bootstrap")?;
    if let Some(way) = bootstrap.keys().find(|way| *way != "initdb") {
        let problem = "excludes the links of the managed database: remove it";
        return Err(refusal(&format!("bootstrap.{way}"), problem));
    }
    fields(bootstrap.get("initdb"), "bootstrap.initdb").map(|_| ())
}

/// Checks that the image of a template, if its tag has the version, reads a dump of the managed database.
fn reads_dump(found: &MoveFacts, template: &Map<String, Value>) -> Result<(), ValidateError> {
    let image = template.get("imageName").and_then(Value::as_str);
    let version = image.and_then(Version::of_image);
    let of_data = found.claim.as_ref().and_then(|claim| claim.version);
    let server = found.server.as_deref().and_then(RunningServer::of);
    let of_server = server.and_then(|server| Version::of_image(&server.image));
    match version.zip(of_data.or(of_server)) {
        Some((version, data)) if version.major < data.major => Err(refusal(
            "imageName",
            &format!(
                "is older than the managed database: set an image of PostgreSQL {} or later",
                data.major
            ),
        )),
        _ => Ok(()),
    }
}

fn refusal(path: &str, problem: &str) -> ValidateError {
    ValidateError::ClusterTemplate {
        field: RUNNER.field,
        path: path.to_owned(),
        problem: problem.to_owned(),
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
    let import = json!({
        "type": "microservice",
        "databases": [DATABASE],
        "source": {"externalCluster": SOURCE},
    });
    // The template may have been edited since it was checked.
    let mut bootstrap = json!({"initdb": {"database": DATABASE, "owner": DATABASE}});
    let own = spec.remove("bootstrap").filter(|own| {
        let initdb = own.get("initdb").is_none_or(Value::is_object);
        own.is_object() && initdb
    });
    if let Some(own) = own {
        json_patch::merge(&mut bootstrap, &own);
    }
    json_patch::merge(&mut bootstrap, &json!({"initdb": {"import": import}}));
    spec.insert("bootstrap".to_owned(), bootstrap);
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
    let managed = pods::problem(view.live, Component::Postgres)
        .or_else(|| pods::lost(view.live, Component::Postgres));
    let problem = managed.or_else(|| match moving.step {
        MoveStep::Importing => stuck(view),
        MoveStep::Comparing => differs(view).or_else(|| {
            let problem = pods::problem(view.live, Component::Move);
            // It may take long.
            problem.filter(|problem| problem.reason != PODS_OVERDUE.reason)
        }),
        MoveStep::Freezing | MoveStep::Stopping | MoveStep::Switching => None,
    });
    let message = failure.message.clone();
    Some(match problem {
        Some(problem) => Verdict {
            message: format!("{}; {message}", problem.message),
            ..problem
        },
        None => Verdict::no(failure.reason, message),
    })
}

/// Returns the verdict on a Cluster that CloudNativePG cannot make, or has been making for long.
fn stuck(view: View<'_>) -> Option<Verdict> {
    let live = view.live.cluster.as_deref()?;
    let said = live.phase()?;
    if cluster::is_stuck(&said) {
        return Some(Verdict::fault("ClusterStuck", said));
    }
    let conditions = live.status.iter().flat_map(|status| &status.conditions);
    let mut unready = conditions.filter(|found| found.type_ == READY && found.status != "True");
    let since = unready.next().map(|found| &found.last_transition_time);
    let is_over = IMPORT_OVERDUE.is_over(since, view.live.at);
    is_over.then(|| IMPORT_OVERDUE.fault("the import has not ended"))
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
