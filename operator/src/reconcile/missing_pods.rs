//! The reason for which a StatefulSet lacks pods. Kubernetes tells that of a Deployment in a condition, but that of a
//! StatefulSet in an Event alone. The Events of a StatefulSet are read while its pods are missing, and never at rest.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::StatefulSet, events::v1::Event};
use kube::{Api, ResourceExt, api::ListParams};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{live::Live, metadata::StackIdentity},
    plan::conditions::reported_failure,
};
use tokio::time::timeout;

use super::{apply::Cause, context::Scope};

/// Time limit of a read, because the status waits for it.
const LIMIT: Duration = Duration::from_secs(3);
/// Time until Events that told no reason are read again. Later ones wake nothing.
const RECHECK: Duration = Duration::from_secs(10);
/// Maximum number of Events to read. Kubernetes writes fewer about one object within the hour for which it keeps them.
const MOST: u32 = 200;
/// Reason of the Event about a pod that could not be created.
const FAILED: &str = "FailedCreate";
/// Reason of the Event about a pod that was created.
const CREATED: &str = "SuccessfulCreate";

/// Looks for the reasons for which StatefulSets of a stack lack pods, and adds them to the live state. Returns the time after
/// which the stack is due again, if a reason is unknown. What cannot be read stays as the status has it.
pub(super) async fn follow(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
    live: &mut Live,
) -> Option<Duration> {
    let workloads = live.workloads.iter_mut();
    let lacking = workloads.filter(|(_, workload)| workload.lacks_pods());
    let reads = lacking.filter_map(|(component, workload)| {
        let set = scope.child::<StatefulSet>(identity, *component)?;
        Some(async move {
            let told = read(scope, &set).await;
            let unknown = matches!(told, Ok(None));
            workload.failure = told.unwrap_or_else(|cause| {
                tracing::warn!(%cause, stack = %identity.name, namespace = %identity.namespace, component = component.as_str(), "the Events about missing pods cannot be read, so the status does not name the reason: check the operator's right to list events.k8s.io");
                reported_failure(stack.status.as_ref()?, *component)
            });
            unknown
        })
    });
    let unknown = join_all(reads).await;
    unknown.contains(&true).then_some(RECHECK)
}

/// Reads the reason in the Events about a StatefulSet; `None` if they tell none.
async fn read(scope: &Scope, set: &StatefulSet) -> Result<Option<String>, Cause> {
    let namespace = set.namespace().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(scope.context.client.clone(), &namespace);
    let about = format!(
        "regarding.kind=StatefulSet,regarding.name={},regarding.uid={}",
        set.name_any(),
        set.uid().unwrap_or_default()
    );
    let wanted = ListParams::default().fields(&about).limit(MOST);
    let list = timeout(LIMIT, events.list(&wanted)).await;
    let list = list.map_err(|_| Cause::Timeout)??;
    Ok(reason(list.items))
}

/// Returns the reason for which the last attempt to create a pod failed; `None` if it did not fail, or there was none.
fn reason(events: Vec<Event>) -> Option<String> {
    let attempts = events.into_iter().filter(|event| {
        let reason = event.reason.as_deref();
        matches!(reason, Some(FAILED | CREATED))
    });
    let last = attempts.max_by_key(last_time)?;
    let note = last.note?;
    if last.reason.as_deref() != Some(FAILED) {
        return None;
    }
    // Before it stand the names of the pod and the StatefulSet.
    let cause = note.split_once(" failed error: ");
    Some(cause.map_or(note.as_str(), |(_, cause)| cause).to_owned())
}

/// Returns the time of the last occurrence of an Event.
fn last_time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref();
    let times = [
        series.map(|series| series.last_observed_time.0),
        event.deprecated_last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
    ];
    times.into_iter().flatten().max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(reason: &str, seconds: u8, note: &str) -> Value {
        let time = format!("2026-01-01T00:00:{seconds:02}Z");
        json!({"metadata": {}, "reason": reason, "note": note, "deprecatedLastTimestamp": time})
    }

    fn told(events: &[Value]) -> Option<String> {
        let events = events.iter().cloned();
        reason(
            events
                .map(|event| serde_json::from_value(event).unwrap())
                .collect(),
        )
    }

    #[test]
    fn the_last_attempt_to_create_a_pod_decides() {
        let failed = |seconds: u8, quota: &str| {
            let note = format!(
                "create Pod acme-postgres-0 in StatefulSet acme-postgres failed error: exceeded quota: {quota}"
            );
            event(FAILED, seconds, &note)
        };
        let created = |seconds: u8| event(CREATED, seconds, "create Pod successful");
        let deleted = event("SuccessfulDelete", 9, "delete Pod successful");
        let named = Some("exceeded quota: new".to_owned());
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[failed(2, "new"), failed(1, "old")]), named);
        assert_eq!(
            told(&[created(1), failed(2, "new"), deleted.clone()]),
            named
        );
        assert_eq!(told(&[failed(1, "old"), created(2)]), None);
        // Both of one second are in the order of their names, which contain the time.
        assert_eq!(told(&[created(1), failed(1, "new")]), named);
        assert_eq!(told(&[deleted]), None);
        let again = json!({"count": 3, "lastObservedTime": "2026-01-01T00:00:05.5Z"});
        let mut series = event(FAILED, 1, "no policy allows it");
        series["series"] = again;
        assert_eq!(
            told(&[series, created(3)]).as_deref(),
            Some("no policy allows it")
        );
    }
}
