//! `VectorReady`: the managed vector store accepts connections, or the vector store is external.

use crate::{
    model::metadata::Component,
    plan::{
        stores::common,
        verdict::{Verdict, View},
    },
};

/// Checks the volume, then the StatefulSet and its pod.
pub(super) fn ready(view: View<'_>) -> Option<Verdict> {
    Some(common::ready(
        view,
        Component::Qdrant,
        &view.stack.vector.as_ref()?.store,
        "while it is unavailable, documents are not found and links still work",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::stack::ValidatedStack,
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    fn verdict(stack: &ValidatedStack, ready: i32) -> Verdict {
        let live = &live(Component::Qdrant, workload(1, ready));
        super::ready(View { stack, live }).unwrap()
    }

    #[test]
    fn a_managed_vector_store_is_ready_when_its_pod_is() {
        let stack = minimal_stack().vector();
        assert_eq!(verdict(&stack, 1).reason, "PodsReady");
        assert_eq!(verdict(&stack, 0).reason, "PodsStarting");
    }

    #[test]
    fn an_external_vector_store_is_somebody_elses_matter() {
        let verdict = verdict(&minimal_stack().external_vector(), 0);
        assert!(verdict.holds && verdict.reason == "External", "{verdict:?}");
    }
}
