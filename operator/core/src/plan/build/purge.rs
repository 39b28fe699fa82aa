//! The CronJob that removes expired data, with the app's image: `app purge`.
//!
//! Its pods are a component of their own, which no Service selects, so that no request reaches them. They run where the
//! app's pods run, and as the same user: these changes of the app's `podTemplate` hold for them as well. Its containers do
//! not, because an additional one may never end.

use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec},
        core::v1::{Container, EnvVar, PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{app, otel};
use crate::{
    model::{
        metadata::{CONFIG_CHECKSUM, Component, component_name, labels},
        stack::ValidatedStack,
    },
    plan::{
        objects::pod,
        stores::{certificates, clients},
    },
};

/// Fields of a pod that follow the app's `podTemplate`.
const PLACEMENT: [&str; 10] = [
    "affinity",
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "tolerations",
];
/// Number of seconds for which a time that was missed is made up for, and for which a removal may take.
const HOUR: i64 = 3600;
/// Number of seconds for which the last removal can be looked at.
const KEPT: i32 = 86_400;

/// Returns the CronJob `<stack>-purge`, or `None` for a stack that removes nothing. Nothing can be removed while the
/// database is held.
pub fn cron_job(stack: &ValidatedStack) -> Option<CronJob> {
    stack.database.as_ref()?;
    let identity = &stack.identity;
    let name = component_name(&identity.name, Component::Purge);
    Some(CronJob {
        metadata: identity.child(name, Component::Purge),
        spec: Some(CronJobSpec {
            schedule: stack.purge.schedule.clone()?,
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            starting_deadline_seconds: Some(HOUR),
            suspend: Some(stack.stopped),
            successful_jobs_history_limit: Some(1),
            failed_jobs_history_limit: Some(1),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(&identity.name, Component::Purge)),
                    ..ObjectMeta::default()
                }),
                spec: Some(JobSpec {
                    backoff_limit: Some(3),
                    active_deadline_seconds: Some(HOUR),
                    ttl_seconds_after_finished: Some(KEPT),
                    template: template(stack),
                    ..JobSpec::default()
                }),
            },
        }),
        ..CronJob::default()
    })
}

fn template(stack: &ValidatedStack) -> PodTemplateSpec {
    let mut template = pod::without_sidecar(
        stack,
        Component::Purge,
        String::new(),
        certificates::mounted(stack, Component::Purge, pod_spec(stack)),
    );
    // Without the checksum that restarts pods: each removal reads its Secrets anew.
    let metadata = template.metadata.as_mut();
    if let Some(annotations) = metadata.and_then(|metadata| metadata.annotations.as_mut()) {
        annotations.remove(CONFIG_CHECKSUM);
    }
    let of_app = stack.pod_templates.get(&Component::App);
    let placed = of_app.and_then(|changes| changes.only(&PLACEMENT).onto(&template).ok());
    placed.unwrap_or(template)
}

fn pod_spec(stack: &ValidatedStack) -> PodSpec {
    PodSpec {
        init_containers: Some(vec![app::migrate(stack, env(stack))]),
        containers: vec![Container {
            args: Some(vec!["purge".to_owned()]),
            resources: Some(pod::resources(["10m", "16Mi"], ["1", "128Mi"])),
            ..pod::container("purge", &stack.app.pod, env(stack))
        }],
        restart_policy: Some("Never".to_owned()),
        security_context: Some(pod::security_context(app::USER)),
        ..PodSpec::default()
    }
}

fn env(stack: &ValidatedStack) -> Vec<EnvVar> {
    let mut env = clients::env(stack, Component::Purge);
    env.push(pod::name_env());
    env.extend(extent(stack));
    env.extend(otel::env(stack, Component::Purge));
    env
}

