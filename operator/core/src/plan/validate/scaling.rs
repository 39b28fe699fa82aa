//! Numbers of pods that the spec does not state: that of the workers follows the queue, and that of the app the load.

use k8s_openapi::api::apps::v1::Deployment;

use crate::{
    api::{ShortenerStack, ShortenerStackSpec},
    model::{
        autoscaler,
        facts::QueueFacts,
        stack::{App, AppScaling, Autoscaled, Rival},
    },
    plan::conditions::APP_READY,
};

/// Returns the number of workers that follows the queue, if the spec asks for that.
pub(super) fn workers(spec: &ShortenerStackSpec, facts: &QueueFacts) -> Option<Autoscaled> {
    let limits = spec.workers.autoscaling.filter(|_| !spec.stopped)?;
    // The operator knows the queues of the brokers that it runs.
    spec.queue.external.is_none().then(|| Autoscaled {
        limits,
        count: facts.record.demand().decide(&limits, facts.workers),
    })
}

/// Returns the app with the number of pods that it has, if an autoscaler scales it: the operator's, or `rival`. The number
/// stays when the autoscaler goes, because the load may still be there, until the next edit of the spec.
pub(super) fn app(
    app: App,
    stack: &ShortenerStack,
    live: Option<&Deployment>,
    rival: Option<Rival>,
) -> App {
    let spec = &stack.spec;
    let limits = spec.app.autoscaling;
    let count = live.and_then(|live| live.spec.as_ref()?.replicas);
    // Autoscalers leave a Deployment alone that was scaled to zero, as by `stopped`.
    let running = count.filter(|count| *count > 0);
    let was_scaled = live.is_some_and(|live| autoscaler::was_scaled(&live.metadata));
    let stays = was_scaled && running.is_some() && is_applied(stack);
    if spec.stopped || (limits.is_none() && rival.is_none() && !stays) {
        return app;
    }
    let taken = live.is_some_and(|live| autoscaler::has_taken_over(&live.metadata));
    let own = limits.filter(|_| rival.is_none());
    let replicas = match own {
        Some(limits) => {
            let count = running.unwrap_or(limits.min_replicas);
            count.min(limits.max_replicas).max(limits.min_replicas)
        }
        None => running.unwrap_or(app.replicas),
    };
    App {
        replicas,
        scaling: Some(AppScaling {
            limits,
            is_left: taken && (running.is_some() || rival.is_some()),
            rival,
        }),
        ..app
    }
}

