//! `QueueReady`: the managed broker accepts jobs, or the broker is external.

use super::cluster::{self, CLUSTER_READY};
use crate::{
    model::{
        metadata::{Component, FORCE_DISABLE, component_name},
        queue_state::{DeadLetterRoom, QueueState, Report},
        rabbitmq_cluster,
        stack::{Draining, Queue, Store},
    },
    plan::{
        stores::common,
        verdict::{Verdict, View, workload::PODS_READY},
    },
};

/// Longest list of feature flags, in bytes.
const LONGEST_LIST: usize = 1024;

/// Reason while the workers drain the queue after its profile was switched off.
pub(in crate::plan) const DRAINING: &str = "DrainingQueue";

/// Checks the volume, the StatefulSet and its pod, then the state that the broker reports.
pub(super) fn ready(view: View<'_>) -> Option<Verdict> {
    let queue = view.stack.queue.as_ref()?;
    Some(verdict(view, queue))
}

fn verdict(view: View<'_>, queue: &Queue) -> Verdict {
    if let Some(draining) = queue.draining {
        return Verdict::yes(DRAINING, drain(view, queue, draining));
    }
    let members = view.stack.broker_cluster.as_ref();
    let verdict = match members {
        Some(members) => cluster::verdict(
            view,
            members,
            "while more than half of them are ready, jobs are taken and processed",
        ),
        None => common::ready(
            view,
            Component::Rabbitmq,
            &queue.store,
            "its queue depth is unknown to the operator, and its administrator sets the delivery limit",
        ),
    };
    let is_others = members.is_none() && matches!(queue.store, Store::External { .. });
    if !verdict.holds || is_others {
        return verdict;
    }
    match &view.live.queue {
        QueueState::Report(Report {
            alarm: Some(alarm), ..
        }) => Verdict::fault(
            "BrokerAlarm",
            format!(
                "the broker accepts no jobs because it is out of memory or disk ({alarm}): let the workers catch up, or \
                 raise {}",
                room(members.is_some())
            ),
        ),
        QueueState::NeverReached(why) if members.is_some() => limits_unknown(why),
        QueueState::NeverReached(why) | QueueState::Unreachable(why) => Verdict::yes(
            "DepthUnknown",
            format!("the broker runs, but the number of waiting jobs is unknown: {why}"),
        ),
        QueueState::Report(Report {
            room: Some(room @ (DeadLetterRoom::Little | DeadLetterRoom::Exceeded)),
            ..
        }) => full(*room == DeadLetterRoom::Exceeded),
        QueueState::Report(Report { disabled_flags, .. })
            if !disabled_flags.is_empty()
                && [PODS_READY, CLUSTER_READY].contains(&verdict.reason) =>
        {
            flags_off(&pod(view), disabled_flags)
        }
        QueueState::Unknown | QueueState::Report(_) => verdict,
    }
}

/// Returns the verdict on members of which the operator does not know that they have their limits. A managed broker starts with
/// them. It is no fault: the members keep what they have, and just after their start they are not reached either.
fn limits_unknown(why: &str) -> Verdict {
    let message = format!(
        "the broker runs, but the operator has not reached it, so on a new broker jobs that fail may be lost instead of becoming dead \
         letters: let the operator connect to port 15672 of the members ({why})"
    );
    Verdict::yes("LimitsUnknown", message)
}

/// Returns the fields that give a broker more room.
fn room(has_members: bool) -> &'static str {
    match has_members {
        true => "spec.queue.rabbitmqCluster.storage or template.resources",
        false => "spec.queue.managed.storage or spec.queue.managed.resources",
    }
}

/// Returns the name of the first pod of the broker.
fn pod(view: View<'_>) -> String {
    let stack = &view.stack.identity.name;
    match view.stack.broker_cluster {
        Some(_) => format!("{}-server-0", rabbitmq_cluster::name(stack)),
        None => format!("{}-0", component_name(stack, Component::Rabbitmq)),
    }
}

/// Returns the verdict on a broker with feature flags that the next minor version needs.
fn flags_off(pod: &str, flags: &[String]) -> Verdict {
    let mut names = flags.join(", ");
    names.truncate(names.floor_char_boundary(LONGEST_LIST));
    let message = format!(
        "the broker accepts jobs, but the feature flags {names} are off, and the next minor version of RabbitMQ needs them: run \
         kubectl exec {pod} -c rabbitmq -- rabbitmqctl enable_feature_flag all, after which the version before cannot return"
    );
    Verdict::yes("FeatureFlagsDisabled", message)
}

/// Returns the verdict on a broker that takes jobs, but has little room for dead letters.
fn full(dropped: bool) -> Verdict {
    let remedy = "replay or drop them (kubectl shortener dlq), or raise spec.queue.deadLetters";
    if dropped {
        let message = format!(
            "the broker accepts jobs, but the dead-letter queue was full and the broker dropped the oldest dead letters: {remedy}"
        );
        return Verdict::yes("DeadLettersDropped", message);
    }
    let message = format!(
        "the broker accepts jobs, but the dead-letter queue is nearly full, and a full one drops the oldest dead letters: {remedy}"
    );
    Verdict::yes("DeadLettersNearlyFull", message)
}

