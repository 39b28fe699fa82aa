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
        exists,
        closed,
        record,
    } = queue;
    if stack.spec.profiles.contains(&Profile::Queue) {
        Drain::Wanted
    } else if !exists || forced(stack) {
        Drain::Skipped
    } else if record.is_drained(*closed) {
        Drain::Drained
    } else {
        Drain::Draining(Draining {
            closed: *closed,
            left: record.seen().depth().map(|depth| depth.total()),
        })
    }
}

/// Returns true when the user skips the wait by annotation.
fn forced(stack: &ShortenerStack) -> bool {
    stack
        .annotations()
        .get(FORCE_DISABLE)
        .is_some_and(|profiles| {
            let mut profiles = profiles.split(',').map(str::trim);
            profiles.any(|profile| profile == Profile::Queue.as_str())
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::shared::stored_stack;

    #[test]
    fn the_annotation_names_the_profiles_that_are_given_up() {
        for (value, expected) in [("queue", true), ("vector, queue", true), ("true", false)] {
            let mut stack = stored_stack(json!({}));
            stack
                .annotations_mut()
                .insert(FORCE_DISABLE.to_owned(), value.to_owned());
            assert_eq!(forced(&stack), expected, "{value}");
        }
    }

    #[test]
    fn a_queue_is_drained_only_when_its_profile_is_off_and_it_exists() {
        let existing = QueueFacts {
            exists: true,
            closed: true,
            ..QueueFacts::default()
        };
        let draining = Drain::Draining(Draining {
            closed: true,
            left: None,
        });
        for (profiles, facts, expected) in [
            (json!(["queue"]), &existing, Drain::Wanted),
            (json!([]), &existing, draining),
            (json!([]), &QueueFacts::default(), Drain::Skipped),
        ] {
            let stack = stored_stack(json!({"profiles": profiles}));
            assert_eq!(drain(&stack, facts), expected);
        }
    }
}
