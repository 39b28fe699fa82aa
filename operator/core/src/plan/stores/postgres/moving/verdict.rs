//! The verdict on a database whose links move.

use crate::{
    model::{
        cloud_native_pg::{READY, name},
        metadata::Component,
        stack::{DatabaseMove, MoveStep},
    },
    plan::{
        build::database_move::DIFFERS,
        stores::postgres::cluster,
        verdict::{
            Verdict, View,
            patience::{IMPORT_OVERDUE, PODS_OVERDUE},
            pods,
        },
    },
};

/// Returns the verdict on a database whose links move: redirects are served, and writes are not.
pub(in crate::plan::stores::postgres) fn verdict(
    view: View<'_>,
    moving: &DatabaseMove,
) -> Option<Verdict> {
    let failure = view.stack.held.get(&Component::Postgres)?;
    if view.stack.stopped {
        let message = "the links move when the stack runs: set spec.stopped to false";
        return Some(Verdict::no("Stopped", message));
    }
    let managed = pods::problem(view.live, Component::Postgres)
        .or_else(|| pods::lost(view.live, Component::Postgres));
    let problem = managed.or_else(|| match moving.step {
        MoveStep::Importing => stuck(view),
        MoveStep::Comparing => differs(view).or_else(|| {
            let problem = pods::problem(view.live, Component::Move);
            // It may take long.
            problem.filter(|problem| problem.reason != PODS_OVERDUE.reason)
        }),
        MoveStep::Freezing | MoveStep::Stopping | MoveStep::Switching => None,
    });
    let message = failure.message.clone();
    Some(match problem {
        Some(problem) => Verdict {
            message: format!("{}; {message}", problem.message),
            ..problem
        },
        None => Verdict::no(failure.reason, message),
    })
}

/// Returns the verdict on a Cluster that CloudNativePG cannot make, or has been making for long.
fn stuck(view: View<'_>) -> Option<Verdict> {
    let live = view.live.cluster.as_deref()?;
    let said = live.phase()?;
    if cluster::is_stuck(&said) {
        return Some(Verdict::fault("ClusterStuck", said));
    }
    let conditions = live.status.iter().flat_map(|status| &status.conditions);
    let mut unready = conditions.filter(|found| found.type_ == READY && found.status != "True");
    let since = unready.next().map(|found| &found.last_transition_time);
    let is_over = IMPORT_OVERDUE.is_over(since, view.live.at);
    is_over.then(|| IMPORT_OVERDUE.fault("the import has not ended"))
}

/// Returns the verdict on a copy that differs.
fn differs(view: View<'_>) -> Option<Verdict> {
    let mut ends = pods::of(&view.live.pods, Component::Move).flat_map(|pod| {
        let status = pod.status.iter();
        let containers = status.flat_map(|status| status.container_statuses.iter().flatten());
        let states = containers.flat_map(|container| [&container.state, &container.last_state]);
        states.filter_map(|state| state.as_ref()?.terminated.as_ref())
    });
    let end = ends.find(|end| end.exit_code == DIFFERS)?;
    let said = end.message.as_deref().unwrap_or_default();
    let tables = said.trim().replace('\n', ", ");
    let cluster = name(&view.stack.identity.name);
    Some(Verdict::fault(
        "MoveDiffers",
        format!(
            "the managed database has every link, and Cluster {cluster} differs from it ({tables}): delete the Cluster for another import (kubectl delete clusters.postgresql.cnpg.io {cluster}), or set database.managed again while the stack is paused"
        ),
    ))
}
