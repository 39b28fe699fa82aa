//! Patience with states that time often resolves: while their time lasts they are progress, and then a fault.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};

use super::Verdict;

/// A state that time often resolves.
pub(in crate::plan) struct Patience {
    /// Reason of the fault.
    pub(in crate::plan) reason: &'static str,
    /// Time that the state may take.
    minutes: i64,
    /// End of the sentence about the fault.
    remedy: &'static str,
}

/// No node fits a pod. An autoscaler of the cluster adds one within minutes.
pub(in crate::plan) const UNSCHEDULABLE: Patience = Patience {
    reason: "Unschedulable",
    minutes: 5,
    remedy: "add a node, or lower what the pod requests",
};
/// No node that fits a pod can use its volume.
pub(in crate::plan) const VOLUME_ELSEWHERE: Patience = Patience {
    reason: "Unschedulable",
    minutes: 5,
    remedy: "add a node where its volume can be used, or restore a backup into a new stack if that place is gone",
};
/// A pod is not ready and does not crash.
pub(in crate::plan) const PODS_OVERDUE: Patience = Patience {
    reason: "PodsOverdue",
    minutes: 10,
    remedy: "look at kubectl describe pod and at its logs",
};
/// CloudNativePG imports the links of a managed database, and writes wait.
pub(in crate::plan) const IMPORT_OVERDUE: Patience = Patience {
    reason: "ImportOverdue",
    minutes: 30,
    remedy: "look at kubectl logs -l cnpg.io/jobRole=import; a large database takes longer",
};
/// A pod has not ended after its grace period, and nothing replaces it until it has.
pub(in crate::plan) const NODE_LOST: Patience = Patience {
    reason: "NodeLost",
    minutes: 1,
    remedy: "it starts again when the node is back. If the node is gone for good, delete its Node object, or taint it \
             with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute: the pod then starts elsewhere, unless its \
             volume is on that node or in its zone: restore a backup then",
};
/// A volume grows.
pub(in crate::plan) const VOLUME_NOT_GROWN: Patience = Patience {
    reason: "VolumeNotGrown",
    minutes: 10,
    remedy: "look at kubectl describe pvc and at the driver of the storage class",
};
/// The clients of a managed store that is ready get no answer. They connect again soon after a restart of it.
pub(in crate::plan) const UNREACHABLE: Patience = Patience {
    reason: "Unreachable",
    minutes: 2,
    remedy: "check the log of the store's pod, and the network policies between it and the app",
};

impl Patience {
    /// Returns true when the time of a state that began at `since` is over.
    pub(in crate::plan) fn is_over(&self, since: Option<&Time>, now: Timestamp) -> bool {
        let limit = SignedDuration::from_mins(self.minutes);
        since.is_some_and(|since| now.duration_since(since.0) > limit)
    }

    /// Returns the verdict on a state: progress until its time is over, then a fault. `waiting` is the reason of the former.
    pub(in crate::plan) fn verdict(
        &self,
        waiting: &'static str,
        what: &str,
        since: Option<&Time>,
        now: Timestamp,
    ) -> Verdict {
        if self.is_over(since, now) {
            self.fault(what)
        } else {
            Verdict::no(waiting, what).moving()
        }
    }

    /// Returns the verdict on a state that has lasted for longer than its time.
    pub(in crate::plan) fn fault(&self, what: &str) -> Verdict {
        Verdict::fault(self.reason, format!("{what}: {}", self.remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_progress_until_its_time_is_over() {
        let since = Time(Timestamp::UNIX_EPOCH);
        for (seconds, fault) in [(0, false), (300, false), (301, true)] {
            let now = Timestamp::from_second(seconds).unwrap();
            let found = UNSCHEDULABLE.verdict("Unschedulable", "no node", Some(&since), now);
            assert_eq!((found.fault, found.moves), (fault, !fault), "{found:?}");
            assert!(!UNSCHEDULABLE.is_over(None, now));
        }
    }

    #[test]
    fn the_page_names_each_reason_with_its_time() {
        let page = include_str!("../../../../../docs/troubleshooting.md");
        for patience in [
            UNSCHEDULABLE,
            VOLUME_ELSEWHERE,
            PODS_OVERDUE,
            IMPORT_OVERDUE,
            NODE_LOST,
            VOLUME_NOT_GROWN,
            UNREACHABLE,
        ] {
            let Patience {
                reason, minutes, ..
            } = patience;
            let mut rows = page.lines().filter(|line| line.starts_with("| `"));
            let unit = if minutes == 1 { "minute" } else { "minutes" };
            let time = format!("{minutes} {unit}");
            let named = rows.any(|row| row.contains(&format!("`{reason}`")) && row.contains(&time));
            assert!(named, "{reason} after {time}");
        }
    }
}
