//! Writes the result of a reconcile: the status, if it differs, and Events for changed conditions.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Resource, ResourceExt,
    api::Patch,
    core::{DynamicObject, error_boundary::InvalidObject, gvk::GroupVersionKind},
    discovery::ApiResource,
    runtime::{
        controller::Action,
        events::{Event, EventType, Recorder},
    },
};
use serde_json::{Value, from_value, json};
use shortener_operator_core::{
    api::{ShortenerStack, ShortenerStackStatus},
    model::metadata::{FIELD_MANAGER, StackIdentity},
    plan::{
        self, Outcome,
        conditions::{
            BACKUP_READY, BACKUP_VERIFIED, DEGRADED, END_TO_END, MONITORING_REFUSED, SOLE_ENTRY,
            UNKNOWN_YET,
        },
    },
};
use tokio::time::timeout;

use super::{Error, apply::observe, context::Scope, follow};
use crate::{
    kubernetes::{
        events::{event, publish},
        patches::applying,
    },
    server::metrics::BackupMetrics,
};

/// Time for the Events of a report.
const EVENTS_TIME: Duration = Duration::from_secs(3);

/// Writes the status if it differs from the live one, and an Event for each condition that changed. Returns true while the
/// stack progresses without a fault.
///
/// # Errors
/// Fails if the API server refuses the status or does not answer.
pub async fn report(
    scope: &Scope,
    stack: &ShortenerStack,
    outcome: Outcome<'_>,
) -> Result<bool, Error> {
    let new = plan::status(stack, outcome, &Time(jiff::Timestamp::now()));
    let (namespace, name) = (stack.namespace().unwrap_or_default(), stack.name_any());
    let ready = (!stack.spec.stopped).then(|| plan::is_ready(&new));
    scope.context.metrics.stack_ready(&namespace, &name, ready);
    let desired = new.workers.desired_replicas;
    scope
        .context
        .metrics
        .workers_desired(&namespace, &name, desired);
    let backups = BackupMetrics::of(&new);
    scope.context.metrics.backups(&namespace, &name, backups);
    let progresses = plan::is_progressing(&new);
    if stack.status.as_ref() == Some(&new) {
        return Ok(progresses);
    }
    let stacks: Api<ShortenerStack> = Api::namespaced(scope.context.client.clone(), &namespace);
    let patch = status_patch(stack.metadata.uid.as_deref(), &name, &new);
    stacks
        .patch_status(&name, &applying(), &Patch::Apply(patch))
        .await
        .map_err(Error::Status)?;
    // Events are best effort: the status contains the same information.
    let recorder = &scope.context.recorder;
    let events = async {
        for condition in plan::changes(stack.status.as_ref(), &new) {
            publish(recorder, stack, of_condition(condition)).await;
        }
        if let Some(numbers) = plan::scaling(stack.status.as_ref(), &new) {
            // A Recorder counts a repeat, whose numbers differ, as one more of the Event before.
            let fresh = Recorder::new(scope.context.client.clone(), FIELD_MANAGER.into());
            publish(&fresh, stack, of_scaling(numbers)).await;
        }
    };
    if timeout(EVENTS_TIME, events).await.is_err() {
        tracing::warn!(stack = %name, %namespace, "the API server did not take the Events in time");
    }
    Ok(progresses)
}

/// Reports a resource that does not parse in the status of that resource, with the state of its children. One of another
/// class is left to its operator.
///
/// # Errors
/// Always fails for a resource of this operator: with [`Error::Unreadable`], or with [`Error::Status`] if the status could
/// not be read or written.
pub async fn unreadable(
    scope: &Scope,
    identity: &StackIdentity,
    invalid: &InvalidObject,
) -> Result<Action, Error> {
    let metadata = &invalid.metadata;
    let (namespace, name) = (identity.namespace.as_str(), identity.name.as_str());
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
    let live = stacks.get_status(name).await.map_err(Error::Status)?;
    let class = live.data["spec"]["operatorClass"].as_str();
    if class.unwrap_or_default() != scope.context.class {
        return Ok(Action::await_change());
    }
    follow::drills(&scope.context, identity);
    let previous = readable(&live.data["status"]);
    let now = Time(jiff::Timestamp::now());
    let seen = (&previous, &observe(scope, identity));
    let new = plan::unreadable(&invalid.error, identity, metadata.generation, seen, &now);
    let metrics = &scope.context.metrics;
    let stopped = live.data["spec"]["stopped"].as_bool() == Some(true);
    let ready = (!stopped).then(|| plan::is_ready(&new));
    metrics.stack_ready(namespace, name, ready);
    if new != previous {
        let patch = status_patch(metadata.uid.as_deref(), name, &new);
        stacks
            .patch_status(name, &applying(), &Patch::Apply(patch))
            .await
            .map_err(Error::Status)?;
    }
    Err(Error::Unreadable(invalid.error.clone()))
}

