//! `BackupReady` and `BackupVerified`: the backups of the database are made, and can be restored.

use k8s_openapi::{api::batch::v1::CronJob, jiff::Timestamp};

use super::{Verdict, View};
use crate::{
    api::{BackupResult, BackupStatus},
    model::{metadata::Component, schedule::Schedule},
    plan::{build::cron_job::has_succeeded, status::runs, verdict::pods},
};

/// Condition type: backups are made.
pub const BACKUP_READY: &str = "BackupReady";
/// Condition type: the backups can be restored.
pub const BACKUP_VERIFIED: &str = "BackupVerified";

/// Reasons of these conditions that are neither a success nor a failure.
pub const UNKNOWN_YET: [&str; 3] = [SUSPENDED, NEVER_RUN, NOT_VERIFIED];
const SUSPENDED: &str = "Suspended";
const NEVER_RUN: &str = "NeverRun";
const NOT_VERIFIED: &str = "NotVerified";

/// Returns the conditions of the backups, from the last ones that are known.
pub fn backups(
    view: View<'_>,
    known: &[BackupStatus],
    now: Timestamp,
) -> Vec<(&'static str, Verdict)> {
    let Some(backup) = &view.stack.backup else {
        return Vec::new();
    };
    let verification = backup.verification.as_ref();
    let verified = verification.map(|verification| {
        let job = Job::new(view, Component::Verify, &verification.schedule, now);
        (BACKUP_VERIFIED, job.verdict(|| is_verified(&job, known)))
    });
    let job = Job::new(view, Component::Backup, &backup.schedule, now);
    let ready = (BACKUP_READY, job.verdict(|| is_made(&job, known)));
    std::iter::once(ready).chain(verified).collect()
}

/// A CronJob and what is known about its runs.
struct Job<'a> {
    view: View<'a>,
    component: Component,
    cron_job: Option<&'a CronJob>,
    /// The second last time at which a run was due.
    long_due: Option<Timestamp>,
}

impl<'a> Job<'a> {
    fn new(view: View<'a>, component: Component, schedule: &str, now: Timestamp) -> Self {
        let schedule = Schedule::parse(schedule);
        let due = schedule.and_then(|schedule| {
            let last = schedule.last_before(now)?;
            schedule.last_before(last)
        });
        let cron_job = view.live.cron_jobs.get(&component);
        Self {
            view,
            component,
            cron_job: cron_job.map(|live| &**live),
            long_due: due,
        }
    }

    /// Returns the verdict on the CronJob itself, or else that on its runs.
    fn verdict(&self, runs: impl FnOnce() -> Verdict) -> Verdict {
        let View { stack, live } = self.view;
        let refused = stack.held.get(&self.component);
        if let Some(failure) = refused.or_else(|| live.refused.get(&self.component)) {
            return Verdict::fault(failure.reason, failure.message.clone());
        }
        let spec = self.cron_job.and_then(|live| live.spec.as_ref());
        let suspended = spec.is_some_and(|spec| spec.suspend == Some(true));
        if suspended || stack.backup.as_ref().is_some_and(|backup| backup.suspended) {
            return Verdict::no(
                SUSPENDED,
                "no run begins while backups are suspended, or the stack is paused or stopped",
            );
        }
        pods::problem(live, self.component).unwrap_or_else(runs)
    }

    /// Returns why the last run failed that was due or has ended, unless a run has succeeded since.
    fn failure(&self, success: Option<Timestamp>) -> Option<String> {
        let runs = runs(self.view.live, self.component);
        let last = runs.last().filter(|last| Some(last.ended) > success);
        let status = self.cron_job.and_then(|live| live.status.as_ref());
        let runs_now = status.is_some_and(|status| status.active.iter().flatten().next().is_some());
        if runs_now {
            return None;
        }
        let due = status.and_then(|status| status.last_schedule_time.as_ref());
        let missed = self.cron_job.and_then(has_succeeded) == Some(false)
            && due.is_some_and(|due| Some(due.0) > success);
        match last {
            Some(run) => run.failure.clone(),
            None => missed.then(|| "its pods are gone, and so is the reason".to_owned()),
        }
    }

    /// Returns true when no run has succeeded since the second last time at which one was due.
    fn is_overdue(&self, success: Option<Timestamp>) -> bool {
        let metadata = self.cron_job.map(|live| &live.metadata);
        let created = metadata.and_then(|metadata| metadata.creation_timestamp.as_ref());
        let since = success.or(created.map(|created| created.0));
        since.is_some() && self.long_due > since
    }

    /// Returns the command for a run. A Job stays for a day, so the shell gives each one another name.
    fn run_now(&self) -> String {
        let (stack, component) = (&self.view.stack.identity.name, self.component.as_str());
        format!("kubectl create job --from=cronjob/{stack}-{component} {component}-$(date +%s)")
    }
}

