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
        controller::{Action, Config, Controller},
        reflector::{self, ObjectRef, Store},
        watcher::{self, Event, watcher},
    },
};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{facts::parent, gateway_api::Gateway},
    plan::references::reads_secret,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    kubernetes::{
        inventory::{Change, Inventory},
        refusal::NAMESPACE_TERMINATING,
    },
    reconcile::{
        Error,
        context::{Context, GuardedStack, Scope},
        reconcile,
        trace::traced,
        trigger::Trigger,
    },
};

/// Debounce interval: a burst of events for one stack leads to one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Reconciles the stacks of a namespace, or of the whole cluster, until `shutdown` is cancelled. Reconciles in flight
/// finish first.
pub async fn run(context: Arc<Context>, namespace: Option<String>, shutdown: CancellationToken) {
    let (stacks, triggers) = watch_stacks(&context, namespace.as_deref());
    let (inventory, changes) = Inventory::watch(&context.client, namespace.as_deref());
    let scope = Arc::new(Scope {
        context: context.clone(),
        inventory,
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
    tracing::info!(scope = scope_name, "reconciling");
    let due = {
        let (context, stacks) = (context.clone(), stacks.clone());
        let heard = stream::select(context.queues.listen(), context.backends.listen());
        let of_children = {
            let (context, stacks) = (context.clone(), stacks.clone());
            receiver.flat_map(move |change| stream::iter(due(&context, &stacks, change)))
        };
        let of_servers = heard.filter_map(move |(namespace, name)| {
            let due = known(&stacks, &namespace, &name);
            note(&context, due.as_slice(), Some(Trigger::Server));
            future::ready(due)
        });
        stream::select(of_children, of_servers)
    };
    Controller::for_stream(triggers, stacks)
        .with_config(Config::default().debounce(DEBOUNCE))
        .reconcile_on(due)
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(measured, retry, scope)
        .for_each(|_| future::ready(()))
        .await;
}

type Triggers = BoxStream<'static, Result<GuardedStack, watcher::Error>>;

fn watch_stacks(
    context: &Arc<Context>,
    namespace: Option<&str>,
) -> (Store<GuardedStack>, Triggers) {
    let api: Api<GuardedStack> = match namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    };
    let (reader, writer) = reflector::store();
    context.stacks.write().push(reader.clone());
    let context = context.clone();
    let triggers = watcher(api, watcher::Config::default().timeout(60))
        .default_backoff()
        .reflect(writer)
        .inspect(move |event| {
            if let Ok(Event::Delete(stack)) = event {
                context.succeeded(&ObjectRef::from_obj(stack));
                let key = (stack.namespace().unwrap_or_default(), stack.name_any());
                context.metrics.forget_stack(&key.0, &key.1);
                context.queues.forget(&key);
                context.backends.forget(&key);
                context.triggers.take(&key);
            }
        })
        .applied_objects()
        .boxed();
    (reader, triggers)
}

/// Returns the stacks that are due for a reconcile after a change.
fn due(
    context: &Context,
    stacks: &Store<GuardedStack>,
    change: Change,
) -> Vec<ObjectRef<GuardedStack>> {
    let trigger = context.tracer.is_on().then(|| Trigger::of(&change));
    let due = match change {
        Change::Relisted => stacks
            .state()
            .iter()
            .map(|stack| ObjectRef::from_obj(stack.as_ref()))
            .collect(),
        Change::Object {
            kind,
            namespace,
            name,
            stack,
            deleted,
        } => {
            let is_gateway = kind == Gateway::kind(&());
            if deleted {
                context
                    .ledger
                    .forget(&(kind, namespace.clone(), name.clone()));
            }
            match stack {
                // Its labels are those of its owner.
                _ if is_gateway => users_of_gateway(stacks, &namespace, &name),
                // Retained volumes and credentials may carry the label of a stack that is gone.
                Some(stack) => known(stacks, &namespace, &stack).into_iter().collect(),
                None => users_of_secret(stacks, &namespace, &name),
            }
        }
    };
    note(context, &due, trigger);
    due
}

/// Keeps the cause of reconciles that are due, for their traces.
fn note(context: &Context, due: &[ObjectRef<GuardedStack>], trigger: Option<Trigger>) {
    let Some(trigger) = trigger.filter(|_| context.tracer.is_on()) else {
        return;
    };
    for stack in due {
        let namespace = stack.namespace.clone().unwrap_or_default();
        let key = (namespace, stack.name.clone());
        context.triggers.note(key, trigger.clone());
    }
}

/// Returns the reference of a stack, if this scope contains it.
fn known(
    stacks: &Store<GuardedStack>,
    namespace: &str,
    name: &str,
) -> Option<ObjectRef<GuardedStack>> {
    let stack = stacks.get(&ObjectRef::new(name).within(namespace))?;
    Some(ObjectRef::from_obj(&*stack))
}

/// Returns the stacks that read a Secret without an instance label: one of the user, or one of the operator that lost
/// its labels.
fn users_of_secret(
    stacks: &Store<GuardedStack>,
    namespace: &str,
    secret: &str,
) -> Vec<ObjectRef<GuardedStack>> {
    users(stacks, |stack| {
        stack.metadata.namespace.as_deref() == Some(namespace) && reads_secret(stack, secret)
    })
}

/// Returns the stacks that are attached to a Gateway.
fn users_of_gateway(
    stacks: &Store<GuardedStack>,
    namespace: &str,
    name: &str,
) -> Vec<ObjectRef<GuardedStack>> {
    users(stacks, |stack| parent(stack) == Some((namespace, name)))
}

/// Returns the stacks that parse and match.
fn users(
    stacks: &Store<GuardedStack>,
    matches: impl Fn(&ShortenerStack) -> bool,
) -> Vec<ObjectRef<GuardedStack>> {
    let found = stacks.state_filter(|stack| stack.0.as_ref().is_ok_and(&matches));
    found
        .iter()
        .map(|stack| ObjectRef::from_obj(stack.as_ref()))
        .collect()
}

async fn measured(stack: Arc<GuardedStack>, scope: Arc<Scope>) -> Result<Action, Error> {
    let context = &scope.context;
    let started = Instant::now();
    let work = async {
        let result = reconcile(stack.clone(), scope.clone()).await;
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
    if result.is_ok() {
        context.succeeded(&ObjectRef::from_obj(&*stack));
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

/// Returns the next step after a failed reconcile. A resource that is invalid or cannot be parsed waits for a change;
/// any other failure is retried with exponential backoff.
fn retry(stack: Arc<GuardedStack>, error: &Error, scope: Arc<Scope>) -> Action {
    match error {
        Error::Validate(_) | Error::Unreadable(_) => Action::await_change(),
        _ => Action::requeue(scope.context.failed(&ObjectRef::from_obj(&*stack))),
    }
}
