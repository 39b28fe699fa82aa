//! `AppReady`: every desired pod of the app accepts requests.

use super::{Verdict, View};
use crate::{model::metadata::Component, plan::verdict::workload};

/// Checks the app's Deployment and its pods.
pub fn app_ready(view: View<'_>) -> Verdict {
    workload::ready(view, Component::App)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::live::{Live, Workload},
        testing::{self, stack::minimal_stack},
    };

    fn verdict(app: Option<Workload>) -> Verdict {
        let live = Live {
            workloads: app.map(|app| (Component::App, app)).into_iter().collect(),
            ..Live::default()
        };
        app_ready(View {
            stack: &minimal_stack(),
            live: &live,
        })
    }

    fn settled() -> Workload {
        testing::live::workload(2, 2)
    }

    #[test]
    fn the_app_is_ready_when_every_wanted_pod_takes_requests() {
        let table = [
            (None, false, "Pending"),
            (Some(settled()), true, "PodsReady"),
            (
                Some(Workload {
                    ready: 1,
                    ..settled()
                }),
                false,
                "PodsStarting",
            ),
            // Zero of zero pods is not ready.
            (
                Some(Workload {
                    wanted: 0,
                    existing: 0,
                    ready: 0,
                    updated: 0,
                    ..settled()
                }),
                false,
                "ScaledToZero",
            ),
            (
                Some(Workload {
                    observed: false,
                    ..settled()
                }),
                false,
                "Pending",
            ),
            // A surge pod replaces an old one. Requests are served throughout the rollout.
            (
                Some(Workload {
                    existing: 3,
                    updated: 1,
                    ready: 2,
                    ..settled()
                }),
                true,
                "RollingOut",
            ),
            (
                Some(Workload {
                    existing: 0,
                    ready: 0,
                    failure: Some("exceeded quota".into()),
                    ..settled()
                }),
                false,
                "PodsNotCreated",
            ),
        ];
        for (workload, holds, reason) in table {
            let found = verdict(workload.clone());
            assert_eq!((found.holds, found.reason), (holds, reason), "{workload:?}");
        }
    }
}
