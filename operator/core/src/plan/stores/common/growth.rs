//! The verdict on a volume that is smaller than the spec asks for.

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
    jiff::Timestamp,
};

use crate::{
    model::{facts::ClaimFact, quantity},
    plan::verdict::{
        Verdict,
        patience::VOLUME_NOT_GROWN,
        workload::{PODS_READY, VOLUME_RESIZING},
    },
};

/// Condition of a claim whose volume has grown, and whose file system grows once a pod mounts it.
const WAITS_FOR_POD: &str = "FileSystemResizePending";
/// Conditions of a claim while its volume cannot grow. Kubernetes tries again.
const FAILURES: [&str; 2] = ["ControllerResizeError", "NodeResizeError"];

/// Returns the verdict on a store whose claim requests more than its volume has, else that on its pods, which run on in
/// any case. `name` is that of the component, `size` that in the spec: a claim can request more if a growth was taken back.
pub(super) fn verdict(
    name: &str,
    size: &Quantity,
    (claim, now): (&PersistentVolumeClaim, Timestamp),
    pods: Verdict,
) -> Verdict {
    let fact = ClaimFact::of(claim);
    let (Some(request), Some(capacity)) = (fact.request, fact.capacity) else {
        return pods;
    };
    let is_smaller = |wanted: &Quantity| quantity::is_larger(&wanted.0, &capacity.0);
    if !is_smaller(&request) || !is_smaller(size) {
        return pods;
    }
    let (has, wanted) = (&capacity.0, &request.0);
    if let Some(why) = failure(claim) {
        let fault = Verdict::fault(
            "VolumeNotGrown",
            format!(
                "the volume of the {name} stays at {has} and does not grow to {wanted}: {why}; set a size that the \
                 storage can provide, or the one in status.volumes"
            ),
        );
        return beside(fault, &pods);
    }
    let what = format!("the volume of the {name} has {has} and grows to {wanted}");
    if VOLUME_NOT_GROWN.is_over(since(claim), now) {
        return beside(VOLUME_NOT_GROWN.fault(&what), &pods);
    }
    if pods.reason != PODS_READY {
        return pods;
    }
    Verdict::yes(VOLUME_RESIZING, what).moving()
}

/// Returns a fault that takes nothing from the pods.
fn beside(fault: Verdict, pods: &Verdict) -> Verdict {
    Verdict {
        holds: pods.holds,
        serves: pods.serves,
        ..fault
    }
}

/// Returns the time at which the volume began to grow.
fn since(claim: &PersistentVolumeClaim) -> Option<&Time> {
    let growing = conditions(claim, &["Resizing", WAITS_FOR_POD]);
    growing
        .filter_map(|condition| condition.last_transition_time.as_ref())
        .min()
}

/// Returns true when the volume has grown, and its file system does once a pod mounts it.
pub(super) fn waits_for_pod(claim: &PersistentVolumeClaim) -> bool {
    conditions(claim, &[WAITS_FOR_POD]).next().is_some()
}

/// Returns the conditions of these types that are true.
fn conditions<'a>(
    claim: &'a PersistentVolumeClaim,
    types: &'a [&str],
) -> impl Iterator<Item = &'a PersistentVolumeClaimCondition> {
    let all = claim.status.iter().flat_map(|status| &status.conditions);
    all.flatten().filter(move |condition| {
        types.contains(&condition.type_.as_str()) && condition.status == "True"
    })
}

/// Returns the reason for which a volume does not grow.
fn failure(claim: &PersistentVolumeClaim) -> Option<String> {
    let status = claim.status.as_ref()?;
    if let Some(failed) = conditions(claim, &FAILURES).next() {
        let why = failed.message.clone().filter(|why| !why.is_empty());
        return Some(why.unwrap_or_else(|| failed.type_.clone()));
    }
    let states = status.allocated_resource_statuses.as_ref()?;
    let state = states.get("storage")?;
    state
        .ends_with("ResizeInfeasible")
        .then(|| format!("the storage driver reports {state}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the verdict on a database whose pods have a verdict, and whose claim has these sizes and this status.
    fn found(spec: &str, request: &str, mut status: Value, pods: Verdict) -> Verdict {
        if status["capacity"].is_null() {
            status["capacity"] = json!({"storage": "1Gi"});
        }
        let claim = json!({
            "metadata": {},
            "spec": {"resources": {"requests": {"storage": request}}},
            "status": status,
        });
        let claim = serde_json::from_value(claim).unwrap();
        let now = "2026-01-01T00:11:00Z".parse().unwrap();
        verdict("postgres", &Quantity(spec.to_owned()), (&claim, now), pods)
    }

    fn ready() -> Verdict {
        Verdict::yes(PODS_READY, "1 of 1")
    }

    #[test]
    fn a_volume_that_does_not_grow_is_a_fault_beside_its_pods() {
        let failed = json!({"conditions": [
            {"type": "Resizing", "status": "True"},
            {"type": "ControllerResizeError", "status": "True", "message": "quota of disks exceeded"},
        ]});
        let infeasible = json!({"allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"}});
        for (status, why) in [
            (failed, "quota of disks exceeded"),
            (infeasible, "NodeResizeInfeasible"),
        ] {
            let verdict = found("10Gi", "10Gi", status.clone(), ready());
            assert_eq!(verdict.reason, "VolumeNotGrown");
            assert!(
                verdict.fault && verdict.holds && verdict.serves,
                "{verdict:?}"
            );
            for part in ["at 1Gi", "to 10Gi", why] {
                assert!(verdict.message.contains(part), "{verdict:?}");
            }
            let away = Verdict::no("PodsStarting", "0 of 1");
            let verdict = found("10Gi", "10Gi", status, away);
            assert!(
                verdict.fault && !verdict.holds && !verdict.serves,
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn a_volume_that_grows_for_long_is_a_fault() {
        for (since, reason) in [("00:00", "VolumeNotGrown"), ("00:02", VOLUME_RESIZING)] {
            let since = format!("2026-01-01T{since}:00Z");
            let status = json!({"conditions": [
                {"type": "Resizing", "status": "True", "lastTransitionTime": since},
            ]});
            let verdict = found("2Gi", "2Gi", status, ready());
            assert_eq!(verdict.reason, reason);
            assert!(verdict.holds && verdict.serves, "{verdict:?}");
        }
    }

    #[test]
    fn a_volume_that_grows_is_named_and_one_that_is_large_enough_is_not() {
        let growing = json!({"allocatedResourceStatuses": {"storage": "NodeResizePending"}});
        let verdict = found("2Gi", "2Gi", growing.clone(), ready());
        assert_eq!((verdict.reason, verdict.fault), (VOLUME_RESIZING, false));
        let starting = Verdict::no("PodsStarting", "0 of 1");
        assert_eq!(
            found("2Gi", "2Gi", growing.clone(), starting.clone()),
            starting
        );
        let larger = json!({"capacity": {"storage": "20Gi"}});
        for (spec, request, status) in [
            // The growth was taken back in the spec. A claim cannot take it back to the size of its volume.
            ("1Gi", "10Gi", growing.clone()),
            ("1Gi", "1Gi", growing.clone()),
            ("1Gi", "1024Mi", json!({})),
            ("1Gi", "20Gi", larger),
            // A paused stack has not asked for it.
            ("2Gi", "1Gi", json!({})),
        ] {
            assert_eq!(
                found(spec, request, status, ready()),
                ready(),
                "{spec} {request}"
            );
        }
    }
}
