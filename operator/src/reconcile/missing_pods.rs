//! The reason for which a StatefulSet lacks pods. Kubernetes tells that of a Deployment in a condition, but that of a
//! StatefulSet in an Event alone. The Events of a StatefulSet are read while its pods are missing for an unknown reason, and
//! never at rest.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::StatefulSet, events::v1::Event};
use kube::{Api, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        live::{Live, Workload},
        metadata::{Component, StackIdentity, component_name},
    },
    plan::conditions::reported_failure,
};
use tokio::time::{Instant, timeout};

use super::{apply::Cause, context::Scope};
use crate::rabbitmq::queues::StackKey;

/// Time for which pods are missing before the Events are read. Pods that can be created are there by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time until Events that tell no reason are read again. It is doubled each time.
const RECHECK: Duration = Duration::from_secs(10);
/// Longest time until Events that tell no reason are read again.
const LONGEST_RECHECK: Duration = Duration::from_secs(300);
/// Time limit of a read, because the status waits for it.
const LIMIT: Duration = Duration::from_secs(3);
/// Maximum number of Events to read. Kubernetes writes fewer about one object within the hour for which it keeps them.
const MOST: u32 = 200;
/// Reason of the Event about a pod that could not be created.
const FAILED: &str = "FailedCreate";
/// Reason of the Event about a pod that was created.
const CREATED: &str = "SuccessfulCreate";

/// Uid and resource version of a StatefulSet.
type Version = (Option<String>, Option<String>);

/// The known reasons for missing pods.
#[derive(Default)]
pub struct MissingPods(Mutex<HashMap<StackKey, BTreeMap<Component, Search>>>);

/// The search for the reason for which one StatefulSet lacks pods.
struct Search {
    /// The StatefulSet that lacks pods. Another version of it may lack them for another reason.
    version: Version,
    /// The reason, if it is known.
    reason: Option<String>,
    /// Time of the next read of the Events; `None` once they have told the reason.
    next: Option<Instant>,
    /// Time from that read to the one after it.
    pause: Duration,
}

impl Search {
    fn begin(version: Version, reason: Option<String>, now: Instant) -> Self {
        Self {
            version,
            reason,
            next: Some(now + PATIENCE),
            pause: RECHECK,
        }
    }

    /// Keeps what the Events have told, or that they could not be read.
    fn hear<E>(&mut self, told: Result<Option<String>, E>, now: Instant) {
        self.next = Some(now + self.pause);
        self.pause = LONGEST_RECHECK.min(self.pause * 2);
        if let Ok(reason) = told {
            self.reason = reason;
            self.next = self.next.filter(|_| self.reason.is_none());
        }
    }
}

impl MissingPods {
    /// Adds the known reasons to the workloads of a stack that lack pods.
    pub fn explain(&self, stack: &StackKey, workloads: &mut BTreeMap<Component, Workload>) {
        let all = self.0.lock();
        for (component, search) in all.get(stack).into_iter().flatten() {
            let workload = workloads.get_mut(component);
            if let Some(workload) = workload.filter(|workload| workload.lacks_pods()) {
                workload.failure.clone_from(&search.reason);
            }
        }
    }

    /// Removes the state of a stack that is deleted.
    pub fn forget(&self, stack: &StackKey) {
        self.0.lock().remove(stack);
    }

    /// Goes on with the searches for the StatefulSets that lack pods, and ends those for all others. Returns the components
    /// whose Events are to be read now. A search begins with the reason that the status has, so that a restart of the operator
    /// changes nothing there.
    fn due(
        &self,
        stack: &StackKey,
        lacking: &BTreeMap<Component, Version>,
        reported: impl Fn(Component) -> Option<String>,
        now: Instant,
    ) -> Vec<Component> {
        let mut all = self.0.lock();
        if lacking.is_empty() {
            all.remove(stack);
            return Vec::new();
        }
        let searches = all.entry(stack.clone()).or_default();
        searches.retain(|component, _| lacking.contains_key(component));
        for (component, version) in lacking {
            let begin = |reason| Search::begin(version.clone(), reason, now);
            let search = searches.entry(*component);
            let search = search.or_insert_with(|| begin(reported(*component)));
            if search.version != *version {
                // Its reason stays until another one is known, so that the status does not change to and fro.
                *search = begin(search.reason.take());
            }
        }
        let due = searches.iter().filter(|(_, search)| {
            let next = search.next;
            next.is_some_and(|next| next <= now)
        });
        due.map(|(component, _)| *component).collect()
    }

    fn heard<E>(
        &self,
        stack: &StackKey,
        component: Component,
        told: Result<Option<String>, E>,
        now: Instant,
    ) {
        let mut all = self.0.lock();
        let searches = all.get_mut(stack);
        if let Some(search) = searches.and_then(|searches| searches.get_mut(&component)) {
            search.hear(told, now);
        }
    }

    /// Returns the time until the next read for a stack.
    fn rest(&self, stack: &StackKey, now: Instant) -> Duration {
        let all = self.0.lock();
        let searches = all.get(stack).into_iter().flatten();
        let next = searches.filter_map(|(_, search)| search.next).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }
}

