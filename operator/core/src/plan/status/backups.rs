//! The last backups: those of the earlier status, with the results of the pods that still exist.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    api::{BackupResult, BackupStatus},
    model::{backup_run::BackupRun, live::Live, metadata::Component, stack::ValidatedStack},
    plan::{
        conditions::{self, BACKUP_READY, BACKUP_VERIFIED, Verdict, View},
        verdict::pods,
    },
};

/// Number of backups in the status.
const LISTED: usize = 5;

/// Returns the last backups, the newest first. Those of a stack that makes none any more are still in its volume.
pub(super) fn listed(
    stack: Option<&ValidatedStack>,
    live: &Live,
    previous: &[BackupStatus],
) -> Vec<BackupStatus> {
    match stack.and_then(|stack| stack.backup.as_ref()) {
        Some(backup) => merged(
            previous,
            live,
            usize::try_from(backup.keep).unwrap_or(LISTED),
        ),
        None => previous.to_vec(),
    }
}

/// Returns the conditions of the backups. While the database is held, so are they.
pub(super) fn conditions(
    view: View<'_>,
    backups: &[BackupStatus],
    previous: &[Condition],
    now: &Time,
    stamp: impl Fn((&'static str, Verdict)) -> Condition,
) -> Vec<Condition> {
    if view.stack.database.is_none() {
        let types = [BACKUP_READY, BACKUP_VERIFIED];
        let old = previous
            .iter()
            .filter(|old| types.contains(&old.type_.as_str()));
        return old.cloned().collect();
    }
    let verdicts = conditions::backups(view, backups, now.0).into_iter();
    verdicts.map(stamp).collect()
}

/// Returns the last backups of the earlier status and of the pods. `kept` is their number in the volume.
fn merged(previous: &[BackupStatus], live: &Live, kept: usize) -> Vec<BackupStatus> {
    let mut backups = previous.to_vec();
    let made = named(live, Component::Backup);
    for (run, name) in made.filter(|(run, _)| run.failure.is_none()) {
        let backup = entry(&mut backups, &name);
        backup.completed_at = Some(Time(run.ended));
        backup.bytes = run.bytes;
    }
    for (run, name) in named(live, Component::Verify) {
        let backup = entry(&mut backups, &name);
        let earlier = backup.verified_at.as_ref();
        if earlier.is_some_and(|earlier| earlier.0 > run.ended) {
            continue;
        }
        backup.verified_at = Some(Time(run.ended));
        backup.result = Some(match run.failure {
            None => BackupResult::Verified,
            Some(_) => BackupResult::Failed,
        });
        backup.message = run.failure;
    }
    // The names are times.
    backups.sort_by(|one, other| other.name.cmp(&one.name));
    shortened(&backups, LISTED.min(kept))
}

/// Returns the first backups, and the last one of each result: a backup is verified more rarely than made.
fn shortened(backups: &[BackupStatus], listed: usize) -> Vec<BackupStatus> {
    let last = |result| {
        let those = backups.iter().filter(|one| one.result == Some(result));
        those.max_by_key(|one| one.verified_at.as_ref().map(|at| at.0))
    };
    let judged = [BackupResult::Verified, BackupResult::Failed].map(last);
    let all = backups.iter().enumerate();
    let shown = all.filter(|(place, one)| *place < listed || judged.contains(&Some(*one)));
    shown.map(|(_, one)| one.clone()).collect()
}

/// Returns the runs of a component that have ended, by their end.
pub(in crate::plan) fn runs(live: &Live, component: Component) -> Vec<BackupRun> {
    let pods = pods::of(&live.pods, component);
    let mut runs: Vec<BackupRun> = pods.filter_map(|pod| BackupRun::of(pod)).collect();
    runs.sort_by_key(|run| run.ended);
    runs
}

/// Returns the runs with the name of a backup.
fn named(live: &Live, component: Component) -> impl Iterator<Item = (BackupRun, String)> {
    let runs = runs(live, component).into_iter();
    runs.filter_map(|mut run| {
        let name = run.backup.take()?;
        Some((run, name))
    })
}

fn entry<'a>(backups: &'a mut Vec<BackupStatus>, name: &str) -> &'a mut BackupStatus {
    let place = backups.iter().position(|backup| backup.name == name);
    let place = place.unwrap_or_else(|| {
        backups.push(BackupStatus {
            name: name.to_owned(),
            ..BackupStatus::default()
        });
        backups.len() - 1
    });
    &mut backups[place]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{model::metadata::labels, testing::stack::minimal_stack};

    /// Adds the pod of a run to a live stack.
    fn with_run(mut live: Live, component: Component, end: u8, code: i32, message: &str) -> Live {
        let finished = format!("2026-11-28T04:{end:02}:00Z");
        let end = json!({"exitCode": code, "message": message, "finishedAt": finished});
        let container = json!({"name": "it", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": end}});
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let pod = json!({
            "metadata": {"labels": labels("acme", component)},
            "status": {"phase": phase, "containerStatuses": [container]},
        });
        live.pods
            .push(Arc::new(serde_json::from_value(pod).unwrap()));
        live
    }

    #[test]
    fn a_backup_is_listed_with_its_verification_and_stays_without_its_pods() {
        let name = "20261128T041700Z";
        let made = format!("backup={name}\nbytes=71802\n");
        let live = with_run(Live::default(), Component::Backup, 18, 0, &made);
        let made = merged(&[], &live, 14);
        assert_eq!(
            (made.len(), made[0].bytes, made[0].result),
            (1, Some(71802), None)
        );
        let log = format!("backup={name}\nerror: table links: different\n");
        let live = with_run(live, Component::Verify, 30, 1, &log);
        let failed = merged(&made, &live, 14);
        assert_eq!(failed[0].result, Some(BackupResult::Failed));
        assert_eq!(
            failed[0].message.as_deref(),
            Some("error: table links: different")
        );
        let live = with_run(live, Component::Verify, 40, 0, &format!("backup={name}\n"));
        let verified = merged(&failed, &live, 14);
        assert_eq!(
            (verified[0].result, &verified[0].message),
            (Some(BackupResult::Verified), &None)
        );
        assert_eq!(merged(&verified, &Live::default(), 14), verified);
        // The pod of the failure may outlive that of the success.
        let failure = with_run(Live::default(), Component::Verify, 30, 1, &log);
        assert_eq!(merged(&verified, &failure, 14), verified);
    }

    #[test]
    fn the_conditions_stay_while_the_database_is_held() {
        let mut stack = minimal_stack();
        stack.database = None;
        let time = "2026-11-28T04:17:00Z";
        let old = json!([
            {"type": BACKUP_READY, "status": "True", "reason": "Complete", "message": "", "lastTransitionTime": time},
            {"type": "Ready", "status": "True", "reason": "Serving", "message": "", "lastTransitionTime": time},
        ]);
        let old: Vec<Condition> = serde_json::from_value(old).unwrap();
        let view = View {
            stack: &stack,
            live: &Live::default(),
        };
        let now = Time(time.parse().unwrap());
        let kept = conditions(view, &[], &old, &now, |_| old[1].clone());
        assert_eq!(kept, old[..1]);
    }

    #[test]
    fn the_last_backup_of_each_result_stays_in_the_list() {
        let mut live = Live::default();
        for hour in 0..9 {
            let made = format!("backup=20261128T0{hour}1700Z\nbytes=1\n");
            live = with_run(live, Component::Backup, hour, 0, &made);
        }
        for (minute, code, hour) in [(20, 0, 0), (21, 0, 1), (22, 1, 2)] {
            let verified = format!("backup=20261128T0{hour}1700Z\n");
            live = with_run(live, Component::Verify, minute, code, &verified);
        }
        let listed = merged(&[], &live, 14).into_iter();
        let results: Vec<_> = listed.map(|backup| backup.result).collect();
        let judged = [BackupResult::Failed, BackupResult::Verified].map(Some);
        assert_eq!(results, [&[None; 5][..], &judged].concat());
    }

    #[test]
    fn the_last_five_are_listed_and_no_more_than_are_kept() {
        let mut live = Live::default();
        for hour in 0..8 {
            let made = format!("backup=20261128T0{hour}1700Z\nbytes=1\n");
            live = with_run(live, Component::Backup, hour, 0, &made);
        }
        live = with_run(
            live,
            Component::Backup,
            9,
            1,
            "backup=20261128T091700Z\nerror: full",
        );
        let names = |kept| {
            let backups = merged(&[], &live, kept).into_iter();
            backups.map(|backup| backup.name).collect::<Vec<_>>()
        };
        let all = names(14);
        assert_eq!((all.len(), all[0].as_str()), (5, "20261128T071700Z"));
        assert_eq!(names(2), all[..2]);
    }
}
