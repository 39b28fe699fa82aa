//! CronJobs: work at times, which a pod does and ends.
//!
//! Their pods are components of their own, which no Service selects, so that no request reaches them. They run where the
//! app's pods run: these changes of the app's `podTemplate` hold for them as well. Its containers do not, because an
//! additional one may never end.

use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec},
        core::v1::{PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    model::{
        metadata::{CONFIG_CHECKSUM, Component, component_name, labels},
        stack::ValidatedStack,
    },
    plan::{objects::pod, stores::certificates},
};

/// Number of seconds for which a time that was missed is made up for.
pub(super) const HOUR: i64 = 3600;
/// Number of seconds for which the last run can be looked at.
const KEPT: i32 = 86_400;

/// The times of a CronJob.
pub(super) struct Times {
    /// Times in UTC.
    pub(super) schedule: String,
    /// True when no run begins.
    pub(super) suspended: bool,
    /// Number of seconds that a run may take.
    pub(super) limit: i64,
}

/// Returns the CronJob `<stack>-<component>`.
pub(super) fn build(
    stack: &ValidatedStack,
    component: Component,
    times: Times,
    pod: PodSpec,
) -> CronJob {
    let identity = &stack.identity;
    CronJob {
        metadata: identity.child(component_name(&identity.name, component), component),
        spec: Some(CronJobSpec {
            schedule: times.schedule,
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            starting_deadline_seconds: Some(HOUR),
            suspend: Some(times.suspended),
            successful_jobs_history_limit: Some(1),
            failed_jobs_history_limit: Some(1),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(&identity.name, component)),
                    ..ObjectMeta::default()
                }),
                spec: Some(JobSpec {
                    backoff_limit: Some(3),
                    active_deadline_seconds: Some(times.limit),
                    ttl_seconds_after_finished: Some(KEPT),
                    template: template(stack, component, pod),
                    ..JobSpec::default()
                }),
            },
        }),
        ..CronJob::default()
    }
}

fn template(stack: &ValidatedStack, component: Component, pod: PodSpec) -> PodTemplateSpec {
    let pod = PodSpec {
        restart_policy: Some("Never".to_owned()),
        ..certificates::mounted(stack, component, pod)
    };
    let template = pod::without_sidecar(stack, component, String::new(), pod);
    let mut template = pod::placed_as_the_app(stack, template);
    // Without the checksum that restarts pods: each run reads its Secrets anew.
    let metadata = template.metadata.as_mut();
    if let Some(annotations) = metadata.and_then(|metadata| metadata.annotations.as_mut()) {
        annotations.remove(CONFIG_CHECKSUM);
    }
    template
}

/// Returns whether the last run that was due has succeeded; `None` before the first one, and while none is started.
pub fn has_succeeded(cron_job: &CronJob) -> Option<bool> {
    let status = cron_job.status.as_ref()?;
    let due = status.last_schedule_time.as_ref()?;
    let runs = !cron_job.spec.as_ref()?.suspend.unwrap_or_default();
    runs.then_some(status.last_successful_time.as_ref() >= Some(due))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_run_that_was_due_has_succeeded_or_not() {
        let succeeded = |suspend: bool, status: Value| {
            let spec = json!({"schedule": "", "suspend": suspend, "jobTemplate": {}});
            let live = json!({"metadata": {}, "spec": spec, "status": status});
            has_succeeded(&serde_json::from_value(live).unwrap())
        };
        let [early, late] = ["2026-11-23T03:17:00Z", "2026-11-23T03:18:00Z"];
        for (due, done, expected) in [
            (json!(null), json!(null), None),
            (json!(early), json!(null), Some(false)),
            (json!(late), json!(early), Some(false)),
            (json!(early), json!(late), Some(true)),
        ] {
            let status = json!({"lastScheduleTime": due, "lastSuccessfulTime": done});
            assert_eq!(succeeded(false, status.clone()), expected, "{status}");
            assert_eq!(succeeded(true, status), None);
        }
        assert_eq!(succeeded(false, json!(null)), None);
    }
}