/// Reads as much of a status as possible: each field and each condition that parses.
fn readable(status: &Value) -> ShortenerStackStatus {
    let mut status = status.clone();
    let parses = |condition: &Value| from_value::<Condition>(condition.clone()).is_ok();
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(parses);
    }
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|field, value| {
            from_value::<ShortenerStackStatus>(json!({field: value})).is_ok()
        });
    }
    from_value(status).unwrap_or_default()
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

/// Returns the Event for a condition that changed. Its action is the type of the condition, because a Recorder counts one with
/// the action and the reason of an earlier one as a repeat of that.
fn of_condition(condition: &Condition) -> Event {
    let type_ = condition.type_.as_str();
    let degraded = type_ == DEGRADED && condition.status == "True";
    let measured = [SOLE_ENTRY, END_TO_END, BACKUP_READY, BACKUP_VERIFIED].contains(&type_);
    let is_known = !UNKNOWN_YET.contains(&condition.reason.as_str());
    let refuted = measured && is_known && condition.status == "False";
    let fault = degraded || refuted || condition.reason == MONITORING_REFUSED;
    let severity = if fault {
        EventType::Warning
    } else {
        EventType::Normal
    };
    let note = format!("{type_} is {}: {}", condition.status, condition.message);
    event(severity, type_, &condition.reason, note)
}

/// Returns the Event for a decided number of workers.
fn of_scaling((before, after): (i32, i32)) -> Event {
    let note = format!(
        "spec.workers.autoscaling changed the number of workers from {before} to {after} by the number of jobs"
    );
    event(EventType::Normal, "Scale", "WorkersScaled", note)
}

#[cfg(test)]
mod tests {
    use shortener_operator_core::model::live::Live;

    use super::*;
    use crate::testing::shared::stored_stack;

    fn condition(type_: &str) -> Value {
        json!({
            "type": type_, "status": "False", "reason": "InvalidSpec", "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    #[test]
    fn what_can_be_read_of_a_status_is_kept_where_the_rest_cannot() {
        let status = json!({
            "observedGeneration": 7,
            "conditions": [condition("Ready"), {"type": 1}],
            "app": "not an object",
            "volumes": {"database": "5Gi"},
        });
        let kept = readable(&status);
        assert_eq!(kept.observed_generation, Some(7));
        let types: Vec<_> = kept.conditions.iter().map(|kept| &kept.type_).collect();
        assert_eq!(types, ["Ready"]);
        let volumes = kept.volumes.unwrap();
        assert_eq!(volumes.database.as_deref(), Some("5Gi"));
        assert_eq!(readable(&Value::Null), ShortenerStackStatus::default());
    }

    #[test]
    fn a_status_that_cannot_be_read_is_corrected_once() {
        let broken = json!({"conditions": [condition("Ready"), condition("Degraded")], "app": 1});
        let at = |second| Time(jiff::Timestamp::from_second(second).unwrap());
        let stack = stored_stack(json!({}));
        let identity = StackIdentity::of(&stack).unwrap();
        let live = Live::default();
        let unreadable = |status: &Value, second| {
            let seen = (&readable(status), &live);
            plan::unreadable("spec.x: bad", &identity, Some(1), seen, &at(second))
        };
        let first = unreadable(&broken, 1);
        let ready = first.conditions.iter().find(|found| found.type_ == "Ready");
        assert_eq!(
            serde_json::to_value(&ready.unwrap().last_transition_time).unwrap(),
            json!("2026-01-01T00:00:00Z")
        );
        let mut written = serde_json::to_value(&first).unwrap();
        written["app"] = json!(1);
        let second = unreadable(&written, 2);
        assert_eq!(second, first);
    }
}
