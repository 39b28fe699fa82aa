//! Writes what a reconcile led to: the status, where it differs, and Events for what changed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::{DynamicObject, error_boundary::InvalidObject, gvk::GroupVersionKind},
    discovery::ApiResource,
    runtime::{
        controller::Action,
        events::{Event, EventType},
    },
};
use serde_json::{Value, json};

use super::{
    Error,
    conditions::DEGRADED,
    status::{self, Outcome},
};
use crate::{
    api::{ShortenerStack, ShortenerStackStatus},
    context::Scope,
    metadata::FIELD_MANAGER,
};

/// Writes the status if it differs from the live one, and an Event for each condition that changed.
///
/// # Errors
/// When the API server refuses the status or does not answer.
pub async fn report(
    scope: &Scope,
    stack: &ShortenerStack,
    outcome: Outcome<'_>,
) -> Result<(), Error> {
    let new = status::status(stack, outcome, &Time(jiff::Timestamp::now()));
    let (namespace, name) = (stack.namespace().unwrap_or_default(), stack.name_any());
    scope
        .context
        .metrics
        .stack_ready(&namespace, &name, status::is_ready(&new));
    if stack.status.as_ref() == Some(&new) {
        return Ok(());
    }
    let stacks: Api<ShortenerStack> = Api::namespaced(scope.context.client.clone(), &namespace);
    let patch = status_patch(stack.metadata.uid.as_deref(), &name, &new);
    stacks
        .patch_status(&name, &status_params(), &Patch::Apply(patch))
        .await
        .map_err(Error::Status)?;
    for condition in status::changes(stack.status.as_ref(), &new) {
        publish(scope, stack, condition).await;
    }
    Ok(())
}

/// Tells of a resource that does not parse, on that resource.
///
/// # Errors
/// [`Error::Unreadable`] always, or [`Error::Status`] if that could not be written.
pub async fn unreadable(scope: &Scope, invalid: &InvalidObject) -> Result<Action, Error> {
    let metadata = &invalid.metadata;
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else {
        return Err(Error::Incomplete);
    };
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(
            &ShortenerStack::group(&()),
            &ShortenerStack::version(&()),
            &ShortenerStack::kind(&()),
        ),
        &ShortenerStack::plural(&()),
    );
    let stacks: Api<DynamicObject> =
        Api::namespaced_with(scope.context.client.clone(), namespace, &kind);
    scope.context.metrics.stack_ready(namespace, name, false);
    let live = stacks.get_status(name).await.map_err(Error::Status)?;
    let previous: ShortenerStackStatus =
        serde_json::from_value(live.data.get("status").cloned().unwrap_or(Value::Null))
            .unwrap_or_default();
    let now = Time(jiff::Timestamp::now());
    let new = status::unreadable(&invalid.error, metadata.generation, &previous, &now);
    if new != previous {
        let patch = status_patch(metadata.uid.as_deref(), name, &new);
        stacks
            .patch_status(name, &status_params(), &Patch::Apply(patch))
            .await
            .map_err(Error::Status)?;
    }
    Err(Error::Unreadable(invalid.error.clone()))
}

fn status_params() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

fn status_patch(uid: Option<&str>, name: &str, status: &ShortenerStackStatus) -> Value {
    json!({
        "apiVersion": ShortenerStack::api_version(&()),
        "kind": ShortenerStack::kind(&()),
        // A stack that was recreated under this name gets a status of its own.
        "metadata": {"name": name, "uid": uid},
        "status": status,
    })
}

async fn publish(scope: &Scope, stack: &ShortenerStack, condition: &Condition) {
    let fault = condition.type_ == DEGRADED && condition.status == "True";
    let event = Event {
        type_: if fault {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: condition.reason.clone(),
        note: Some(format!(
            "{} is {}: {}",
            condition.type_, condition.status, condition.message
        )),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    // An Event is a courtesy: without it the status still tells.
    if let Err(error) = scope
        .context
        .recorder
        .publish(&event, &stack.object_ref(&()))
        .await
    {
        tracing::warn!(%error, stack = %stack.name_any(), "an Event could not be published");
    }
}
