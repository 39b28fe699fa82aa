//! The known reasons for which StatefulSets lack pods, and the times at which their Events are read.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use parking_lot::Mutex;
use shortener_operator_core::model::{
    live::Workload,
    metadata::{Component, StackKey},
};
use tokio::time::Instant;

/// Time for which pods are missing before the Events are read. Pods that can be created are there by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time until Events that tell no reason are read again. It is doubled each time.
const RECHECK: Duration = Duration::from_secs(10);
/// Longest time until Events that tell no reason are read again.
const LONGEST_RECHECK: Duration = Duration::from_secs(300);

/// Uid and resource version of a StatefulSet.
pub type Version = (Option<String>, Option<String>);

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
    pub fn due(
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

    /// Keeps what the Events about a component have told, or that they could not be read.
    pub fn heard<E>(
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
    pub fn rest(&self, stack: &StackKey, now: Instant) -> Duration {
        let all = self.0.lock();
        let searches = all.get(stack).into_iter().flatten();
        let next = searches.filter_map(|(_, search)| search.next).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
