//! The checks common to all stores.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::{faults, growth};
use crate::{
    model::{metadata::Component, stack::Store},
    plan::{
        stores,
        verdict::{
            Verdict, View,
            workload::{self, PODS_READY},
        },
    },
};

/// Returns the verdict on a store, if the stack has it.
pub(in crate::plan::stores) fn verdict(
    view: View<'_>,
    component: Component,
    without: &str,
) -> Option<Verdict> {
    let store = (stores::of(component)?.store)(view.stack)?;
    Some(ready(view, component, store, without))
}

/// Checks the volume of a managed store, then its StatefulSet and its pod, then what the stack's programs tell of it. The
/// verdict on an external store is what they tell; `without` describes the effect on requests while that store is
/// unavailable.
pub(in crate::plan) fn ready(
    view: View<'_>,
    component: Component,
    store: &Store,
    without: &str,
) -> Verdict {
    let store = match store {
        Store::Managed(store) => store,
        Store::External { secret, tls, .. } => {
            return faults::external(view, component, (secret, tls.as_ref()), without);
        }
    };
    let (name, claim) = (component.as_str(), view.live.claims.get(&component));
    let pods = workload::ready(view, component);
    let told = faults::managed(view, component).filter(|_| pods.holds && !pods.fault);
    let pods = told.unwrap_or(pods);
    if claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some()) {
        return Verdict::fault(
            "VolumeTerminating",
            format!(
                "the volume claim of the {name} was deleted and disappears when the pod stops: make a backup now"
            ),
        )
        .serving(pods.serves);
    }
    if !view.stack.stopped && claim.is_some_and(|claim| lost(claim)) {
        return Verdict::fault(
            "VolumeLost",
            format!(
                "the storage behind the volume claim of the {name} is lost: restore a backup into a new stack"
            ),
        )
        .serving(pods.serves);
    }
    let volume = store.volume.as_ref();
    // A stopped stack has no pod that mounts the volume, and nothing else ends that step.
    let growing = claim.filter(|claim| !(view.stack.stopped && growth::waits_for_pod(claim)));
    let verdict = match growing.zip(volume) {
        Some((claim, volume)) => growth::verdict(name, &volume.size, (claim, view.live.at), pods),
        None => pods,
    };
    match volume.and_then(|volume| volume.kept_image.as_ref()) {
        Some(why) if verdict.reason == PODS_READY => Verdict::yes("ImageKept", why),
        _ => verdict,
    }
}

fn lost(claim: &PersistentVolumeClaim) -> bool {
    claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Lost")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        model::{
            live::{Live, Workload},
            stack::ValidatedStack,
        },
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    /// Returns the verdict on the database.
    fn database(stack: &ValidatedStack, live: &Live) -> Verdict {
        verdict(View { stack, live }, Component::Postgres, "").unwrap()
    }

    fn running() -> Live {
        live(Component::Postgres, workload(1, 1))
    }

    #[test]
    fn a_managed_store_is_ready_when_its_pod_is() {
        for (component, stack) in [
            (Component::Postgres, minimal_stack()),
            (Component::Cache, minimal_stack().caching()),
            (Component::Qdrant, minimal_stack().vector()),
        ] {
            for (ready, reason) in [(1, "PodsReady"), (0, "PodsStarting")] {
                let live = &live(component, workload(1, ready));
                let stack = &stack;
                let verdict = verdict(View { stack, live }, component, "").unwrap();
                assert_eq!(
                    (verdict.reason, verdict.holds),
                    (reason, ready == 1),
                    "{verdict:?}"
                );
            }
        }
        let pending = database(&minimal_stack(), &Live::default());
        assert_eq!(pending.reason, "Pending");
    }

    #[test]
    fn an_external_store_is_for_others_to_run() {
        for (component, stack, secret) in [
            (
                Component::Cache,
                minimal_stack().external_cache(),
                "links-cache",
            ),
            (Component::Qdrant, minimal_stack().external_vector(), ""),
        ] {
            let (stack, live) = (&stack, &Live::default());
            let verdict = verdict(View { stack, live }, component, "slower").unwrap();
            assert!(verdict.holds && verdict.reason == "External", "{verdict:?}");
            assert!(verdict.message.contains(secret), "{verdict:?}");
            assert!(verdict.message.ends_with("; slower"), "{verdict:?}");
        }
    }

    #[test]
    fn a_database_whose_pod_cannot_be_created_quotes_the_reason() {
        let lacking = Workload {
            existing: 0,
            failure: Some("exceeded quota: small".to_owned()),
            ..workload(1, 0)
        };
        let verdict = database(&minimal_stack(), &live(Component::Postgres, lacking));
        assert!(verdict.fault && !verdict.serves, "{verdict:?}");
        assert_eq!(verdict.reason, "PodsNotCreated");
        assert!(
            verdict.message.ends_with("exceeded quota: small"),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_lost_or_deleted_volume_is_a_fault_even_while_the_pod_runs() {
        let stack = minimal_stack();
        for (claim, reason) in [
            (
                json!({"metadata": {}, "status": {"phase": "Lost"}}),
                "VolumeLost",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                "VolumeTerminating",
            ),
        ] {
            let live = Live {
                claims: [(
                    Component::Postgres,
                    Arc::new(serde_json::from_value(claim).unwrap()),
                )]
                .into(),
                ..running()
            };
            let verdict = database(&stack, &live);
            assert!(verdict.fault && verdict.reason == reason, "{verdict:?}");
        }
    }

    #[test]
    fn a_volume_that_a_pod_has_to_mount_is_no_fault_while_the_stack_is_stopped() {
        for (condition, stopped, reason) in [
            ("FileSystemResizePending", true, "Stopped"),
            ("FileSystemResizePending", false, "VolumeNotGrown"),
            ("Resizing", true, "VolumeNotGrown"),
        ] {
            let since = "2026-01-01T00:00:00Z";
            let growing = json!({"type": condition, "status": "True", "lastTransitionTime": since});
            let claim = json!({
                "metadata": {},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}},
                "status": {"capacity": {"storage": "512Mi"}, "conditions": [growing]},
            });
            let claim = Arc::new(serde_json::from_value(claim).unwrap());
            let live = Live {
                claims: [(Component::Postgres, claim)].into(),
                at: "2026-01-01T01:00:00Z".parse().unwrap(),
                ..running()
            };
            let stack = minimal_stack();
            let stack = if stopped { stack.stopped() } else { stack };
            let found = database(&stack, &live);
            let expected = (reason, reason == "VolumeNotGrown");
            assert_eq!(
                (found.reason, found.fault),
                expected,
                "{condition} {stopped}"
            );
        }
    }

    #[test]
    fn a_stopped_database_says_how_to_start_it() {
        let stack = minimal_stack().stopped();
        let verdict = database(&stack, &running());
        assert!(
            !verdict.holds && verdict.message.contains("spec.stopped"),
            "{verdict:?}"
        );
    }
}
