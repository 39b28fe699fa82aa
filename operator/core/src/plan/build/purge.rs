//! The CronJob that removes expired data, with the app's image: `app purge`. Its pods run as the user of the app's pods.

use k8s_openapi::api::{
    batch::v1::CronJob,
    core::v1::{Container, EnvVar, PodSpec},
};

use super::{
    app,
    cron_job::{self, HOUR, Times},
    otel,
};
use crate::{
    model::{metadata::Component, stack::ValidatedStack},
    plan::{objects::pod, stores::clients},
};

/// Returns the CronJob `<stack>-purge`, or `None` for a stack that removes nothing. Nothing can be removed while the
/// database is held.
pub fn cron_job(stack: &ValidatedStack) -> Option<CronJob> {
    stack.database.as_ref()?;
    let times = Times {
        schedule: stack.purge.schedule.clone()?,
        suspended: stack.stopped,
        limit: HOUR,
    };
    Some(cron_job::build(
        stack,
        Component::Purge,
        times,
        pod_spec(stack),
    ))
}

fn pod_spec(stack: &ValidatedStack) -> PodSpec {
    PodSpec {
        init_containers: Some(vec![app::migrate(stack, env(stack))]),
        containers: vec![Container {
            args: Some(vec!["purge".to_owned()]),
            resources: Some(pod::resources(["10m", "16Mi"], ["1", "128Mi"])),
            ..pod::container("purge", &stack.app.pod, env(stack))
        }],
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
    pod::env_of([
        ("PURGE_RETENTION_DAYS", Some(stack.purge.retention_days)),
        ("PURGE_AUDIT_DAYS", stack.purge.audit_days),
        ("PURGE_DOCUMENT_DAYS", stack.purge.document_days),
        ("PURGE_CLICK_DAYS", stack.purge.click_days),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let job = cron_job(&stack).unwrap().spec.unwrap().job_template.spec;
        let template = job.unwrap().template;
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
        stack.purge.audit_days = Some(30);
        stack.purge.document_days = Some(40);
        stack.purge.click_days = Some(50);
        let variables = env(&stack);
        assert!(variables.contains(&pod::env("PURGE_AUDIT_DAYS", "30")));
        assert!(variables.contains(&pod::env("PURGE_DOCUMENT_DAYS", "40")));
        assert!(variables.contains(&pod::env("PURGE_CLICK_DAYS", "50")));
        for variable in variables {
            let is_known = known.contains(&variable.name.as_str());
            assert!(
                is_known || variable.name == "OTEL_RESOURCE_ATTRIBUTES",
                "{variable:?}"
            );
        }
    }
}
