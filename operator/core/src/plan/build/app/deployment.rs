//! The app's Deployment. Migrations run in an init container, so that a pod starts with the schema that it expects.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, EnvVar, PodSecurityContext, PodSpec},
};

use super::{PORT, PORT_NAME};
use crate::{
    model::{
        metadata::Component,
        stack::{Auth, ValidatedStack},
    },
    plan::{
        build::otel,
        monitoring::{INTERNAL_PORT, PORT_NAME as INTERNAL_PORT_NAME},
        objects::{deployment, memory, pod, volume},
        stores::{certificates, clients},
    },
};

/// The user in the app's image.
const USER: i64 = 65532;
/// Folder with the keys of clients.
const KEYS: &str = "/etc/shortener/keys";
/// Name of the volume with the keys of clients.
const KEYS_VOLUME: &str = "keys";

/// Returns the Deployment `<stack>-app`.
pub fn deployment(stack: &ValidatedStack) -> Deployment {
    let template = pod::template(
        stack,
        Component::App,
        &stack.app.pod,
        clients::checksum(stack, Component::App),
        certificates::mounted(stack, Component::App, pod_spec(stack)),
    );
    deployment::serving(stack, Component::App, stack.app.replicas, template)
}

fn pod_spec(stack: &ValidatedStack) -> PodSpec {
    let keys = stack.app.auth.as_ref();
    // The kubelet updates the files, so the checksum of the pods leaves the Secret out: new keys restart nothing.
    let keys = keys.map(|auth| volume::optional_secret(KEYS_VOLUME, auth.secret.clone()));
    PodSpec {
        init_containers: Some(vec![migrate(stack, env(stack))]),
        containers: vec![serve(stack)],
        security_context: Some(PodSecurityContext {
            fs_group: keys.as_ref().map(|_| USER),
            ..pod::security_context(USER)
        }),
        volumes: keys.map(|keys| vec![keys]),
        // Longer than the app's drain, which takes at most 20 s after SIGTERM. At its start the app still accepts
        // requests, so no preStop hook is needed.
        termination_grace_period_seconds: Some(30),
        topology_spread_constraints: Some(vec![pod::spread(stack, Component::App)]),
        ..PodSpec::default()
    }
}

/// Returns the init container that migrates the database to the schema of this release.
pub(in crate::plan::build) fn migrate(stack: &ValidatedStack, env: Vec<EnvVar>) -> Container {
    Container {
        args: Some(vec!["migrate".to_owned()]),
        resources: Some(pod::resources(["10m", "16Mi"], ["1", "128Mi"])),
        ..pod::container("migrate", &stack.app.pod, env)
    }
}

fn serve(stack: &ValidatedStack) -> Container {
    let live = || pod::http_probe("/livez", INTERNAL_PORT_NAME);
    let ready = pod::http_probe("/readyz", INTERNAL_PORT_NAME);
    Container {
        args: Some(vec!["serve".to_owned()]),
        ports: Some(vec![
            pod::port(PORT_NAME, PORT),
            pod::port(INTERNAL_PORT_NAME, INTERNAL_PORT),
        ]),
        startup_probe: Some(pod::with_timing(live(), 1, 2, 60)),
        liveness_probe: Some(pod::with_timing(live(), 10, 5, 3)),
        readiness_probe: Some(pod::with_timing(ready, 2, 2, 2)),
        volume_mounts: stack
            .app
            .auth
            .as_ref()
            .map(|_| vec![volume::read_only(KEYS_VOLUME, KEYS)]),
        ..pod::container("app", &stack.app.pod, env(stack))
    }
}

fn env(stack: &ValidatedStack) -> Vec<EnvVar> {
    let app = &stack.app;
    let mut env = clients::env(stack, Component::App);
    env.extend([
        pod::name_env(),
        pod::env("PUBLIC_URL", &stack.public_url),
        pod::env("TRUSTED_HOPS", app.trusted_hops.to_string()),
        pod::env("TRUST_INCOMING_TRACE", app.trust_incoming_trace.to_string()),
        pod::env("EXPOSE_METRICS", app.expose_metrics.to_string()),
        pod::env(
            "LIMIT_SHORTEN_PER_MINUTE",
            app.limits.shorten_per_minute.to_string(),
        ),
        pod::env("LIMIT_SHORTEN_BURST", app.limits.shorten_burst.to_string()),
        pod::env(
            "LIMIT_REQUESTS_PER_SECOND",
            app.limits.requests_per_second.to_string(),
        ),
        pod::env(
            "LIMIT_REQUESTS_BURST",
            app.limits.requests_burst.to_string(),
        ),
    ]);
    env.extend(memory::env());
    env.extend(app.auth.iter().flat_map(auth));
    env.extend(otel::env(stack, Component::App));
    env
}

/// Returns the settings of the keys of clients.
fn auth(auth: &Auth) -> Vec<EnvVar> {
    let limits = &auth.limits;
    let protect: Vec<&str> = auth.protect.iter().map(|group| group.as_str()).collect();
    let limit = |name: &str, limit: i32| pod::env(&format!("AUTH_LIMIT_{name}"), limit.to_string());
    vec![
        pod::env("AUTH_KEYS_DIRECTORY", KEYS),
        pod::env("AUTH_PROTECT", protect.join(",")),
        limit("SHORTEN_PER_MINUTE", limits.shorten_per_minute),
        limit("SHORTEN_BURST", limits.shorten_burst),
        limit("REQUESTS_PER_SECOND", limits.requests_per_second),
        limit("REQUESTS_BURST", limits.requests_burst),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_deployment_of_a_minimal_stack() {
        golden("deployment-app", &deployment(&minimal_stack()));
    }

    #[test]
    fn an_external_database_is_known_by_its_secret_only() {
        golden(
            "deployment-app-external-database",
            &deployment(&minimal_stack().external_database()),
        );
    }

    #[test]
    fn the_settings_of_the_user_reach_the_pod() {
        golden(
            "deployment-app-user-settings",
            &deployment(&minimal_stack().user_settings()),
        );
    }

    #[test]
    fn the_keys_of_clients_are_files_of_a_secret_that_may_be_missing() {
        golden("deployment-app-keys", &deployment(&minimal_stack().keys()));
    }

    #[test]
    fn the_app_takes_each_of_its_settings() {
        let app = <shortener_app::config::Cli as clap::CommandFactory>::command();
        let serve = app.find_subcommand("serve").unwrap();
        let known: Vec<&str> = serve
            .get_arguments()
            .filter_map(|argument| argument.get_env()?.to_str())
            .collect();
        let stack = minimal_stack().keys();
        for variable in auth(stack.app.auth.as_ref().unwrap()) {
            assert!(known.contains(&variable.name.as_str()), "{variable:?}");
        }
    }

    #[test]
    fn the_app_is_told_whether_to_trust_the_trace_of_a_caller() {
        let mut stack = minimal_stack();
        for (trusted, text) in [(true, "true"), (false, "false")] {
            stack.app.trust_incoming_trace = trusted;
            assert!(env(&stack).contains(&pod::env("TRUST_INCOMING_TRACE", text)));
        }
    }

    #[test]
    fn migrations_run_with_the_environment_of_the_app() {
        let spec = deployment(&minimal_stack().user_settings()).spec.unwrap();
        let pod = spec.template.spec.unwrap();
        assert_eq!(pod.init_containers.unwrap()[0].env, pod.containers[0].env);
    }
}
