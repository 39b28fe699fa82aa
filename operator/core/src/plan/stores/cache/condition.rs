//! `CacheReady`: the managed cache accepts connections, or the cache is external.

use crate::{
    model::metadata::Component,
    plan::{
        stores::common,
        verdict::{Verdict, View},
    },
};

/// Checks the StatefulSet and its pod. Links still redirect without the cache, only more slowly.
pub(super) fn ready(view: View<'_>) -> Option<Verdict> {
    Some(common::ready(
        view,
        Component::Cache,
        &view.stack.cache.as_ref()?.store,
        "while it is unavailable, redirects read the database",
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
        let live = &live(Component::Cache, workload(1, ready));
        super::ready(View { stack, live }).unwrap()
    }

    #[test]
    fn a_managed_cache_is_ready_when_its_pod_is() {
        let stack = minimal_stack().caching();
        assert_eq!(verdict(&stack, 1).reason, "PodsReady");
        let starting = verdict(&stack, 0);
        assert!(
            !starting.holds && starting.reason == "PodsStarting",
            "{starting:?}"
        );
    }

    #[test]
    fn an_external_cache_is_somebody_elses_matter() {
        let verdict = verdict(&minimal_stack().external_cache(), 0);
        assert!(verdict.holds && verdict.reason == "External", "{verdict:?}");
        assert!(
            verdict.message.contains("links-cache"),
            "{}",
            verdict.message
        );
    }
}
