//! Registration of a stack with the monitors and the probes, which observe it between its reconciles. Each reconcile repeats
//! it with the spec that it has validated.

use k8s_openapi::api::{batch::v1::CronJob, core::v1::Pod};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        metadata::{Component, StackIdentity},
        stack::{Drain, ValidatedStack},
    },
    plan::{
        conditions, has_succeeded,
        short_links::manager,
        stores::external::{self, Informant},
    },
};

use super::context::{Context, Scope};
use crate::rabbitmq::queues::Target;

/// Registers the stack for all observations.
pub(super) fn stack(
    scope: &Scope,
    stack: &ShortenerStack,
    validated: &ValidatedStack,
    drain: Drain,
) {
    queue(scope, stack, validated, drain);
    stores(scope, stack, validated);
    probes(scope, validated);
    purge(scope, validated);
}

/// Records the number of workers, once it is applied.
pub(super) fn workers(scope: &Scope, validated: &ValidatedStack) {
    let workers = validated.queue.as_ref().map(|queue| &queue.workers);
    let count = workers.and_then(|workers| workers.count().cloned());
    let key = validated.identity.key();
    scope.context.queues.scaled(&key, count);
}

/// Names the broker to query about the stack's queue. Without one, no depth is exported any more.
fn queue(scope: &Scope, stack: &ShortenerStack, validated: &ValidatedStack, drain: Drain) {
    let (context, key) = (&scope.context, validated.identity.key());
    context.queues.decided(&key, drain);
    let target = Target::of(validated, stack.spec.paused);
    let is_queried = target.is_some();
    context.queues.target(&key, target);
    if !is_queried {
        let (namespace, name) = &key;
        context.metrics.forget_queue(namespace, name);
    }
}

/// Stops all that changes something of a stack between its reconciles: the limits of its queue are not enforced, and no
/// end-to-end probe makes links and jobs.
pub(super) fn rest(scope: &Scope, identity: &StackIdentity) {
    let (context, key) = (&scope.context, identity.key());
    context.queues.pause(&key);
    context.end_to_end.follow(&key, None);
    let (namespace, name) = &key;
    context.metrics.probes.forget_end_to_end(namespace, name);
}

/// Names the pod through which links are managed, whatever the spec says and whether it can be followed.
pub(super) fn links(scope: &Scope, identity: &StackIdentity) {
    let (managers, key) = (&scope.context.managers, identity.key());
    let pods = scope.inventory.of_stack::<Pod>(&key.0, &key.1);
    match manager(&pods) {
        Some(pod) => managers.entries().insert(key.clone(), pod),
        None => managers.entries().remove(&key),
    };
    // Even if the pod is the same, because the stack may allow other links now.
    managers.tell(&key);
}

/// Exports what the statuses of the stack's drills say, also while the stack cannot be parsed or its reconcile fails.
pub(super) fn drills(context: &Context, identity: &StackIdentity) {
    let key = identity.key();
    let drills = context.drills.of_stack(&key);
    context.metrics.drills(&key.0, &key.1, &drills);
}

/// Names the pod that tells the state of the stores.
fn stores(scope: &Scope, stack: &ShortenerStack, validated: &ValidatedStack) {
    let key = validated.identity.key();
    let pod = (!validated.stopped).then(|| {
        let (namespace, name) = &key;
        Informant::among(&scope.inventory.of_stack::<Pod>(namespace, name))
    });
    let reported = || stack.status.as_ref().map(external::reported);
    let backends = &scope.context.backends;
    backends.follow_from(&key, pod.flatten(), reported);
}

/// Exports if the last removal of expired data that was due has succeeded.
fn purge(scope: &Scope, validated: &ValidatedStack) {
    let (namespace, stack) = validated.identity.key();
    let live = scope.child::<CronJob>(&validated.identity, Component::Purge);
    let succeeded = live.and_then(|live| has_succeeded(&live));
    let metrics = &scope.context.metrics;
    metrics.purged(&namespace, &stack, succeeded);
}

/// Names what is tried with the stack: connections past its gateway, and an end-to-end probe through it.
fn probes(scope: &Scope, validated: &ValidatedStack) {
    let (context, key) = (&scope.context, validated.identity.key());
    let (namespace, name) = (key.0.as_str(), key.1.as_str());
    let pods = scope.inventory.of_stack::<Pod>(namespace, name);
    let attempts = conditions::attempts(validated, &pods);
    context.sole_entry.follow(&key, attempts);
    let metrics = &context.metrics.probes;
    // The last result is as true while pods are missing.
    if !conditions::allows_attempts(validated) {
        metrics.policies_enforced(namespace, name, None);
    }
    let target = conditions::target(validated);
    let untried = target.is_none();
    context.end_to_end.follow(&key, target);
    if untried {
        metrics.forget_end_to_end(namespace, name);
    }
}
