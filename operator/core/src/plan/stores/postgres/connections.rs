//! The connections that the stack's pods may open to a database that the operator or CloudNativePG runs, and the bound of the
//! server, or of the pooler before it.
//!
//! Users choose the largest numbers, each of which fits 32 bits. Their sums and products fit 64.

use serde_json::Value;

use super::cluster::CLUSTER_READY;
use crate::{
    model::stack::{AppScaling, StoreCluster, ValidatedStack},
    plan::verdict::{Verdict, workload::PODS_READY},
};

/// Connections that the server accepts, unless the user's template of a Cluster says otherwise.
pub(super) const MAX: i64 = 200;
/// Connections that each pod of a pooler accepts. While the others are away, it has those of every program.
pub(super) const OF_POOLER: i64 = 2000;
/// Pods of a pooler beside the others, while their template changes.
pub(super) const POOLER_SURGE: i64 = 1;
/// Sessions that keep every core of a server busy.
const BUSY: i64 = 50;
/// Connections to a server behind a pooler that do not go through it: those of [`OTHERS`], of the pooler to look up passwords,
/// and of the migrations of up to 50 pods that start together, which use the server itself.
const PAST_POOLER: i64 = OTHERS + 20 + 50;
/// Connections that PostgreSQL keeps for its superuser, and those of the CronJob that removes expired data.
const OTHERS: i64 = 3 + 2;
/// Connections of the pods of a rollout of the delivery of webhooks.
const OF_WEBHOOKS: i64 = 8;
/// Connections of the pods of up to 14 workers. Their number often changes, and must not restart the app.
const OF_WORKERS: i64 = 60;
/// Connections of one worker.
const OF_WORKER: i64 = 4;
/// Connections of a pod of the app beside its pool: one for health probes, and one for clicks.
const BESIDE: i64 = 2;
/// Sizes of the pool, the first of which the app has by default. There are few, so that most edits of the number of pods
/// restart none.
const POOLS: [i64; 3] = [10, 5, 2];

const _: () = {
    assert!(MAX - PAST_POOLER >= BUSY);
    // A pooler is worth a hop only if it accepts far more than the server.
    assert!(OF_POOLER >= 10 * MAX);
};

/// Returns the connections that a server of a Cluster accepts.
fn of_server(cluster: &StoreCluster) -> i64 {
    let parameters = cluster.template.get("postgresql");
    let parameters = parameters.and_then(|postgresql| postgresql.get("parameters"));
    let number = parameters.and_then(|parameters| parameters.get("max_connections"));
    number
        .and_then(Value::as_str)
        .and_then(|number| number.parse::<i32>().ok())
        .map_or(MAX, i64::from)
}

/// Returns the connections that the database of a stack accepts, and what accepts them.
fn accepted(stack: &ValidatedStack) -> (i64, &'static str) {
    match (&stack.pooler, &stack.cluster) {
        (Some(_), _) => (OF_POOLER, "the pooler"),
        (None, Some(cluster)) => (of_server(cluster), "a server of the Cluster"),
        (None, None) => (MAX, "the managed database"),
    }
}

/// Returns the sessions that all pods of a pooler may open to the server together.
fn shared(stack: &ValidatedStack) -> i64 {
    stack.cluster.as_ref().map_or(MAX, of_server) - PAST_POOLER
}

/// Returns the sessions that each of so many pods of a pooler may open to the server.
pub(super) fn sessions(stack: &ValidatedStack, instances: i32) -> i64 {
    let pods = i64::from(instances.max(0)) + POOLER_SURGE;
    (shared(stack) / pods).max(1)
}

/// Returns the largest number of pods of a rollout of the app.
fn app_pods(stack: &ValidatedStack) -> i64 {
    let scaling = stack.app.scaling.as_ref();
    let most = scaling.and_then(AppScaling::most);
    i64::from(most.unwrap_or(stack.app.replicas).max(0)) + 1
}

/// Returns the connections of all pods but those of the app and the workers.
fn others(stack: &ValidatedStack) -> i64 {
    let webhooks = if stack.webhooks.is_empty() {
        0
    } else {
        OF_WEBHOOKS
    };
    OTHERS + webhooks
}

/// Returns the size of a pool of the app with which all its pods fit, or the smallest one.
fn pool(stack: &ValidatedStack) -> i64 {
    let workers = if stack.queue.is_some() { OF_WORKERS } else { 0 };
    let (accepted, _) = accepted(stack);
    let room = (accepted - others(stack) - workers) / app_pods(stack) - BESIDE;
    let [.., smallest] = POOLS;
    let fitting = POOLS.into_iter().find(|pool| *pool <= room);
    fitting.unwrap_or(smallest)
}

/// Returns the size of a pool of the app, if it differs from the default and the operator runs the database.
pub(in crate::plan) fn smaller_pool(stack: &ValidatedStack) -> Option<i64> {
    let database = stack.database.as_ref()?;
    if database.managed().is_none() && stack.cluster.is_none() {
        return None;
    }
    let [default, ..] = POOLS;
    Some(pool(stack)).filter(|pool| *pool != default)
}

