//! The trace of a reconcile: its first span says which stack, and how it ended. The steps and their requests add
//! spans of their own.

use kube::{Resource, ResourceExt, runtime::controller::Action};

use super::{
    Error,
    context::{Context, GuardedStack},
};
use crate::telemetry::span::in_span;

/// Name of the first span.
const NAME: &str = "reconcile ShortenerStack";

/// Runs a reconcile, with a trace of its own if it is one of those that are traced.
pub async fn traced(
    context: &Context,
    stack: &GuardedStack,
    work: impl Future<Output = Result<Action, Error>>,
) -> Result<Action, Error> {
    let Some(mut span) = context.tracer.root(NAME) else {
        return work.await;
    };
    span.set("k8s.namespace.name", stack.namespace().unwrap_or_default());
    span.set("shortener.stack.name", stack.name_any());
    let meta = stack.meta();
    if let Some(uid) = &meta.uid {
        span.set("shortener.stack.uid", uid.clone());
    }
    if let Some(generation) = meta.generation {
        span.set("shortener.stack.generation", generation);
    }
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

/// Returns the error type and the description of a step that failed.
pub(super) fn failure<T>(result: &Result<T, Error>) -> Option<(&'static str, String)> {
    let error = result.as_ref().err()?;
    Some((error.reason(), error.to_string()))
}
