//! Controllers, which turn watch events into reconciles: one per namespace, or one for the whole cluster.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    Stream, StreamExt,
    channel::mpsc,
    future,
    stream::{self, BoxStream},
};
use kube::{
    ResourceExt,
    runtime::{
        controller::{Action, Controller},
        reflector::ObjectRef,
    },
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    kubernetes::{
        entry_points::{Concerned, EntryPoints},
        inventory::{Change, Inventory},
        refusal::NAMESPACE_TERMINATING,
        watch_report::Reports,
    },
    reconcile::{
        Error, RESYNC, caught,
        context::{Context, GuardedStack, Scope, shortened},
        pace::paced,
        reconcile,
        stack_watch::{Triggers, forget, watch_stacks},
        trace::traced,
        wake::Stacks,
    },
};

/// Time until a stack is reconciled again that was not there for its status. Its watch tells earlier if it is deleted.
const GONE_RECHECK: Duration = Duration::from_secs(1);
/// Shortest time between two reconciles of a stack that events cause.
const REST: Duration = Duration::from_millis(100);

/// Reconciles the stacks of a namespace, or of the whole cluster, until `shutdown` is cancelled. Reconciles in flight
/// finish first.
pub async fn run(context: Arc<Context>, namespace: Option<String>, shutdown: CancellationToken) {
    let reports = Reports {
        metrics: &context.metrics,
        health: &context.health,
        namespace: namespace.as_deref(),
    };
    let (stacks, triggers) = watch_stacks(&context, reports);
    let (inventory, changes) = Inventory::watch(&context.client, reports);
    let (entry_points, opened) = EntryPoints::watch(&context.client, reports);
    context.hosts.follow(&inventory);
    let scope = Arc::new(Scope {
        context: context.clone(),
        inventory,
        entry_points,
        stacks: stacks.store.clone(),
    });
    // The inventory fills only while its stream is polled, and no reconcile may start before its first lists are
    // complete. The handle stops the watches when this function ends or is dropped.
    let (sender, receiver) = mpsc::unbounded();
    let _watching = AbortOnDropHandle::new(tokio::spawn(
        shutdown
            .clone()
            .run_until_cancelled_owned(changes.map(Ok).forward(sender)),
    ));
    let scope_name = namespace.as_deref().unwrap_or("all namespaces");
    tracing::info!(scope = scope_name, "listing the watched objects");
    if !matches!(
        shutdown.run_until_cancelled(scope.inventory.ready()).await,
        Some(Ok(()))
    ) {
        return;
    }
    context.hosts.listed().await;
    let drills = context.drills.follow(&context.client, reports);
    let Some(_drilling) = shutdown.run_until_cancelled(drills).await else {
        return;
    };
    tracing::info!(scope = scope_name, "reconciling");
    let store = stacks.store.clone();
    let due = all_due(&context, stacks, triggers, receiver, opened);
    // The watch of the stacks is among the streams that are paced, so the controller gets none of its own. An error in
    // that one would delay the events of all others.
    Controller::for_stream(stream::pending(), store)
        .reconcile_on(paced(due, REST))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(measured, retry, scope)
        .for_each(|_| future::ready(()))
        .await;
}

/// Returns the stacks that are due for a reconcile: those that changed, and those that a change of other objects or the
/// news of a server concern.
fn all_due(
    context: &Arc<Context>,
    stacks: Stacks,
    changed: Triggers,
    changes: impl Stream<Item = Change> + Send + 'static,
    opened: BoxStream<'static, Concerned>,
) -> Triggers {
    let heard = stream::select_all([
        context.queues.listen(),
        context.backends.listen(),
        context.sole_entry.listen(),
        context.end_to_end.listen(),
        context.drills.listen(),
    ]);
    let of_openings = {
        let stacks = stacks.clone();
        opened.flat_map(move |namespace| stream::iter(stacks.inside(namespace.as_deref())))
    };
    let of_servers = {
        let stacks = stacks.clone();
        heard.filter_map(move |(namespace, name)| future::ready(stacks.known(&namespace, &name)))
    };
    let context = context.clone();
    let of_children = changes.flat_map(move |change| stream::iter(due(&context, &stacks, &change)));
    let of_others = stream::select(of_openings, of_servers);
    stream::select(changed, stream::select(of_children, of_others)).boxed()
}

/// Returns the stacks that are due for a reconcile after a change.
fn due(context: &Context, stacks: &Stacks, change: &Change) -> Vec<ObjectRef<GuardedStack>> {
    if let Change::Object {
        kind,
        namespace,
        name,
        deleted: true,
        ..
    } = change
    {
        context.writes.forget(kind, namespace, name);
    }
    stacks.concerned(change)
}

async fn measured(stack: Arc<GuardedStack>, scope: Arc<Scope>) -> Result<Action, Error> {
    let context = &scope.context;
    let started = Instant::now();
    let work = async {
        let result = match caught(reconcile(stack.clone(), scope.clone())).await {
            Err(error) if error.is_absence() => Ok(Action::requeue(GONE_RECHECK)),
            result => result,
        };
        // Here and not in `retry`, which runs outside the trace.
        if let Err(error) = &result {
            log(&stack, error);
        }
        result
    };
    let result = traced(context, &stack, work).await;
    context
        .metrics
        .reconciled(started.elapsed(), result.as_ref().err().map(Error::reason));
    let reference = ObjectRef::from_obj(&*stack);
    if scope.own_stack(&reference).is_none() {
        // It was deleted or has passed to another class meanwhile, and what the reconcile then kept of it would stay.
        forget(context, &reference);
    }
    if result.is_ok() {
        context.succeeded(&reference);
    }
    result
}

fn log(stack: &GuardedStack, error: &Error) {
    let (name, namespace) = (stack.name_any(), stack.namespace().unwrap_or_default());
    let reason = error.reason();
    if reason == NAMESPACE_TERMINATING {
        tracing::info!(stack = %name, %namespace, "the namespace of the stack is being deleted, so nothing is reconciled");
    } else {
        tracing::warn!(stack = %name, %namespace, reason, %error, "the stack could not be reconciled");
    }
}

/// Returns the next step after a failed reconcile. A resource that cannot be parsed waits for a change. So does an
/// invalid one, whose Secrets wake it too, but it is checked again from time to time. Any other failure is retried with
/// exponential backoff.
fn retry(stack: Arc<GuardedStack>, error: &Error, scope: Arc<Scope>) -> Action {
    let (context, reference) = (&scope.context, ObjectRef::from_obj(&*stack));
    let rest = match error {
        Error::Unreadable(_) => Action::await_change(),
        Error::Validate(_) | Error::UnknownFields(_) => Action::requeue(shortened(RESYNC)),
        _ => return Action::requeue(context.failed(&reference)),
    };
    // It is not retried, so there is no backoff to keep.
    context.succeeded(&reference);
    rest
}