fn drain(view: View<'_>, queue: &Queue, draining: Draining) -> String {
    let state = match draining {
        _ if view.stack.stopped => {
            "jobs may remain and the stack is stopped, so set spec.stopped to false to process them"
                .to_owned()
        }
        Draining { closed: false, .. } => {
            "the app still accepts jobs until its rollout ends".to_owned()
        }
        Draining { left: None, .. } => {
            "the number of remaining jobs is unknown until the broker answers".to_owned()
        }
        Draining { left: Some(0), .. } => "no job remains, so the queue is removed soon".to_owned(),
        Draining {
            left: Some(left), ..
        } if queue.workers.most() == 0 => {
            format!("{left} jobs remain and no worker runs, so raise spec.workers.replicas")
        }
        Draining {
            left: Some(left), ..
        } => format!("{left} jobs remain and are processed first"),
    };
    format!(
        "the profile queue is off and the queue is being drained: {state}; set the annotation {FORCE_DISABLE}=queue to \
         remove the queue now (its jobs stay on the volume unless spec.deletionPolicy is Delete)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{live::Live, queue_state::Depth, stack::ValidatedStack},
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    fn verdict(stack: &ValidatedStack, seen: QueueState) -> Verdict {
        let live = Live {
            queue: seen,
            ..live(Component::Rabbitmq, workload(1, 1))
        };
        ready(View { stack, live: &live }).unwrap()
    }

    fn report(alarm: Option<&str>, room: Option<DeadLetterRoom>) -> QueueState {
        QueueState::Report(Report {
            depth: Some(Depth {
                ready: 1,
                unacked: 0,
            }),
            alarm: alarm.map(str::to_owned),
            room,
            ..Report::default()
        })
    }

    #[test]
    fn feature_flags_that_the_next_version_needs_are_named_with_the_command() {
        let flags = vec!["khepri_db".to_owned(), "other".to_owned()];
        let seen = QueueState::Report(Report {
            disabled_flags: flags,
            ..Report::default()
        });
        let found = verdict(&minimal_stack().queue(), seen);
        assert!(found.holds && found.reason == "FeatureFlagsDisabled");
        for part in [
            "khepri_db, other",
            "kubectl exec acme-rabbitmq-0 -c rabbitmq",
        ] {
            assert!(found.message.contains(part), "{}", found.message);
        }
    }

    #[test]
    fn an_endless_list_of_feature_flags_is_cut() {
        let seen = QueueState::Report(Report {
            disabled_flags: vec!["\u{e4}".repeat(LONGEST_LIST), "x".repeat(1 << 20)],
            ..Report::default()
        });
        let found = verdict(&minimal_stack().queue(), seen);
        assert_eq!(found.reason, "FeatureFlagsDisabled");
        assert!(found.message.len() < 2 * LONGEST_LIST, "{}", found.message);
    }

    #[test]
    fn a_broker_is_ready_when_its_pod_is_and_it_takes_messages() {
        let stack = minimal_stack().queue();
        let table = [
            (QueueState::Unknown, true, "PodsReady"),
            (report(None, None), true, "PodsReady"),
            (
                report(None, Some(DeadLetterRoom::Enough)),
                true,
                "PodsReady",
            ),
            (
                report(None, Some(DeadLetterRoom::Little)),
                true,
                "DeadLettersNearlyFull",
            ),
            (
                report(None, Some(DeadLetterRoom::Exceeded)),
                true,
                "DeadLettersDropped",
            ),
            (
                report(Some("disk"), Some(DeadLetterRoom::Exceeded)),
                false,
                "BrokerAlarm",
            ),
            (
                QueueState::Unreachable("refused".to_owned()),
                true,
                "DepthUnknown",
            ),
            (
                QueueState::NeverReached("refused".to_owned()),
                true,
                "DepthUnknown",
            ),
        ];
        for (seen, holds, reason) in table {
            let found = verdict(&stack, seen.clone());
            assert_eq!((found.holds, found.reason), (holds, reason), "{seen:?}");
        }
    }

    #[test]
    fn an_external_broker_is_somebody_elses_matter_and_its_depth_is_unknown() {
        let verdict = verdict(&minimal_stack().external_queue(), QueueState::Unknown);
        assert!(verdict.holds && verdict.reason == "External", "{verdict:?}");
        assert!(verdict.message.contains("unknown"), "{}", verdict.message);
    }

    #[test]
    fn a_queue_that_is_drained_says_what_is_left_and_how_not_to_wait() {
        let with = |closed, left, replicas| {
            let mut stack = minimal_stack().queue();
            if let Some(queue) = &mut stack.queue {
                queue.draining = Some(Draining {
                    closed,
                    left,
                    workers: true,
                });
                queue.workers.replicas = replicas;
            }
            stack
        };
        let table = [
            (with(false, Some(3), 1), "still accepts jobs"),
            (with(true, Some(3), 1), "3 jobs remain"),
            (with(true, Some(3), 0), "raise spec.workers.replicas"),
            (with(true, Some(0), 1), "no job remains"),
            (with(true, None, 1), "is unknown"),
            (with(true, None, 1).stopped(), "spec.stopped"),
        ];
        for (stack, part) in table {
            let found = verdict(&stack, QueueState::Unknown);
            assert!(found.holds && found.reason == DRAINING, "{found:?}");
            for part in [part, "shortener.dev/force-disable=queue"] {
                assert!(found.message.contains(part), "{}", found.message);
            }
        }
    }
}
