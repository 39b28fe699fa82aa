//! The connections that the stack's pods may open to a managed database, and the bound of the server.

use crate::{
    model::stack::{AppScaling, ValidatedStack},
    plan::verdict::{Verdict, workload::PODS_READY},
};

/// Connections that the server accepts.
pub(super) const MAX: i32 = 200;
/// Connections that PostgreSQL keeps for its superuser, and those of the CronJob that removes expired data.
const OTHERS: i32 = 3 + 2;
/// Connections of the pods of a rollout of the delivery of webhooks.
const OF_WEBHOOKS: i32 = 8;
/// Connections of the pods of up to 14 workers. Their number often changes, and must not restart the app.
const OF_WORKERS: i32 = 60;
/// Connections of one worker.
const OF_WORKER: i32 = 4;
/// Connections of a pod of the app beside its pool: one for health probes, and one for clicks.
const BESIDE: i32 = 2;
/// Sizes of the pool, the first of which the app has by default. There are few, so that most edits of the number of pods
/// restart none.
const POOLS: [i32; 3] = [10, 5, 2];

/// Returns the largest number of pods of a rollout of the app.
fn app_pods(stack: &ValidatedStack) -> i32 {
    let scaling = stack.app.scaling.as_ref();
    scaling
        .and_then(AppScaling::most)
        .unwrap_or(stack.app.replicas)
        + 1
}

/// Returns the connections of all pods but those of the app and the workers.
fn others(stack: &ValidatedStack) -> i32 {
    let webhooks = if stack.webhooks.is_empty() {
        0
    } else {
        OF_WEBHOOKS
    };
    OTHERS + webhooks
}

/// Returns the size of a pool of the app with which all its pods fit, or the smallest one.
fn pool(stack: &ValidatedStack) -> i32 {
    let workers = if stack.queue.is_some() { OF_WORKERS } else { 0 };
    let room = (MAX - others(stack) - workers) / app_pods(stack) - BESIDE;
    let [.., smallest] = POOLS;
    let fitting = POOLS.into_iter().find(|pool| *pool <= room);
    fitting.unwrap_or(smallest)
}

/// Returns the size of a pool of the app, if it differs from the default and the operator runs the database.
pub(in crate::plan) fn smaller_pool(stack: &ValidatedStack) -> Option<i32> {
    let database = stack.database.as_ref()?;
    if database.managed().is_none() && stack.cluster.is_none() {
        return None;
    }
    let [default, ..] = POOLS;
    Some(pool(stack)).filter(|pool| *pool != default)
}

/// Returns the verdict on a database that is ready and to which the pods may open more connections than it accepts.
pub(super) fn verdict(stack: &ValidatedStack, ready: Verdict) -> Verdict {
    let workers = stack.queue.as_ref().map(|queue| queue.workers.most() + 1);
    let of_app = app_pods(stack) * (pool(stack) + BESIDE);
    let all = others(stack) + of_app + workers.unwrap_or_default() * OF_WORKER;
    if all <= MAX || ready.reason != PODS_READY {
        return ready;
    }
    Verdict::yes(
        "ConnectionsExceeded",
        format!(
            "the pods of the app and the workers may open {all} connections, and the managed database accepts {MAX}: \
             lower their largest numbers, or use an external database"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stack::minimal_stack;

    /// Returns the size of a pool and the reason of a ready database with this many pods.
    fn with_pods(app: i32, workers: Option<i32>) -> (i32, &'static str) {
        let mut stack = match workers {
            Some(_) => minimal_stack().queue(),
            None => minimal_stack(),
        };
        stack.app.replicas = app;
        if let (Some(queue), Some(workers)) = (&mut stack.queue, workers) {
            queue.workers.replicas = workers;
        }
        let found = verdict(&stack, Verdict::yes(PODS_READY, "1 of 1"));
        assert!(found.holds && !found.fault, "{found:?}");
        (pool(&stack), found.reason)
    }

    #[test]
    fn pools_shrink_with_the_number_of_pods_and_never_with_that_of_the_workers() {
        let exceeded = "ConnectionsExceeded";
        for (app, workers, expected) in [
            (2, None, (10, PODS_READY)),
            (15, None, (10, PODS_READY)),
            (16, None, (5, PODS_READY)),
            (26, None, (5, PODS_READY)),
            (27, None, (2, PODS_READY)),
            (47, None, (2, PODS_READY)),
            (48, None, (2, exceeded)),
            (10, Some(1), (10, PODS_READY)),
            (11, Some(1), (5, PODS_READY)),
            (10, Some(14), (10, PODS_READY)),
            (10, Some(40), (10, exceeded)),
            (32, Some(14), (2, PODS_READY)),
        ] {
            assert_eq!(with_pods(app, workers), expected, "{app} {workers:?}");
        }
    }

    #[test]
    fn the_largest_number_of_an_autoscaler_counts_and_an_external_database_does_not() {
        let mut stack = minimal_stack().scaled_by_load(None);
        if let Some(limits) = stack
            .app
            .scaling
            .as_mut()
            .and_then(|scaling| scaling.limits.as_mut())
        {
            limits.max_replicas = 40;
        }
        assert_eq!(smaller_pool(&stack), Some(2));
        assert_eq!(smaller_pool(&stack.external_database()), None);
        // The number that one of a user has chosen changes with the load, and must not restart the app.
        let mut stack = minimal_stack().scaled_by_load(Some("mine"));
        for replicas in [2, 15, 20] {
            stack.app.replicas = replicas;
            assert_eq!(smaller_pool(&stack), Some(5), "{replicas}");
        }
        assert_eq!(smaller_pool(&minimal_stack()), None);
    }

    #[test]
    fn the_delivery_of_webhooks_has_connections_of_its_own() {
        let mut stack = minimal_stack();
        stack.app.replicas = 15;
        assert_eq!(pool(&stack), 10);
        assert_eq!(pool(&stack.webhooks()), 5);
    }

    #[test]
    fn only_a_ready_database_names_the_connections() {
        let mut stack = minimal_stack();
        stack.app.replicas = 100;
        let away = Verdict::no("PodsStarting", "0 of 1");
        assert_eq!(verdict(&stack, away.clone()), away);
    }
}