/// Returns the verdict on a database that is ready and to which the pods may open more connections than it accepts, or whose
/// pooler has too few of them.
pub(super) fn verdict(stack: &ValidatedStack, ready: Verdict) -> Verdict {
    if ![PODS_READY, CLUSTER_READY].contains(&ready.reason) {
        return ready;
    }
    if stack.pooler.is_some() && shared(stack) < BUSY {
        return Verdict::yes(
            "ConnectionsExceeded",
            format!(
                "a server of the Cluster accepts too few connections for the pooler: raise postgresql.parameters.max_connections in \
                 database.cloudNativePG.template to {} or more, or remove database.cloudNativePG.pooler",
                PAST_POOLER + BUSY
            ),
        );
    }
    let workers = stack.queue.as_ref();
    let workers = workers.map(|queue| i64::from(queue.workers.most()) + 1);
    let of_app = app_pods(stack) * (pool(stack) + BESIDE);
    let all = others(stack) + of_app + workers.unwrap_or_default() * OF_WORKER;
    let (accepted, by) = accepted(stack);
    if all <= accepted {
        return ready;
    }
    let remedy = match (&stack.pooler, &stack.cluster) {
        (None, Some(_)) => "or set database.cloudNativePG.pooler",
        _ => "or use an external database",
    };
    Verdict::yes(
        "ConnectionsExceeded",
        format!(
            "the pods of the app and the workers may open {all} connections, and {by} accepts {accepted}: \
             lower their largest numbers, {remedy}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::stack::minimal_stack;

    /// Returns the size of a pool and the reason of a ready database with this many pods.
    fn with_pods(app: i32, workers: Option<i32>) -> (i64, &'static str) {
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
    fn a_pooler_has_room_for_more_pods_and_few_sessions_of_the_server() {
        let found = |settings: Value| {
            let mut stack = minimal_stack().cloud_native_pg(settings);
            stack.app.replicas = 60;
            let ready = verdict(&stack, Verdict::yes(CLUSTER_READY, "3 of 3"));
            let instances = stack.pooler.as_ref().map(|pooler| pooler.instances);
            let sessions = instances.map(|instances| sessions(&stack, instances));
            (pool(&stack), ready.reason, ready.message, sessions)
        };
        let (pool, reason, message, _) = found(json!({}));
        assert_eq!((pool, reason), (2, "ConnectionsExceeded"));
        let remedy = "a server of the Cluster accepts 200: lower their largest numbers, or set \
            database.cloudNativePG.pooler";
        assert!(message.ends_with(remedy), "{message}");
        let more = json!({"postgresql": {"parameters": {"max_connections": "900"}}});
        let (pool, reason, ..) = found(json!({"template": more}));
        assert_eq!((pool, reason), (10, CLUSTER_READY));
        let (pool, reason, _, sessions) = found(json!({"pooler": {}}));
        assert_eq!((pool, reason, sessions), (10, CLUSTER_READY, Some(41)));
        let (.., sessions) = found(json!({"pooler": {"instances": 1}, "template": more}));
        assert_eq!(sessions, Some(412));
    }

    #[test]
    fn a_server_with_few_connections_is_named_before_a_pooler_has_too_few_sessions() {
        let found = |connections: i32, pooler: Value| {
            let parameters = json!({"max_connections": connections.to_string()});
            let stack = minimal_stack().cloud_native_pg(json!({
                "pooler": pooler, "template": {"postgresql": {"parameters": parameters}},
            }));
            let ready = verdict(&stack, Verdict::yes(CLUSTER_READY, "3 of 3"));
            assert!(ready.holds && !ready.fault, "{ready:?}");
            (ready.reason, ready.message, sessions(&stack, 9))
        };
        let (reason, message, sessions) = found(20, json!({}));
        assert_eq!((reason, sessions), ("ConnectionsExceeded", 1));
        let remedy = "max_connections in database.cloudNativePG.template to 125 or more, or remove \
            database.cloudNativePG.pooler";
        assert!(message.ends_with(remedy), "{message}");
        assert_eq!(found(124, json!({})).0, "ConnectionsExceeded");
        assert_eq!(found(125, json!({})).0, CLUSTER_READY);
        assert_eq!(found(60, Value::Null).0, CLUSTER_READY);
    }

    #[test]
    fn even_a_pooler_has_a_bound() {
        let mut stack = minimal_stack().cloud_native_pg(json!({"pooler": {}}));
        stack.app.replicas = 600;
        let ready = verdict(&stack, Verdict::yes(CLUSTER_READY, "3 of 3"));
        assert!(
            ready.message.contains("the pooler accepts 2000"),
            "{ready:?}"
        );
    }

    #[test]
    fn only_a_ready_database_names_the_connections() {
        let mut stack = minimal_stack();
        stack.app.replicas = 100;
        let away = Verdict::no("PodsStarting", "0 of 1");
        assert_eq!(verdict(&stack, away.clone()), away);
    }

    #[test]
    fn no_number_that_a_user_can_write_overflows() {
        for number in [i32::MAX, i32::MIN] {
            let parameters = json!({"max_connections": number.to_string()});
            let cluster = json!({
                "pooler": {"instances": number},
                "template": {"postgresql": {"parameters": parameters}},
            });
            for mut stack in [
                minimal_stack().queue().scaled_by_load(Some("mine")),
                minimal_stack().queue().cloud_native_pg(cluster.clone()),
                minimal_stack()
                    .queue()
                    .cloud_native_pg(json!({"template": cluster["template"]})),
            ] {
                stack.app.replicas = number;
                let scaling = stack.app.scaling.as_mut();
                if let Some(rival) = scaling.and_then(|scaling| scaling.rival.as_mut()) {
                    rival.most = number;
                }
                if let Some(queue) = &mut stack.queue {
                    queue.workers.replicas = number;
                }
                verdict(&stack, Verdict::yes(CLUSTER_READY, "3 of 3"));
                assert!(sessions(&stack, number) >= 1 && POOLS.contains(&pool(&stack)));
            }
        }
    }
}