/// Returns true when the spec is the one of the last reconcile that judged the app. One that could not read says nothing new about
/// the app.
fn is_applied(stack: &ShortenerStack) -> bool {
    let generation = stack.metadata.generation;
    let last = stack.status.as_ref().filter(|last| last.plan.is_none());
    let mut conditions = last.into_iter().flat_map(|last| &last.conditions);
    let app = conditions.find(|condition| condition.type_ == APP_READY);
    generation.is_some() && app.and_then(|app| app.observed_generation) == generation
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        apimachinery::pkg::apis::meta::v1::{Condition, Time},
        jiff::Timestamp,
    };
    use serde_json::json;

    use super::*;
    use crate::{
        api::ShortenerStackStatus,
        testing::{shared::stored_stack, stack::minimal_stack},
    };

    /// Returns an app with a number of pods that a manager owns.
    fn with_pods(replicas: i32, manager: &str) -> Deployment {
        let fields = json!({"f:spec": {"f:replicas": {}}});
        serde_json::from_value(json!({
            "metadata": {"managedFields": [{"manager": manager, "fieldsV1": fields}]},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
        }))
        .unwrap()
    }

    fn mine() -> Rival {
        Rival {
            name: "mine".to_owned(),
            most: 9,
        }
    }

    /// Returns the number of pods and if it is left to others, with this many pods that another manager owns or not.
    fn scaled(autoscaled: bool, rival: bool, live: Option<(i32, bool)>) -> (i32, bool) {
        let autoscaling = autoscaled.then(|| json!({"minReplicas": 2, "maxReplicas": 6}));
        let stack = stored_stack(json!({"app": {"autoscaling": autoscaling}}));
        let live = live.map(|(replicas, taken)| {
            let manager = if taken {
                "kube-controller-manager"
            } else {
                "shortener-operator"
            };
            with_pods(replicas, manager)
        });
        let rival = rival.then(mine);
        let app = app(minimal_stack().app, &stack, live.as_ref(), rival);
        let left = app.scaling.is_some_and(|scaling| scaling.is_left);
        (app.replicas, left)
    }

    #[test]
    fn the_live_number_is_written_until_another_manager_owns_it() {
        for (autoscaled, rival, live, expected) in [
            // Without an autoscaler the spec counts, once it is edited.
            (false, false, Some((5, true)), (2, false)),
            (true, false, None, (2, false)),
            (true, false, Some((5, false)), (5, false)),
            (true, false, Some((5, true)), (5, true)),
            (true, false, Some((1, false)), (2, false)),
            (true, false, Some((9, false)), (6, false)),
            // It was stopped.
            (true, false, Some((0, true)), (2, false)),
            (false, true, Some((9, false)), (9, false)),
            (false, true, Some((9, true)), (9, true)),
            (false, true, Some((0, false)), (2, false)),
            // KEDA can scale to zero.
            (false, true, Some((0, true)), (2, true)),
            (true, true, Some((9, true)), (9, true)),
        ] {
            let found = scaled(autoscaled, rival, live);
            assert_eq!(found, expected, "{autoscaled} {rival} {live:?}");
        }
    }

    #[test]
    fn the_number_of_an_autoscaler_that_is_gone_stays_until_the_spec_is_edited() {
        let controller = "kube-controller-manager";
        for (observed, planned, live, manager, expected) in [
            (1, false, 5, controller, 5),
            (1, true, 5, controller, 2),
            (0, false, 5, controller, 2),
            (1, false, 0, controller, 2),
            (1, false, 5, "kubectl", 2),
            (1, false, 5, "shortener-operator", 2),
        ] {
            let mut stack = stored_stack(json!({}));
            stack.status = Some(ShortenerStackStatus {
                // Every reconcile has seen it, be it one that failed.
                observed_generation: Some(1),
                plan: planned.then(Box::default),
                conditions: vec![Condition {
                    type_: APP_READY.to_owned(),
                    status: "True".to_owned(),
                    reason: "PodsReady".to_owned(),
                    message: String::new(),
                    observed_generation: Some(observed),
                    last_transition_time: Time(Timestamp::UNIX_EPOCH),
                }],
                ..ShortenerStackStatus::default()
            });
            let live = with_pods(live, manager);
            let app = app(minimal_stack().app, &stack, Some(&live), None);
            let case = format!("{observed} {planned} {manager}");
            assert_eq!(app.replicas, expected, "{case}");
            let left = app.scaling.is_some_and(|scaling| scaling.is_left);
            assert_eq!(left, expected == 5, "{case}");
        }
    }

    #[test]
    fn workers_follow_the_queue_of_a_managed_broker_while_the_stack_runs() {
        let external = json!({"external": {"secretRef": {"name": "broker"}}});
        for (stopped, queue, expected) in [
            (false, json!({}), true),
            (true, json!({}), false),
            (false, external, false),
        ] {
            let autoscaling = json!({"autoscaling": {"maxReplicas": 6}});
            let spec = json!({"workers": autoscaling, "queue": queue, "stopped": stopped});
            let found = workers(&stored_stack(spec).spec, &QueueFacts::default());
            assert_eq!(found.is_some(), expected);
        }
    }

    #[test]
    fn a_stopped_app_has_no_pods_whatever_scales_it() {
        let spec = json!({"stopped": true, "app": {"autoscaling": {"maxReplicas": 6}}});
        let stack = stored_stack(spec);
        let stopped = minimal_stack().stopped().app;
        let found = app(stopped.clone(), &stack, None, Some(mine()));
        assert_eq!(found, stopped);
    }
}