fn is_made(job: &Job<'_>, known: &[BackupStatus]) -> Verdict {
    let newest = known.iter().find(|backup| backup.completed_at.is_some());
    let success = newest.and_then(|backup| Some(backup.completed_at.as_ref()?.0));
    if let Some(failure) = job.failure(success) {
        return Verdict::fault("Failed", format!("the last backup failed: {failure}"));
    }
    if job.is_overdue(success) {
        let now = job.run_now();
        return Verdict::fault(
            "Overdue",
            format!(
                "no backup has been completed for two periods of its schedule: look at the CronJob and its Jobs, and run {now}"
            ),
        );
    }
    match (newest, success) {
        (Some(backup), Some(at)) => Verdict::yes(
            "Complete",
            format!("the backup {} was completed at {at}", backup.name),
        ),
        _ => Verdict::no(
            NEVER_RUN,
            format!("no backup has been made yet; {} makes one", job.run_now()),
        ),
    }
}

fn is_verified(job: &Job<'_>, known: &[BackupStatus]) -> Verdict {
    let last = |result| {
        let those = known.iter().filter(|backup| backup.result == Some(result));
        let times = those.filter_map(|backup| Some((backup.verified_at.as_ref()?.0, backup)));
        times.max_by_key(|(at, _)| *at)
    };
    let (verified, failed) = (last(BackupResult::Verified), last(BackupResult::Failed));
    let success = verified.map(|(at, _)| at);
    if let Some((_, backup)) = failed.filter(|(at, _)| Some(*at) > success) {
        let why = backup.message.as_deref().unwrap_or_default();
        return Verdict::fault(
            "VerificationFailed",
            format!(
                "the backup {} cannot be restored as it was made: {why}",
                backup.name
            ),
        );
    }
    if let Some(failure) = job.failure(success) {
        return Verdict::fault(
            "VerificationFailed",
            format!("the last verification failed: {failure}"),
        );
    }
    if job.is_overdue(success) {
        let now = job.run_now();
        return Verdict::fault(
            "VerificationOverdue",
            format!(
                "no backup has been verified for two periods of its schedule: look at the CronJob and its Jobs, and run {now}"
            ),
        );
    }
    match verified {
        Some((at, backup)) => Verdict::yes(
            "Verified",
            format!(
                "the backup {} was restored at {at}, and every table is as it was",
                backup.name
            ),
        ),
        None => Verdict::no(
            NOT_VERIFIED,
            format!(
                "no backup has been verified yet; {} verifies the newest one",
                job.run_now()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        model::{live::Live, metadata::labels},
        testing::stack::minimal_stack,
    };

    /// A Saturday. Backups are due at 4:17 every day, verifications at 5:17 on Sundays.
    const NOW: &str = "2026-11-28T12:00:00Z";
    const CREATED: &str = "2026-11-27T18:00:00Z";

    fn cron_job(status: Value) -> CronJob {
        let spec = json!({"schedule": "", "jobTemplate": {}, "suspend": false});
        let metadata = json!({"creationTimestamp": CREATED});
        let live = json!({"metadata": metadata, "spec": spec, "status": status});
        serde_json::from_value(live).unwrap()
    }

    fn live(component: Component, status: Value) -> Live {
        let mut live = Live::default();
        let cron_job = Arc::new(cron_job(status));
        live.cron_jobs.insert(component, cron_job);
        live
    }

    /// Adds the pod of a run that failed.
    fn failed(mut live: Live, component: Component, at: &str, message: &str) -> Live {
        let end = json!({"exitCode": 1, "message": message, "finishedAt": at});
        let container = json!({"name": "it", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": end}});
        let pod = json!({
            "metadata": {"labels": labels("acme", component)},
            "status": {"phase": "Failed", "containerStatuses": [container]},
        });
        live.pods
            .push(Arc::new(serde_json::from_value(pod).unwrap()));
        live
    }

    fn known(backup: Value) -> Vec<BackupStatus> {
        vec![serde_json::from_value(backup).unwrap()]
    }

    fn verdict(type_: &str, live: &Live, known: &[BackupStatus]) -> Verdict {
        let stack = minimal_stack().backed_up();
        let view = View {
            stack: &stack,
            live,
        };
        let mut verdicts = backups(view, known, NOW.parse().unwrap()).into_iter();
        verdicts.find(|(found, _)| *found == type_).unwrap().1
    }

    fn ready(live: &Live, known: &[BackupStatus]) -> (&'static str, bool, bool, String) {
        let found = verdict(BACKUP_READY, live, known);
        (found.reason, found.holds, found.fault, found.message)
    }

    #[test]
    fn backups_are_made_or_not_with_the_reason() {
        let complete = |at: &str| known(json!({"name": "20261128T041700Z", "completedAt": at}));
        let today = complete("2026-11-28T04:18:00Z");
        let ran = json!({"lastScheduleTime": "2026-11-28T04:17:00Z", "lastSuccessfulTime": "2026-11-28T04:18:00Z"});
        let (reason, holds, _, message) = ready(&live(Component::Backup, ran), &today);
        assert_eq!((reason, holds), ("Complete", true));
        assert!(message.contains("20261128T041700Z"), "{message}");

        let never = ready(&live(Component::Backup, json!({})), &[]);
        assert_eq!((never.0, never.1, never.2), (NEVER_RUN, false, false));

        // The same reason with the pods and, a day later, without them.
        let due = json!({"lastScheduleTime": "2026-11-28T04:17:00Z"});
        let gone = live(Component::Backup, due.clone());
        let yesterday = complete("2026-11-27T04:18:00Z");
        let message = "pg_dump: error: could not write to file: No space left on device";
        let there = failed(
            gone.clone(),
            Component::Backup,
            "2026-11-28T04:18:00Z",
            message,
        );
        for (live, told) in [(there, "No space left"), (gone, "pods are gone")] {
            let (reason, holds, fault, message) = ready(&live, &yesterday);
            assert_eq!((reason, holds, fault), ("Failed", false, true));
            assert!(message.contains(told), "{message}");
        }
        let mut running = due;
        running["active"] = json!([{"name": "acme-backup-1"}]);
        assert_eq!(
            ready(&live(Component::Backup, running), &yesterday).0,
            "Complete"
        );

        let long_ago = complete("2026-11-26T04:18:00Z");
        let (reason, _, fault, message) = ready(&live(Component::Backup, json!({})), &long_ago);
        assert_eq!((reason, fault), ("Overdue", true));
        assert!(
            message.contains("create job --from=cronjob/acme-backup backup-$(date +%s)"),
            "{message}"
        );
    }

    #[test]
    fn a_pod_that_cannot_start_is_named() {
        let mut live = live(
            Component::Backup,
            json!({"active": [{"name": "acme-backup-1"}]}),
        );
        let since = "2026-01-01T00:00:00Z";
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no volume",
            "lastTransitionTime": since,
        });
        let pod = json!({
            "metadata": {"labels": labels("acme", Component::Backup)},
            "status": {"phase": "Pending", "conditions": [condition]},
        });
        live.pods
            .push(Arc::new(serde_json::from_value(pod).unwrap()));
        let since: Timestamp = since.parse().unwrap();
        for (minutes, expected) in [(4, false), (6, true)] {
            live.at = since + SignedDuration::from_mins(minutes);
            let (reason, _, fault, message) = ready(&live, &[]);
            assert_eq!((reason, fault), ("Unschedulable", expected));
            assert!(message.contains("no volume"), "{message}");
        }
    }

    #[test]
    fn no_backup_at_all_is_overdue_after_two_periods() {
        let mut live = live(Component::Backup, json!({}));
        let cron_job = Arc::make_mut(live.cron_jobs.get_mut(&Component::Backup).unwrap());
        let metadata = json!({"creationTimestamp": "2026-11-27T04:00:00Z"});
        cron_job.metadata = serde_json::from_value(metadata).unwrap();
        assert_eq!(ready(&live, &[]).0, "Overdue");
    }

    #[test]
    fn not_verified_differs_from_failed_and_from_long_ago() {
        let is = |live: &Live, known: &[BackupStatus]| {
            let found = verdict(BACKUP_VERIFIED, live, known);
            (found.reason, found.holds, found.fault)
        };
        let none = live(Component::Verify, json!({}));
        assert_eq!(is(&none, &[]), (NOT_VERIFIED, false, false));
        let verified = |result: &str, at: &str| {
            known(
                json!({"name": "20261122T041700Z", "verifiedAt": at, "result": result, "message": "why"}),
            )
        };
        let sunday = "2026-11-22T05:30:00Z";
        assert_eq!(
            is(&none, &verified("Verified", sunday)),
            ("Verified", true, false)
        );
        let failure = verified("Failed", sunday);
        assert_eq!(is(&none, &failure), ("VerificationFailed", false, true));
        assert!(
            verdict(BACKUP_VERIFIED, &none, &failure)
                .message
                .ends_with("why")
        );
        let long_ago = verified("Verified", "2026-11-14T05:30:00Z");
        assert_eq!(is(&none, &long_ago), ("VerificationOverdue", false, true));
        // A run that failed before it knew its backup.
        let unnamed = failed(
            none,
            Component::Verify,
            "2026-11-22T06:00:00Z",
            "error: no node",
        );
        assert_eq!(
            is(&unnamed, &verified("Verified", sunday)),
            ("VerificationFailed", false, true)
        );
    }

    #[test]
    fn a_stack_that_makes_no_backups_has_no_such_condition_and_a_suspended_one_no_fault() {
        let live = Live::default();
        let mut stack = minimal_stack();
        let now: Timestamp = NOW.parse().unwrap();
        let types = |stack: &_| {
            let view = View { stack, live: &live };
            let found = backups(view, &[], now).into_iter();
            found
                .map(|(type_, verdict)| (type_, verdict.reason))
                .collect::<Vec<_>>()
        };
        assert_eq!(types(&stack), []);
        stack = stack.backed_up();
        let backup = stack.backup.as_mut().unwrap();
        backup.suspended = true;
        assert_eq!(
            types(&stack),
            [(BACKUP_READY, SUSPENDED), (BACKUP_VERIFIED, SUSPENDED)]
        );
        stack.backup.as_mut().unwrap().verification = None;
        assert_eq!(types(&stack), [(BACKUP_READY, SUSPENDED)]);
    }
}
