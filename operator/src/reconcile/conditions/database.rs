//! `DatabaseReady`: the managed database takes connections, or somebody else looks after it.

use super::{Verdict, View, workload};
use crate::{metadata::Component, reconcile::stack::Database};

/// Checks the volume, then the StatefulSet and its pod.
pub fn database_ready(view: View<'_>) -> Verdict {
    if let Database::External { secret, .. } = &view.stack.database {
        return Verdict::yes(
            "External",
            format!(
                "the database of Secret {secret} is run by somebody else; the app is ready only while it answers"
            ),
        );
    }
    let claim = view.live.claim.as_ref();
    if claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some()) {
        return Verdict::fault(
            "VolumeTerminating",
            "the volume was deleted and goes with the pod that still uses it: make a backup now"
                .to_owned(),
        );
    }
    if !view.stack.stopped && claim.is_some_and(|claim| lost(claim)) {
        return Verdict::fault(
            "VolumeLost",
            "the volume's storage is gone: restore a backup into a new stack".to_owned(),
        );
    }
    workload::ready(view, Component::Postgres, view.live.postgres.as_ref())
}

fn lost(claim: &k8s_openapi::api::core::v1::PersistentVolumeClaim) -> bool {
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
        reconcile::apply::{Live, Workload},
        testing::stack::minimal_stack,
    };

    fn running() -> Live {
        let postgres = Workload {
            wanted: 1,
            existing: 1,
            ready: 1,
            updated: 1,
            observed: true,
            failure: None,
        };
        Live {
            postgres: Some(postgres),
            ..Live::default()
        }
    }

    #[test]
    fn a_managed_database_is_ready_when_its_pod_is() {
        let stack = minimal_stack();
        assert_eq!(
            database_ready(View {
                stack: &stack,
                live: &running()
            })
            .reason,
            "PodsReady"
        );
        assert_eq!(
            database_ready(View {
                stack: &stack,
                live: &Live::default()
            })
            .reason,
            "Pending"
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
                claim: Some(Arc::new(serde_json::from_value(claim).unwrap())),
                ..running()
            };
            let verdict = database_ready(View {
                stack: &stack,
                live: &live,
            });
            assert!(verdict.fault && verdict.reason == reason, "{verdict:?}");
        }
    }

    #[test]
    fn a_stopped_database_says_how_to_start_it() {
        let stack = minimal_stack().stopped();
        let verdict = database_ready(View {
            stack: &stack,
            live: &running(),
        });
        assert!(
            !verdict.holds && verdict.message.contains("spec.stopped"),
            "{verdict:?}"
        );
    }
}
