//! The decision about a queue whose profile was switched off: it keeps its objects until it is empty. Pure.

use kube_core::ResourceExt;

use crate::{
    api::{Profile, ShortenerStack},
    model::{
        facts::QueueFacts,
        metadata::FORCE_DISABLE,
        stack::{Drain, Draining},
    },
};

/// Decides about a queue. Jobs on an external broker stay there, so nothing is drained.
pub fn drain(stack: &ShortenerStack, queue: &QueueFacts) -> Drain {
    let QueueFacts {
        parts,
        closed,
        record,
        ..
    } = queue;
    if stack.spec.profiles.contains(&Profile::Queue) {
        Drain::Wanted
    } else if !queue.may_hold_jobs() || forced(stack) {
        Drain::Skipped
    } else if record.is_drained(*closed) {
        Drain::Drained
    } else {
        Drain::Draining(Draining {
            closed: *closed,
            left: record.seen().depth().map(|depth| depth.total()),
            workers: parts.workers || !closed || record.has_jobs(),
        })
    }
}

/// Returns true when the user skips the wait by annotation.
fn forced(stack: &ShortenerStack) -> bool {
    let asked = stack.annotations().get(FORCE_DISABLE);
    asked.is_some_and(|profile| profile == Profile::Queue.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{
        model::{
            facts::QueueParts,
            queue_record::QueueRecord,
            queue_state::{Depth, Report},
        },
        testing::shared::stored_stack,
    };

    #[test]
    fn the_annotation_names_the_profiles_that_are_given_up() {
        for (value, expected) in [("queue", true), ("true", false)] {
            let mut stack = stored_stack(json!({}));
            stack
                .annotations_mut()
                .insert(FORCE_DISABLE.to_owned(), value.to_owned());
            assert_eq!(forced(&stack), expected, "{value}");
        }
    }

    /// Returns the facts about a queue whose workers, broker and Service exist or not. The broker has reported the number
    /// of jobs, if there is one.
    fn facts(parts: [bool; 3], closed: bool, jobs: Option<i64>) -> QueueFacts {
        let [workers, broker, service] = parts;
        let mut record = QueueRecord::default();
        if let Some(ready) = jobs {
            let depth = Some(Depth { ready, unacked: 0 });
            let report = Report {
                depth,
                ..Report::default()
            };
            record.hear(Ok(report), Duration::ZERO);
        }
        QueueFacts {
            parts: QueueParts {
                workers,
                broker,
                service,
            },
            closed,
            workers: None,
            record,
        }
    }

    fn draining(closed: bool, left: Option<i64>, workers: bool) -> Drain {
        Drain::Draining(Draining {
            closed,
            left,
            workers,
        })
    }

    const ALL: [bool; 3] = [true; 3];
    const NO_WORKERS: [bool; 3] = [false, true, true];
    const NO_BROKER: [bool; 3] = [true, false, true];

    #[test]
    fn only_the_broker_or_the_annotation_ends_a_drain() {
        let stack = stored_stack(json!({}));
        for (parts, closed, jobs, expected) in [
            (ALL, false, None, draining(false, None, true)),
            (ALL, true, None, draining(true, None, true)),
            (ALL, true, Some(3), draining(true, Some(3), true)),
            // The workers were deleted: they come back for the jobs that are left, and for those that may still come.
            (NO_WORKERS, true, Some(3), draining(true, Some(3), true)),
            (NO_WORKERS, false, Some(0), draining(false, Some(0), true)),
            // The operator may have removed them itself before it was restarted.
            (NO_WORKERS, true, None, draining(true, None, false)),
            (NO_WORKERS, true, Some(0), draining(true, Some(0), false)),
            // The broker was deleted. Its jobs are in its volume.
            (NO_BROKER, true, Some(3), draining(true, Some(3), true)),
            (NO_BROKER, true, None, draining(true, None, true)),
            // The workers of an external broker, and the rest of a queue whose removal was interrupted.
            ([true, false, false], true, None, Drain::Skipped),
            ([false, false, true], true, None, Drain::Skipped),
            ([false; 3], false, None, Drain::Skipped),
        ] {
            let facts = facts(parts, closed, jobs);
            assert_eq!(drain(&stack, &facts), expected, "{facts:?}");
            let mut forced = stack.clone();
            let force = (FORCE_DISABLE.to_owned(), "queue".to_owned());
            forced.annotations_mut().extend([force]);
            assert_eq!(drain(&forced, &facts), Drain::Skipped, "{facts:?}");
        }
    }

    #[test]
    fn a_drain_goes_on_although_everything_was_deleted_at_once() {
        let stack = stored_stack(json!({}));
        for (jobs, expected) in [
            (Some(3), draining(true, Some(3), true)),
            (Some(0), draining(true, Some(0), false)),
        ] {
            let mut facts = facts([false; 3], true, jobs);
            facts
                .record
                .decided(draining(true, None, true), Duration::ZERO);
            assert_eq!(drain(&stack, &facts), expected);
            facts.record.decided(Drain::Skipped, Duration::ZERO);
            assert_eq!(drain(&stack, &facts), Drain::Skipped);
        }
    }

    #[test]
    fn a_queue_is_drained_from_its_decision_on_whatever_is_left_of_it() {
        let stack = stored_stack(json!({}));
        for parts in [ALL, NO_WORKERS, NO_BROKER] {
            let mut facts = facts(parts, true, None);
            facts.record.decided(Drain::Drained, Duration::ZERO);
            assert_eq!(drain(&stack, &facts), Drain::Drained, "{parts:?}");
        }
    }

    #[test]
    fn a_queue_whose_profile_is_on_is_wanted() {
        let stack = stored_stack(json!({"profiles": ["queue"]}));
        for parts in [ALL, NO_WORKERS, [false; 3]] {
            assert_eq!(drain(&stack, &facts(parts, true, Some(0))), Drain::Wanted);
        }
    }
}
