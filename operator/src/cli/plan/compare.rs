//! The steps of a plan: reads the facts and the live objects, builds the wanted ones, and compares both.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, future};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, Client, Resource, ResourceExt};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        cloud_native_pg,
        defaults::Defaults,
        facts::{Facts, HOST_CONFLICT},
        metadata::{Component, StackIdentity},
        rabbitmq_cluster,
        stack::HostConflict,
    },
    plan::{
        self, Plan, ValidateError,
        diff::{self, Changes, LiveChildren},
    },
};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{HeldComponent, PlanError, PlanReport, neighbours::Neighbours};
use crate::{
    kubernetes::{
        children::{self, ReadError, present},
        dry_run,
        inventory::Inventory,
        refusal,
        watch_report::Reports,
    },
    reconcile::{
        context::{Context, GuardedStack, Scope},
        gather,
    },
    server::{health::Health, metrics::Metrics},
};

/// Time limit for the first lists of the watches.
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// Uid of a stack that does not exist yet.
const NEW_STACK_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Plans a stack in a cluster that has neither it nor an object of it.
pub(super) fn with_nothing(
    mut stack: ShortenerStack,
    defaults: &Defaults,
) -> Result<PlanReport, PlanError> {
    adopt(&mut stack, None);
    let identity = identity(&stack)?;
    let facts = plan::presume(&stack, identity);
    let note = "compared with an empty cluster, in which every Secret that the spec refers to is taken to exist";
    let mut report = report(&stack, facts, defaults, &LiveChildren::new())?;
    report.notes.push(note.to_owned());
    Ok(report)
}

/// Plans a stack in a cluster. Reads, and asks whether changes would be accepted, but stores nothing.
pub(super) async fn with_cluster(
    client: Client,
    mut stack: ShortenerStack,
    defaults: Defaults,
) -> Result<PlanReport, PlanError> {
    let namespace = stack.namespace().unwrap_or_default();
    let existing = existing(&client, &namespace, &stack.name_any()).await?;
    let exists = existing.is_some();
    if !exists {
        check_namespace(&client, &namespace).await?;
    }
    adopt(&mut stack, existing);
    let identity = identity(&stack)?;
    // These reads name the permission that is missing, so they come before the watches, which only end in a timeout.
    children::read(&client, &identity, &[]).await?;
    let neighbours = Neighbours::read(&client, &namespace).await?;
    let unseen = neighbours.note(&stack);
    let (scope, _watching) = scope(&client, &namespace, defaults.clone(), neighbours).await?;
    let facts = gather::gather(&scope, &stack, identity.clone()).await;
    let facts = facts.map_err(|source| ReadError {
        what: format!("the Secrets and volume claims of the stack in namespace {namespace}"),
        source,
    })?;
    let facts = plan::foresee(&stack, facts);
    let wanted = plan::plan(&stack, facts.clone(), &defaults)
        .map_err(refusal)?
        .desired;
    let live = children::read(&client, &identity, &diff::children(&wanted)?).await?;
    let objects = diff::objects(&wanted)?;
    let mut report = report(&stack, facts, &defaults, &live)?;
    report.exists = exists;
    report.notes.extend(unseen);
    let asked = dry_run::confirm(&client, &namespace, objects, &mut report.changes).await;
    report
        .notes
        .extend(asked.err().map(|error| error.to_string()));
    Ok(report)
}

fn identity(stack: &ShortenerStack) -> Result<StackIdentity, PlanError> {
    StackIdentity::of(stack).ok_or_else(|| "the ShortenerStack has no name".into())
}

fn refusal(error: ValidateError) -> String {
    format!("the operator would refuse this spec: {error}")
}

/// Gives a stack from a file what the API server has set on the live one, or would set on a new one. Annotations of the
/// live one stay.
fn adopt(stack: &mut ShortenerStack, existing: Option<GuardedStack>) {
    let metadata = &mut stack.metadata;
    let Some(existing) = existing else {
        metadata.uid = Some(NEW_STACK_UID.to_owned());
        metadata.creation_timestamp = Some(Time(jiff::Timestamp::now()));
        return;
    };
    let live = existing.meta().clone();
    // To an unedited spec the operator adds what its last status says, such as that an autoscaler chose the number of pods.
    let unedited = existing.0.ok().filter(|live| live.spec == stack.spec);
    metadata.uid = live.uid;
    metadata.creation_timestamp = live.creation_timestamp;
    let edits = i64::from(unedited.is_none());
    metadata.generation = live.generation.map(|generation| generation + edits);
    let mut annotations = live.annotations.unwrap_or_default();
    annotations.extend(metadata.annotations.take().unwrap_or_default());
    metadata.annotations = Some(annotations);
    stack.status = unedited.and_then(|live| live.status);
}

