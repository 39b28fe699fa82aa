//! The watch of the stacks: those that are due after a change, and the end of what is kept of a stack that is gone.

use std::sync::Arc;

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, store::Writer},
        watcher::{self, Event, watcher},
    },
};

use super::{
    context::{Context, GuardedStack, is_of},
    wake::Stacks,
};
use crate::kubernetes::{
    inventory::{LAST_APPLIED, PAGE, WATCH_TIMEOUT},
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
    let (store, mut writer) = reflector::store();
    let stacks = Stacks {
        store,
        class: context.class.clone(),
    };
    let scope = reports.namespace.map(str::to_owned);
    context.stacks.write().push((scope, stacks.store.clone()));
    let mut report = reports.of::<GuardedStack>(true);
    let (context, known) = (context.clone(), stacks.clone());
    let config = watcher::Config::default()
        .timeout(WATCH_TIMEOUT)
        .page_size(PAGE);
    let triggers = watcher(api, config)
        .default_backoff()
        .modify(trim)
        .inspect(move |event| report.see(event))
        .flat_map(move |event| {
            let due = event.map(|event| due(&context, &known, &mut writer, &event));
            stream::iter(due.unwrap_or_default())
        })
        .boxed();
    (stacks, triggers)
}

/// Keeps what an event tells. Returns the stacks that are due for a reconcile.
fn due(
    context: &Context,
    known: &Stacks,
    writer: &mut Writer<GuardedStack>,
    event: &Event<GuardedStack>,
) -> Vec<ObjectRef<GuardedStack>> {
    let before = match event {
        Event::Apply(stack) => {
            let before = known.store.get(&ObjectRef::from_obj(stack));
            before.into_iter().collect()
        }
        Event::InitDone => known.store.state(),
        Event::Delete(_) | Event::Init | Event::InitApply(_) => Vec::new(),
    };
    writer.apply_watcher_event(event);
    match event {
        Event::Apply(stack) => {
            let reference = ObjectRef::from_obj(stack);
            if !is_of(&known.class, stack) {
                // It may have passed to another operator. Nothing deletes its objects.
                forget(context, &reference);
                return Vec::new();
            }
            // Every failure may have a text of its own in the status, which would defeat the backoff.
            let is_news = before
                .first()
                .is_none_or(|before| essence(before) != essence(stack));
            if is_news || !context.is_failing(&reference) {
                vec![reference]
            } else {
                Vec::new()
            }
        }
        // The objects of a list are in the store only now. It has no event for a stack that was deleted while the watch was
        // interrupted.
        Event::InitDone => {
            let before = before.iter().map(|stack| ObjectRef::from_obj(&**stack));
            for gone in before.filter(|stack| !known.has(stack)) {
                forget(context, &gone);
            }
            known.all()
        }
        Event::Delete(stack) => {
            forget(context, &ObjectRef::from_obj(stack));
            Vec::new()
        }
        Event::Init | Event::InitApply(_) => Vec::new(),
    }
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
fn essence(stack: &GuardedStack) -> (ObjectMeta, bool) {
    let metadata = ObjectMeta {
        resource_version: None,
        ..stack.meta().clone()
    };
    (metadata, stack.0.is_ok())
}

/// Removes the state of a deleted stack.
pub(super) fn forget(context: &Context, stack: &ObjectRef<GuardedStack>) {
    context.succeeded(stack);
    context.specs.forget(stack);
    let namespace = stack.namespace.clone().unwrap_or_default();
    let key = (namespace, stack.name.clone());
    context.queues.forget(&key);
    context.backends.forget(&key);
    context.sole_entry.forget(&key);
    context.end_to_end.forget(&key);
    // Last, because those before record no metric of a stack that they have forgotten.
    context.metrics.forget_stack(&key.0, &key.1);
    context.managers.forget(&key);
    context.managers.tell(&key);
}
