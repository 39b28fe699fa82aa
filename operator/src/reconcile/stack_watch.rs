//! The watch of the stacks: those that are due after a change, and the end of what is kept of a stack that is gone.

use std::sync::Arc;

use futures::{
    StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef},
        watcher::{self, Event, watcher},
    },
};

use super::{
    class::Division,
    context::{Context, GuardedStack},
    wake::{self, Stacks},
};
use crate::kubernetes::{
    index::Indexer,
    inventory::{LAST_APPLIED, PAGE, WATCH_TIMEOUT},
    news::News,
    watch_report::Reports,
};

/// A stream of stacks that are due for a reconcile.
pub(super) type Triggers = BoxStream<'static, ObjectRef<GuardedStack>>;

/// Watches the stacks. Returns them, and those that are due for a reconcile after a change.
pub(super) fn watch_stacks(context: &Arc<Context>, reports: Reports<'_>) -> (Stacks, Triggers) {
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
    let config = watcher::Config::default()
        .timeout(WATCH_TIMEOUT)
        .page_size(PAGE);
    let triggers = watcher(api, config)
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
pub(super) fn forget(context: &Context, stack: &ObjectRef<GuardedStack>) {
    context.succeeded(stack);
    let namespace = stack.namespace.clone().unwrap_or_default();
    let key = (namespace, stack.name.clone());
    context.queues.forget(&key);
    context.backends.forget(&key);
    context.sole_entry.forget(&key);
    context.end_to_end.forget(&key);
    context.missing_pods.forget(&key);
    // Last, because those before record no metric of a stack that they have forgotten.
    context.metrics.forget_stack(&key.0, &key.1);
    context.triggers.take(&key);
    let uid = stack.extra.uid.as_deref();
    context.hosts.forget(uid.unwrap_or_default());
}