fn report(
    stack: &ShortenerStack,
    facts: Facts,
    defaults: &Defaults,
    live: &LiveChildren,
) -> Result<PlanReport, PlanError> {
    let mut notes = Vec::new();
    if stack.spec.paused {
        notes.push(
            "the stack is paused: the operator changes nothing until spec.paused is false"
                .to_owned(),
        );
    }
    let conflict = facts.gateway.host_conflict.as_ref().map(without_hosts);
    let planned = plan::plan(stack, facts, defaults).map_err(refusal)?;
    let waiting = planned.stack.pending.iter();
    let waiting: Vec<&str> = waiting.map(|change| change.workload.as_str()).collect();
    if !waiting.is_empty() {
        notes.push(format!(
            "upgradePolicy OnSpecChange keeps the pods of {} as an earlier release made them: an edit of the spec lets \
             them change",
            waiting.join(", ")
        ));
    }
    let changes = diff::diff(&planned, live)?;
    notes.extend(first(&planned, &changes));
    let held = planned.stack.held.iter();
    let held = held.filter(|(_, failure)| !failure.waits);
    let held = held.map(|(component, failure)| HeldComponent {
        component: component.as_str(),
        reason: failure.reason,
        message: failure.message.clone(),
    });
    Ok(PlanReport {
        namespace: stack.namespace().unwrap_or_default(),
        name: stack.name_any(),
        exists: false,
        changes,
        held: conflict.into_iter().chain(held).collect(),
        notes,
    })
}

/// Returns the gateway of a stack that does not get its hosts: its routes stay as they are.
fn without_hosts(conflict: &HostConflict) -> HeldComponent {
    let HostConflict {
        holder,
        hosts,
        place,
        ..
    } = conflict;
    let hosts = HostConflict::title(hosts);
    HeldComponent {
        component: Component::Gateway.as_str(),
        reason: HOST_CONFLICT,
        message: format!("stack {holder} already serves {hosts} on {place}: change gateway.hosts"),
    }
}

/// Returns what comes first, where the rest has to wait for it.
fn first(planned: &Plan, changes: &Changes) -> BTreeSet<String> {
    let made = changes.created.iter().filter_map(|child| {
        let runners = [&cloud_native_pg::RUNNER, &rabbitmq_cluster::RUNNER];
        let runner = runners
            .into_iter()
            .find(|runner| runner.kind == child.kind)?;
        let operator = runner.operator;
        Some(format!(
            "first {operator} makes {child}, then what needs it follows"
        ))
    });
    let steps = planned.stack.held.values();
    let steps = steps.filter(|failure| failure.waits);
    made.chain(steps.map(|step| format!("only the next step is planned: {}", step.message)))
        .collect()
}

/// Returns the live stack of this name, if there is one.
async fn existing(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<GuardedStack>, PlanError> {
    let stacks: Api<GuardedStack> = Api::namespaced(client.clone(), namespace);
    let what = format!("ShortenerStack {name} in namespace {namespace}");
    Ok(present(stacks.get(name).await, || what)?)
}

/// Checks that the namespace of a new stack exists, as far as the user may read it.
async fn check_namespace(client: &Client, namespace: &str) -> Result<(), PlanError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_metadata(namespace).await {
        Err(kube::Error::Api(status)) if refusal::is_absent(&status) => Err(format!(
            "namespace {namespace} does not exist: check the file and --namespace, create it, or use --offline"
        )
        .into()),
        _ => Ok(()),
    }
}

/// Returns a scope as reconciles have it, with the objects of one namespace. Its watches end with the handle.
async fn scope(
    client: &Client,
    namespace: &str,
    defaults: Defaults,
    neighbours: Neighbours,
) -> Result<(Scope, AbortOnDropHandle<()>), PlanError> {
    let Neighbours {
        stacks,
        ingresses,
        routes,
        ..
    } = neighbours;
    let context = Context::new(
        client.clone(),
        defaults,
        1,
        Metrics::new()?,
        Health::default(),
    );
    let known = (Some(namespace.to_owned()), stacks.clone());
    context.stacks.write().push(known);
    let reports = Reports {
        metrics: &context.metrics,
        health: &context.health,
        namespace: Some(namespace),
    };
    let (inventory, changes) = Inventory::watch(client, reports);
    context.hosts.add(ingresses, routes);
    let watching = tokio::spawn(changes.for_each(|_| future::ready(())));
    let watching = AbortOnDropHandle::new(watching);
    if !matches!(timeout(LIST_LIMIT, inventory.ready()).await, Ok(Ok(()))) {
        return Err(format!(
            "cannot list and watch the objects in namespace {namespace} within {} s: check that you may get, list and watch \
             the kinds of a stack's objects, its pods and the metadata of Secrets",
            LIST_LIMIT.as_secs()
        )
        .into());
    }
    let scope = Scope {
        context: Arc::new(context),
        inventory,
        entry_points: Arc::default(),
        stacks,
    };
    Ok((scope, watching))
}