/// Looks for the reasons for which StatefulSets of a stack lack pods, and adds those that are known to the live state. Returns
/// the time after which the stack is due again; the longest of all if there is nothing to look for.
pub(super) async fn follow(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
    live: &mut Live,
) -> Duration {
    let reported = |component| reported_failure(stack.status.as_ref()?, component);
    let (missing, stack) = (&scope.context.missing_pods, identity.key());
    let sets = lacking(scope, identity, live);
    let versions = sets.iter().map(|(component, set)| {
        let metadata = &set.metadata;
        let version = (metadata.uid.clone(), metadata.resource_version.clone());
        (*component, version)
    });
    let due = missing.due(&stack, &versions.collect(), reported, Instant::now());
    let reads = due.into_iter().filter_map(|component| {
        let set = sets.get(&component)?;
        Some(async move { (component, read(scope, set).await) })
    });
    for (component, told) in join_all(reads).await {
        if let Err(cause) = &told {
            tracing::warn!(%cause, stack = %identity.name, namespace = %identity.namespace, component = component.as_str(), "the Events about missing pods cannot be read, so the status does not name the reason: check the operator's right to list events.k8s.io");
        }
        missing.heard(&stack, component, told, Instant::now());
    }
    missing.explain(&stack, &mut live.workloads);
    missing.rest(&stack, Instant::now())
}

/// Returns the StatefulSets of a stack that lack pods.
fn lacking(
    scope: &Scope,
    identity: &StackIdentity,
    live: &Live,
) -> BTreeMap<Component, Arc<StatefulSet>> {
    let workloads = live.workloads.iter();
    let lacking = workloads.filter(|(_, workload)| workload.lacks_pods());
    let sets = lacking.filter_map(|(component, _)| {
        let name = component_name(&identity.name, *component);
        let inventory = &scope.inventory;
        let set = inventory.kept::<StatefulSet>(&identity.namespace, &name)?;
        Some((*component, set))
    });
    sets.collect()
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

    fn stack() -> StackKey {
        ("links".to_owned(), "acme".to_owned())
    }

    fn lacks(version: &str) -> BTreeMap<Component, Version> {
        let version = (Some("uid".to_owned()), Some(version.to_owned()));
        [(Component::Postgres, version)].into()
    }

    /// Returns what a status without a failure tells.
    fn unknown(_: Component) -> Option<String> {
        None
    }

    /// Returns the seconds at which Events are read within ten minutes, when they tell this each time.
    fn reads(missing: &MissingPods, told: &Result<Option<String>, ()>) -> Vec<u64> {
        let start = Instant::now();
        let (mut seconds, mut reads) = (0, Vec::new());
        while seconds < 600 {
            let now = start + Duration::from_secs(seconds);
            for component in missing.due(&stack(), &lacks("1"), unknown, now) {
                missing.heard(&stack(), component, told.clone(), now);
                reads.push(seconds);
            }
            let rest = missing.rest(&stack(), now).as_secs();
            seconds = seconds.saturating_add(rest.max(1));
        }
        reads
    }

    #[test]
    fn events_are_read_until_they_tell_the_reason_and_ever_more_rarely() {
        let often = [5, 15, 35, 75, 155, 315];
        assert_eq!(reads(&MissingPods::default(), &Ok(None)), often);
        assert_eq!(reads(&MissingPods::default(), &Err(())), often);
        let reason = Ok(Some("exceeded quota".to_owned()));
        assert_eq!(reads(&MissingPods::default(), &reason), [5]);
    }

    #[test]
    fn a_known_reason_stays_until_the_pods_exist_or_another_one_is_known() {
        let missing = MissingPods::default();
        reads(&missing, &Ok(Some("exceeded quota".to_owned())));
        let failure = |wanted: i32| {
            let workload = Workload {
                wanted,
                observed: true,
                ..Workload::default()
            };
            let mut workloads = [(Component::Postgres, workload)].into();
            missing.explain(&stack(), &mut workloads);
            workloads[&Component::Postgres].failure.clone()
        };
        assert_eq!(failure(1).as_deref(), Some("exceeded quota"));
        assert_eq!(failure(0), None);
        let now = Instant::now();
        assert!(missing.due(&stack(), &lacks("2"), unknown, now).is_empty());
        assert_eq!(failure(1).as_deref(), Some("exceeded quota"));
        let later = now + PATIENCE;
        let due = missing.due(&stack(), &lacks("2"), unknown, later);
        assert_eq!(due, [Component::Postgres]);
        missing.heard(&stack(), Component::Postgres, Err(()), later);
        assert_eq!(failure(1).as_deref(), Some("exceeded quota"));
        missing.heard::<()>(&stack(), Component::Postgres, Ok(None), later);
        assert_eq!(failure(1), None);
        let none = BTreeMap::new();
        assert!(missing.due(&stack(), &none, unknown, later).is_empty());
        assert_eq!(missing.rest(&stack(), later), Duration::MAX);
        assert!(missing.0.lock().is_empty());
    }
}
