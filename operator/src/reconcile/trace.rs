//! The trace of a reconcile: its first span says which stack, why, and how it ended. The steps and their requests add
//! spans of their own.

use kube::{Resource, ResourceExt, runtime::controller::Action};

use super::{
    Error,
    context::{Context, GuardedStack},
    trigger::Trigger,
};
use crate::telemetry::span::{Span, in_span};

/// Name of the first span.
const NAME: &str = "reconcile ShortenerStack";

/// Runs a reconcile, with a trace of its own if it is one of those that are traced.
pub async fn traced(
    context: &Context,
    stack: &GuardedStack,
    work: impl Future<Output = Result<Action, Error>>,
) -> Result<Action, Error> {
    if !context.tracer.is_on() {
        return work.await;
    }
    let key = (stack.namespace().unwrap_or_default(), stack.name_any());
    let trigger = context.triggers.take(&key);
    let Some(mut span) = context.tracer.root(NAME) else {
        return work.await;
    };
    let (namespace, name) = key;
    span.set("k8s.namespace.name", namespace);
    span.set("shortener.stack.name", name);
    describe(&mut span, stack, trigger);
    let result = in_span(&span, work).await;
    match &result {
        Ok(_) => span.set("shortener.reconcile.outcome", "ok"),
        Err(error) => span
            .set("shortener.reconcile.outcome", error.reason())
            .fail(error.reason(), &error.to_string()),
    };
    span.end();
    result
}

fn describe(span: &mut Span, stack: &GuardedStack, trigger: Option<Trigger>) {
    let meta = stack.meta();
    if let Some(uid) = &meta.uid {
        span.set("shortener.stack.uid", uid.clone());
    }
    if let Some(generation) = meta.generation {
        span.set("shortener.stack.generation", generation);
    }
    let trigger = match trigger {
        Some(trigger) => trigger.to_string(),
        None if is_new(stack) => "spec".to_owned(),
        // A retry, the resync, or a change of nothing but the metadata or the status.
        None => "timer".to_owned(),
    };
    span.set("shortener.reconcile.trigger", trigger);
}

/// Returns true when no reconcile has reported this generation of the stack yet.
fn is_new(stack: &GuardedStack) -> bool {
    stack.0.as_ref().is_ok_and(|stack| {
        let status = stack.status.as_ref();
        let reported = status.and_then(|status| status.observed_generation);
        reported != stack.metadata.generation
    })
}

/// Returns the error type and the description of a step that failed.
pub(super) fn failure<T>(result: &Result<T, Error>) -> Option<(&'static str, String)> {
    let error = result.as_ref().err()?;
    Some((error.reason(), error.to_string()))
}
