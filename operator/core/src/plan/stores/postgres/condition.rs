//! `DatabaseReady`: the managed database accepts connections, or the database is external.

use crate::{
    model::metadata::Component,
    plan::{
        stores::common,
        verdict::{Verdict, View},
    },
};

/// Condition type: the database accepts connections.
pub(in crate::plan) const DATABASE_READY: &str = "DatabaseReady";

/// Checks the volume, then the StatefulSet and its pod.
pub(super) fn ready(view: View<'_>) -> Option<Verdict> {
    Some(common::ready(
        view,
        Component::Postgres,
        view.stack.database.as_ref()?,
        "while it is unavailable, only cached links redirect",
    ))
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

    fn running() -> Live {
        live(Component::Postgres, workload(1, 1))
    }

    fn verdict(stack: &ValidatedStack, live: &Live) -> Verdict {
        ready(View { stack, live }).unwrap()
    }

    #[test]
    fn a_managed_database_is_ready_when_its_pod_is() {
        let stack = minimal_stack();
        assert_eq!(verdict(&stack, &running()).reason, "PodsReady");
        assert_eq!(verdict(&stack, &Live::default()).reason, "Pending");
    }

    #[test]
    fn a_database_whose_pod_cannot_be_created_quotes_the_reason() {
        let lacking = Workload {
            existing: 0,
            failure: Some("exceeded quota: small".to_owned()),
            ..workload(1, 0)
        };
        let verdict = verdict(&minimal_stack(), &live(Component::Postgres, lacking));
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
            let verdict = verdict(&stack, &live);
            assert!(verdict.fault && verdict.reason == reason, "{verdict:?}");
        }
    }

    #[test]
    fn a_stopped_database_says_how_to_start_it() {
        let stack = minimal_stack().stopped();
        let verdict = verdict(&stack, &running());
        assert!(
            !verdict.holds && verdict.message.contains("spec.stopped"),
            "{verdict:?}"
        );
    }
}