/// Returns the settings of what a removal leaves, for each program that removes.
pub(super) fn extent(stack: &ValidatedStack) -> Vec<EnvVar> {
    let days = [
        ("PURGE_RETENTION_DAYS", Some(stack.purge.retention_days)),
        ("PURGE_DOCUMENT_DAYS", stack.purge.document_days),
    ];
    let days = days
        .into_iter()
        .filter_map(|(name, days)| Some((name, days?)));
    days.map(|(name, days)| pod::env(name, days.to_string()))
        .collect()
}

/// Returns whether the last removal that was due has succeeded; `None` before the first one, and while none is started.
pub fn has_purged(cron_job: &CronJob) -> Option<bool> {
    let status = cron_job.status.as_ref()?;
    let due = status.last_schedule_time.as_ref()?;
    let runs = !cron_job.spec.as_ref()?.suspend.unwrap_or_default();
    runs.then_some(status.last_successful_time.as_ref() >= Some(due))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        model::pod_patch::PodPatch,
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    #[test]
    fn the_removal_of_expired_data_of_a_minimal_stack() {
        golden("cron-job-purge", &cron_job(&minimal_stack()));
    }

    #[test]
    fn an_external_database_and_the_collector_are_known_to_the_purge() {
        let stack = every_profile().external_database_over_tls();
        golden("cron-job-purge-observed", &cron_job(&stack));
    }

    #[test]
    fn nothing_is_removed_without_a_schedule_or_while_the_database_is_held() {
        let mut never = minimal_stack();
        never.purge.schedule = None;
        let mut held = minimal_stack();
        held.database = None;
        assert_eq!([never, held].map(|stack| cron_job(&stack)), [None, None]);
    }

    #[test]
    fn a_stopped_stack_starts_no_removal() {
        let spec = cron_job(&minimal_stack().stopped()).unwrap().spec.unwrap();
        assert_eq!(spec.suspend, Some(true));
    }

    #[test]
    fn its_pods_run_where_the_pods_of_the_app_run_and_have_none_of_their_containers() {
        let changes = json!({
            "metadata": {"labels": {"team": "links"}},
            "spec": {
                "nodeSelector": {"disk": "ssd"},
                "securityContext": {"runAsUser": null},
                "containers": [{"name": "proxy", "image": "proxy:1"}],
            },
        });
        let mut stack = minimal_stack();
        let changes = PodPatch::read(changes.as_object().unwrap()).unwrap();
        stack.pod_templates.insert(Component::App, changes);
        let template = template(&stack);
        let pod = template.spec.unwrap();
        assert_eq!(pod.node_selector.unwrap()["disk"], "ssd");
        assert_eq!(pod.security_context.unwrap().run_as_user, None);
        assert_eq!(pod.containers.len(), 1);
        assert!(
            !template
                .metadata
                .unwrap()
                .labels
                .unwrap()
                .contains_key("team")
        );
    }

    #[test]
    fn the_app_takes_the_command_and_each_of_its_settings() {
        let app = <shortener_app::config::Cli as clap::CommandFactory>::command();
        let purge = app.find_subcommand("purge").unwrap();
        let known: Vec<&str> = purge
            .get_arguments()
            .filter_map(|argument| argument.get_env()?.to_str())
            .collect();
        let mut stack = minimal_stack().observability();
        stack.purge.document_days = Some(30);
        let variables = env(&stack);
        let days = |variable: &EnvVar| variable.name == "PURGE_DOCUMENT_DAYS";
        assert!(variables.iter().any(days));
        for variable in variables {
            let is_known = known.contains(&variable.name.as_str());
            assert!(
                is_known || variable.name == "OTEL_RESOURCE_ATTRIBUTES",
                "{variable:?}"
            );
        }
    }

    #[test]
    fn a_removal_that_was_due_has_succeeded_or_not() {
        let succeeded = |suspend: bool, status: Value| {
            let spec = json!({"schedule": "", "suspend": suspend, "jobTemplate": {}});
            let live = json!({"metadata": {}, "spec": spec, "status": status});
            has_purged(&serde_json::from_value(live).unwrap())
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
