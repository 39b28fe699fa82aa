//! Controllers, which turn watch events into reconciles: one per namespace, or one for the whole cluster.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    StreamExt,
    channel::mpsc,
    future,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        controller::{Action, Controller},
        reflector::{self, ObjectRef},
        watcher::{self, Event, watcher},
    },
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    kubernetes::{
        index::Indexer,
        inventory::{Change, Inventory, LAST_APPLIED},
        news::News,
        openings::Openings,
        refusal::NAMESPACE_TERMINATING,
        watch_report::Reports,
    },
    reconcile::{
        Error, RESYNC,
        class::Division,
        context::{Context, GuardedStack, Scope, shortened},
        pace::paced,
        reconcile,
        wake::{self, Stacks},
    },
};

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
    let (openings, opened) = Openings::watch(&context.client, reports);
    context.hosts.follow(&inventory);
    let scope = Arc::new(Scope {
        context: context.clone(),
        inventory,
        openings,
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
    tracing::info!(scope = scope_name, "reconciling");
    let store = stacks.store.clone();
    let due = {
        let heard = stream::select_all([
            context.queues.listen(),
            context.backends.listen(),
            context.sole_entry.listen(),
            context.end_to_end.listen(),
        ]);
        let of_openings = {
            let stacks = stacks.clone();
            opened.flat_map(move |namespace| stream::iter(stacks.inside(namespace.as_deref())))
        };
        let of_children = {
            let stacks = stacks.clone();
            receiver.flat_map(move |change| stream::iter(due(&context, &stacks, &change)))
        };
        let of_servers = heard
            .filter_map(move |(namespace, name)| future::ready(stacks.known(&namespace, &name)));
        let of_others = stream::select(of_openings, of_servers);
        stream::select(triggers, stream::select(of_children, of_others))
    };
    // The watch of the stacks is among the streams that are paced, so the controller gets none of its own. An error in
    // that one would delay the events of all others.
    Controller::for_stream(stream::pending(), store)
        .reconcile_on(paced(due, REST))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(measured, retry, scope)
        .for_each(|_| future::ready(()))
        .await;
}

type Triggers = BoxStream<'static, ObjectRef<GuardedStack>>;

fn watch_stacks(context: &Arc<Context>, reports: Reports<'_>) -> (Stacks, Triggers) {
    let api: Api<GuardedStack> = match reports.namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    };
    let (store, writer) = reflector::store();
    let (readers, mut indexer) = Indexer::new(wake::secrets);
    let stacks = Stacks { store, readers };
    context.stacks.write().push(stacks.store.clone());
    let (mut division, others) = Division::new(&context.class);
    context.others.write().push(others);
    let (mut report, mut news) = (reports.of::<GuardedStack>(true), News::new(essence));
    let (context, found) = (context.clone(), stacks.clone());
    let triggers = watcher(api, watcher::Config::default().timeout(60))
        .default_backoff()
        .modify(trim)
        .inspect(move |event| report.see(event))
        .filter_map(move |event| {
            let own = event.map(|event| division.own(event));
            future::ready(own.transpose())
        })
        .inspect(move |event| {
            if let Ok(event) = event {
                indexer.see(event);
            }
        })
        .reflect(writer)
        .flat_map(move |event| {
            stream::iter(match event {
                Ok(Event::Apply(stack)) => {
                    let reference = ObjectRef::from_obj(&stack);
                    // Every failure may have a text of its own in the status, which would defeat the backoff.
                    let waits = !news.see(&stack) && context.is_failing(&reference);
                    if waits { Vec::new() } else { vec![reference] }
                }
                // The objects of a list are in the store only now.
                Ok(Event::InitDone) => {
                    for gone in news.forget_gone(|known| found.store.get(known).is_some()) {
                        forget(&context, &gone);
                    }
                    found.all()
                }
                Ok(Event::InitApply(stack)) => {
                    news.see(&stack);
                    Vec::new()
                }
                Ok(Event::Delete(stack)) => {
                    news.forget(&stack);
                    forget(&context, &ObjectRef::from_obj(&stack));
                    Vec::new()
                }
                Ok(Event::Init) | Err(_) => Vec::new(),
            })
        })
        .boxed();
    (stacks, triggers)
}

/// Removes the metadata that nothing reads and that is as large as the stack.
fn trim(stack: &mut GuardedStack) {
    let meta = stack.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

/// Returns the parts of a stack that change with everything but its status. A status that cannot be parsed counts.
fn essence(stack: &GuardedStack) -> Option<String> {
    let meta = stack.meta();
    let parts = (
        &meta.uid,
        meta.generation,
        &meta.labels,
        &meta.annotations,
        &meta.deletion_timestamp,
        stack.0.is_ok(),
    );
    serde_json::to_string(&parts).ok()
}

/// Removes the state of a deleted stack.
fn forget(context: &Context, stack: &ObjectRef<GuardedStack>) {
    context.succeeded(stack);
    let namespace = stack.namespace.clone().unwrap_or_default();
    let key = (namespace, stack.name.clone());
    context.metrics.forget_stack(&key.0, &key.1);
    context.queues.forget(&key);
    context.backends.forget(&key);
    context.sole_entry.forget(&key);
    context.end_to_end.forget(&key);
    let uid = stack.extra.uid.as_deref();
    context.hosts.forget(uid.unwrap_or_default());
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
        let key = (kind.clone(), namespace.clone(), name.clone());
        context.ledger.forget(&key);
    }
    stacks.concerned(change)
}

async fn measured(stack: Arc<GuardedStack>, scope: Arc<Scope>) -> Result<Action, Error> {
    let context = &scope.context;
    let started = Instant::now();
    let result = reconcile(stack.clone(), scope.clone()).await;
    context
        .metrics
        .reconciled(started.elapsed(), result.as_ref().err().map(Error::reason));
    if result.is_ok() {
        context.succeeded(&ObjectRef::from_obj(&*stack));
    }
    result
}

/// Returns the next step after a failed reconcile. A resource that cannot be parsed waits for a change. So does an
/// invalid one, whose Secrets wake it too, but it is checked again from time to time. Any other failure is retried with
/// exponential backoff.
fn retry(stack: Arc<GuardedStack>, error: &Error, scope: Arc<Scope>) -> Action {
    let (name, namespace) = (stack.name_any(), stack.namespace().unwrap_or_default());
    let reason = error.reason();
    if reason == NAMESPACE_TERMINATING {
        tracing::info!(stack = %name, %namespace, "the namespace of the stack is being deleted, so nothing is reconciled");
    } else {
        tracing::warn!(stack = %name, %namespace, reason, %error, "the stack could not be reconciled");
    }
    let (context, reference) = (&scope.context, ObjectRef::from_obj(&*stack));
    let rest = match error {
        Error::Unreadable(_) => Action::await_change(),
        Error::Validate(_) => Action::requeue(shortened(RESYNC)),
        _ => return Action::requeue(context.failed(&reference)),
    };
    // It is not retried, so there is no backoff to keep.
    context.succeeded(&reference);
    rest
}
