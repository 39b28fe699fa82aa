//! `AppReady`: every desired pod of the app accepts requests, and the keys of clients exist.

use super::{Verdict, View};
use crate::{
    api::Protected,
    model::{metadata::Component, stack::ValidatedStack},
    plan::verdict::workload,
};

/// Checks the app's Deployment and its pods, then that the Secret with the keys exists. Without the Secret, the app
/// refuses what needs a key and serves everything else, so the stack is built all the same.
pub fn app_ready(view: View<'_>) -> Verdict {
    let pods = workload::ready(view, Component::App);
    let pods = match two_autoscalers(view.stack) {
        Some(message) if !pods.fault && !view.stack.stopped => Verdict {
            fault: true,
            reason: "AutoscalerConflict",
            message,
            ..pods
        },
        _ => pods,
    };
    let Some(auth) = view.stack.app.auth.as_ref() else {
        return pods;
    };
    if pods.fault || view.stack.stopped {
        return pods;
    }
    let proxy = auth.proxy.as_ref().filter(|proxy| proxy.missing);
    match (auth.missing, proxy) {
        (true, _) => Verdict::fault(
            "SecretNotFound",
            format!(
                "gateway.auth.secretRef: Secret {} does not exist: create it with a key for each client; requests that \
                 need a key are refused until then",
                auth.secret
            ),
        )
        // Without keys no link is made, unless that needs none.
        .serving(pods.serves && !auth.protect.contains(&Protected::Shorten)),
        (false, Some(proxy)) => Verdict::fault(
            "SecretNotFound",
            format!(
                "gateway.auth.proxy.secretRef: Secret {} does not exist: create it with what the proxy sends in \
                 X-Auth-Proxy-Secret as its entry secret; nobody can sign in by the proxy until then",
                proxy.settings.secret_ref.name
            ),
        )
        .serving(pods.serves),
        (false, None) => pods,
    }
}

/// Returns the message if the spec asks for an autoscaler beside one that the operator did not make.
fn two_autoscalers(stack: &ValidatedStack) -> Option<String> {
    let scaling = stack.app.scaling.as_ref()?;
    let rival = scaling.limits.and(scaling.rival.as_ref())?;
    Some(format!(
        "app.autoscaling has no effect, because HorizontalPodAutoscaler {} scales the app already: delete that \
         object, or remove app.autoscaling",
        rival.name
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::{
        model::{
            live::{Live, Workload},
            metadata::COMPONENT_LABEL,
        },
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
    fn a_missing_secret_with_keys_is_named_unless_the_pods_have_a_fault_of_their_own() {
        let mut stack = minimal_stack().keys();
        if let Some(auth) = &mut stack.app.auth {
            auth.missing = true;
        }
        let broken = Workload {
            existing: 0,
            ready: 0,
            failure: Some("exceeded quota".into()),
            ..settled()
        };
        for (stack, app, reason) in [
            (minimal_stack().keys(), settled(), "PodsReady"),
            (stack.clone(), settled(), "SecretNotFound"),
            (stack.clone(), broken, "PodsNotCreated"),
            (stack.stopped(), settled(), "Stopped"),
        ] {
            let live = Live {
                workloads: [(Component::App, app)].into_iter().collect(),
                ..Live::default()
            };
            let found = app_ready(View {
                stack: &stack,
                live: &live,
            });
            assert_eq!(found.reason, reason);
            let start = "gateway.auth.secretRef: Secret links-keys does not exist: create it";
            let named = found.fault && found.message.starts_with(start);
            assert_eq!(named, reason == "SecretNotFound", "{found:?}");
        }
    }

    #[test]
    fn a_second_autoscaler_is_named_and_takes_nothing_from_the_app() {
        let live = Live {
            workloads: [(Component::App, settled())].into(),
            ..Live::default()
        };
        for (rival, reason) in [(None, "PodsReady"), (Some("mine"), "AutoscalerConflict")] {
            let stack = minimal_stack().scaled_by_load(rival);
            let view = View {
                stack: &stack,
                live: &live,
            };
            let found = app_ready(view);
            assert_eq!((found.reason, found.fault), (reason, rival.is_some()));
            assert!(found.holds && found.serves, "{found:?}");
        }
    }

    #[test]
    fn a_template_that_does_not_start_beside_serving_pods_is_a_fault_and_nothing_more() {
        let pod = serde_json::json!({
            "metadata": {"name": "acme-app-b", "labels": {COMPONENT_LABEL: "app"}},
            "status": {"containerStatuses": [{
                "name": "app", "image": "app:none", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff"}},
            }]},
        });
        let pod: Arc<Pod> = Arc::new(serde_json::from_value(pod).unwrap());
        // `maxUnavailable` is 0, so the pods of the old template stay.
        for (ready, holds, serves) in [(2, true, true), (1, false, true), (0, false, false)] {
            let app = Workload {
                existing: ready + 1,
                updated: 1,
                ready,
                ..settled()
            };
            let live = Live {
                workloads: [(Component::App, app)].into(),
                pods: vec![pod.clone()],
                ..Live::default()
            };
            let found = app_ready(View {
                stack: &minimal_stack(),
                live: &live,
            });
            let expected = ("ImagePullFailed", true, holds, serves);
            let found = (found.reason, found.fault, found.holds, found.serves);
            assert_eq!(found, expected, "{ready} pods");
        }
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
