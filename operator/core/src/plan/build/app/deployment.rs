//! The app's Deployment. Migrations run in an init container, so that a pod starts with the schema that it expects.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, EnvVar, PodSecurityContext, PodSpec},
};
use serde_json::json;

use super::{MANAGEMENT_PORT, MANAGEMENT_PORT_NAME, PORT, PORT_NAME};
use crate::{
    api::{AuthProxySpec, ClientAddress, KeyScope, RateLimits},
    model::{
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY, job_ids_name, management_name},
        metadata::Component,
        stack::{App, Auth, Routing, ValidatedStack},
    },
    plan::{
        build::{otel, webhooks},
        monitoring::{INTERNAL_PORT, PORT_NAME as INTERNAL_PORT_NAME},
        objects::{deployment, memory, pod, volume},
        stores::{certificates, clients, external::MIGRATE, postgres},
    },
};

/// The user in the app's image.
pub(in crate::plan::build) const USER: i64 = 65532;
/// Folder with the keys of clients.
const KEYS: &str = "/etc/shortener/keys";
/// Folder with the secret of the proxy that signs people in.
const AUTH_PROXY: &str = "/etc/shortener/auth-proxy";
/// The time between SIGTERM and SIGKILL, in seconds.
const TERMINATION: i64 = 30;
/// Name of the volume with the keys of clients.
const KEYS_VOLUME: &str = "keys";
/// Name of the volume with the secret of the proxy.
const AUTH_PROXY_VOLUME: &str = "auth-proxy";

/// Returns the Deployment `<stack>-app`.
pub fn deployment(stack: &ValidatedStack) -> Deployment {
    let template = pod::template(
        stack,
        Component::App,
        checksum(stack),
        certificates::mounted(stack, Component::App, pod_spec(stack)),
    );
    let mut deployment = deployment::serving(stack, Component::App, stack.app.replicas, template);
    let scaling = stack.app.scaling.as_ref();
    if let Some(spec) = &mut deployment.spec
        && scaling.is_some_and(|scaling| scaling.is_left)
    {
        spec.replicas = None;
    }
    deployment
}

/// Returns the checksum of the Secrets that the app reads when it starts.
fn checksum(stack: &ValidatedStack) -> String {
    let app = &stack.app;
    let own = [
        Some(&app.management),
        stack.publishes_jobs().then_some(&app.job_ids),
    ];
    let own = own.into_iter().flatten().map(|own| own.checksum.clone());
    let stores = clients::checksum(stack, Component::App);
    let checksums: Vec<String> = std::iter::once(stores).chain(own).collect();
    checksums.join(".")
}

fn pod_spec(stack: &ValidatedStack) -> PodSpec {
    // The kubelet updates the files, so the checksum of the pods leaves the Secrets out: new keys restart nothing.
    let keys = stack.app.auth.iter().flat_map(secrets);
    let keys = keys
        .map(|(name, _, secret, entry)| volume::optional_secret(name, secret.to_owned(), entry));
    let keys = Some(keys.collect::<Vec<_>>()).filter(|keys| !keys.is_empty());
    PodSpec {
        init_containers: Some(vec![migrate(stack, env(stack))]),
        containers: vec![serve(stack)],
        security_context: Some(PodSecurityContext {
            fs_group: keys.as_ref().map(|_| USER),
            ..pod::security_context(USER)
        }),
        volumes: keys,
        // Longer than the app takes after SIGTERM: 20 s for its drain, and 4 s for clicks. At its start the app still
        // accepts requests, so no preStop hook is needed.
        termination_grace_period_seconds: Some(TERMINATION),
        topology_spread_constraints: Some(pod::spread(stack, Component::App)),
        ..PodSpec::default()
    }
}

/// Returns the volume, the folder and the name of each Secret with keys, and its only entry that is mounted, if it is one.
fn secrets(auth: &Auth) -> impl Iterator<Item = (&'static str, &'static str, &str, Option<&str>)> {
    let proxy = auth.proxy.as_ref().map(|proxy| {
        let secret = proxy.settings.secret_ref.name.as_str();
        (AUTH_PROXY_VOLUME, AUTH_PROXY, secret, Some("secret"))
    });
    [(KEYS_VOLUME, KEYS, auth.secret.as_str(), None)]
        .into_iter()
        .chain(proxy)
}

/// Returns the init container that migrates the database to the schema of this release, and writes the receivers of
/// webhooks to it.
pub(in crate::plan::build) fn migrate(stack: &ValidatedStack, mut env: Vec<EnvVar>) -> Container {
    env.extend(webhooks::receivers(stack));
    Container {
        args: Some(vec!["migrate".to_owned()]),
        resources: Some(pod::resources(["10m", "16Mi"], ["1", "128Mi"])),
        ..pod::container(MIGRATE, &stack.app.pod, env)
    }
}

/// Returns the init container that copies the certificates of the public authorities to a file.
pub(in crate::plan::build) fn authorities(stack: &ValidatedStack, file: &str) -> Container {
    Container {
        args: Some(pod::strings(&["authorities", file])),
        resources: Some(pod::resources(["10m", "16Mi"], ["1", "128Mi"])),
        ..pod::container("authorities", &stack.app.pod, Vec::new())
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
            pod::port(MANAGEMENT_PORT_NAME, MANAGEMENT_PORT),
        ]),
        startup_probe: Some(pod::with_timing(live(), 1, 2, 60)),
        liveness_probe: Some(pod::with_timing(live(), 10, 5, 3)),
        readiness_probe: Some(pod::with_timing(ready, 2, 2, 2)),
        volume_mounts: stack.app.auth.as_ref().map(|auth| {
            let mounts = secrets(auth).map(|(name, folder, ..)| volume::read_only(name, folder));
            mounts.collect()
        }),
        ..pod::container("app", &stack.app.pod, env(stack))
    }
}

/// The space for the data on the volume of the database.
const CAPACITY: &str = "DATABASE_CAPACITY_BYTES";

/// The key of the operator for the port on which it manages links.
const MANAGEMENT: &str = "MANAGEMENT_KEY";

fn env(stack: &ValidatedStack) -> Vec<EnvVar> {
    let app = &stack.app;
    let mut env = clients::env(stack, Component::App);
    env.extend([
        pod::name_env(),
        pod::env("PUBLIC_URL", &stack.public_url),
        pod::env("TRUSTED_HOPS", app.trusted_hops.to_string()),
        pod::env("TRUST_INCOMING_TRACE", app.trust_incoming_trace.to_string()),
        pod::env("EXPOSE_METRICS", app.expose_metrics.to_string()),
    ]);
    env.extend(limits("LIMIT", &app.limits));
    env.extend(memory::env());
    env.extend(app.auth.iter().flat_map(auth));
    let proxy = app.auth.iter().flat_map(|auth| &auth.proxy);
    env.extend(proxy.flat_map(|proxy| auth_proxy(&proxy.settings, &stack.gateway.routing)));
    env.extend(jobs(stack));
    env.push(pod::secret_env(
        MANAGEMENT,
        &management_name(&stack.identity.name),
        MANAGEMENT_KEY,
    ));
    let retention_days = stack.purge.retention_days.to_string();
    env.push(pod::env("PURGE_RETENTION_DAYS", retention_days));
    // Left out at the app's own default, which almost every stack has.
    let pool = postgres::smaller_pool(stack);
    env.extend(pool.map(|pool| pod::env("DATABASE_MAX_CONNECTIONS", pool.to_string())));
    env.extend(client_address(app));
    let capacity = postgres::capacity(stack);
    env.extend(capacity.map(|bytes| pod::env(CAPACITY, bytes.to_string())));
    env.extend(links(app));
    // No link leads to one of them.
    let hosts = &stack.gateway.hosts;
    if !hosts.is_empty() {
        env.push(pod::env("GATEWAY_HOSTS", hosts.join(",")));
    }
    env.extend(otel::env(stack, Component::App));
    env
}

/// Returns the settings of rate limits.
fn limits(prefix: &str, limits: &RateLimits) -> [EnvVar; 4] {
    [
        ("SHORTEN_PER_MINUTE", limits.shorten_per_minute),
        ("SHORTEN_BURST", limits.shorten_burst),
        ("REQUESTS_PER_SECOND", limits.requests_per_second),
        ("REQUESTS_BURST", limits.requests_burst),
    ]
    .map(|(name, limit)| pod::env(&format!("{prefix}_{name}"), limit.to_string()))
}

/// Returns the settings of the keys of clients.
fn auth(auth: &Auth) -> Vec<EnvVar> {
    let protect: Vec<&str> = auth.protect.iter().map(|group| group.as_str()).collect();
    let mut env = vec![
        pod::env("AUTH_KEYS_DIRECTORY", KEYS),
        pod::env("AUTH_PROTECT", protect.join(",")),
    ];
    env.extend(limits("AUTH_LIMIT", &auth.limits));
    env
}

/// Returns the settings of the proxy that signs people in. The stack's own nginx knows the addresses of those before it, and
/// lets the headers of no other peer pass.
fn auth_proxy(proxy: &AuthProxySpec, routing: &Routing) -> Vec<EnvVar> {
    let scopes: BTreeMap<&str, &BTreeSet<KeyScope>> = proxy
        .scopes
        .iter()
        .map(|group| (group.group.as_str(), &group.scopes))
        .collect();
    let peers = matches!(routing, Routing::IngressNginx { .. });
    let peers = peers.then(|| proxy.trusted_peers.join(","));
    pod::env_of([
        ("AUTH_PROXY_SECRET_DIRECTORY", Some(AUTH_PROXY.to_owned())),
        ("AUTH_PROXY_USER_HEADER", Some(proxy.user_header.clone())),
        (
            "AUTH_PROXY_GROUPS_HEADER",
            Some(proxy.groups_header.clone()),
        ),
        ("AUTH_PROXY_TRUSTED_PEERS", peers),
        ("AUTH_PROXY_SCOPES", Some(json!(scopes).to_string())),
    ])
}

/// Returns the settings of jobs.
fn jobs(stack: &ValidatedStack) -> Option<EnvVar> {
    let secret = job_ids_name(&stack.identity.name);
    let key = || pod::secret_env("JOB_ID_KEY", &secret, JOB_IDS_KEY);
    stack.publishes_jobs().then(key)
}

/// Returns the setting for addresses of clients in log lines and spans; none at the app's own default.
fn client_address(app: &App) -> Option<EnvVar> {
    let shown = match app.client_address {
        ClientAddress::Full => return None,
        ClientAddress::Network => "network",
        ClientAddress::None => "none",
    };
    Some(pod::env("LOG_CLIENT_ADDRESS", shown))
}

/// Returns the settings of what visitors and scripts of other origins get, of where links may lead, of the console and of clicks;
/// none for a stack that leaves them out.
fn links(app: &App) -> Vec<EnvVar> {
    let links = &app.links;
    let rules = links.destinations.as_ref();
    let allowed = rules.and_then(|rules| rules.allow_hosts.as_ref());
    let denied = rules.and_then(|rules| rules.deny_hosts.as_ref());
    let denies_private = rules.is_some_and(|rules| rules.deny_private_addresses);
    let counts = links.clicks.and_then(|clicks| clicks.enabled);
    pod::env_of([
        ("LINKS_ROOT_TARGET", links.root_target.clone()),
        ("LINKS_UNKNOWN_TARGET", links.unknown_target.clone()),
        ("LINKS_EXPIRED_TARGET", links.expired_target.clone()),
        (
            "LINKS_FORWARD_QUERY",
            links.forward_query.then(|| true.to_string()),
        ),
        ("LINKS_ALLOW_HOSTS", allowed.and_then(list)),
        ("LINKS_DENY_HOSTS", denied.and_then(list)),
        (
            "LINKS_DENY_PRIVATE_ADDRESSES",
            denies_private.then(|| true.to_string()),
        ),
        ("CORS_ALLOW_ORIGINS", list(&app.cors)),
        (
            "CONSOLE_ENABLED",
            app.console.enabled.then(|| true.to_string()),
        ),
        (
            "CONSOLE_HOST",
            app.console.host.clone().filter(|_| app.console.enabled),
        ),
        ("CLICKS_ENABLED", counts.map(|counts| counts.to_string())),
    ])
}

/// Returns the values separated by commas, if there are any.
fn list(values: &BTreeSet<String>) -> Option<String> {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    (!values.is_empty()).then(|| values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::metadata::CONFIG_CHECKSUM,
        testing::{golden, stack::minimal_stack},
    };

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
        let stack = minimal_stack().keys().visited();
        let app = &stack.app;
        let keys = app.auth.as_ref().unwrap();
        let proxy = &keys.proxy.as_ref().unwrap().settings;
        let variables = [
            auth(keys),
            links(app),
            auth_proxy(proxy, &stack.gateway.routing),
        ];
        assert_eq!(variables[2].len(), 5);
        assert_eq!(variables[1].len(), 11);
        for name in [
            "GATEWAY_HOSTS",
            "PURGE_RETENTION_DAYS",
            CAPACITY,
            MANAGEMENT,
        ] {
            assert!(known.contains(&name), "{name}");
        }
        for variable in variables.into_iter().flatten() {
            assert!(known.contains(&variable.name.as_str()), "{variable:?}");
        }
    }

    #[test]
    fn an_app_that_publishes_jobs_marks_their_identifiers_and_restarts_with_another_key() {
        let key = |stack: &ValidatedStack| {
            let env = env(stack).into_iter();
            let mut keys = env.filter(|variable| variable.name == "JOB_ID_KEY");
            let source = keys.next()?.value_from?.secret_key_ref?;
            Some((source.name, source.key))
        };
        let annotated = |stack: &ValidatedStack| {
            let template = deployment(stack).spec.unwrap().template;
            let annotations = template.metadata.unwrap().annotations.unwrap();
            annotations[CONFIG_CHECKSUM].clone()
        };
        let stack = minimal_stack().queue();
        let secret = ("acme-job-ids".to_owned(), "key".to_owned());
        assert_eq!(key(&stack), Some(secret));
        assert!(annotated(&stack).ends_with(".checksum-of-job-ids"));
        for without in [minimal_stack(), minimal_stack().queue().draining()] {
            assert_eq!(key(&without), None);
            assert!(!annotated(&without).contains("job-ids"));
        }
    }

    #[test]
    fn a_number_of_pods_that_another_manager_owns_is_left_out() {
        for (is_left, expected) in [(false, Some(2)), (true, None)] {
            let mut stack = minimal_stack().scaled_by_load(None);
            if let Some(scaling) = &mut stack.app.scaling {
                scaling.is_left = is_left;
            }
            assert_eq!(deployment(&stack).spec.unwrap().replicas, expected);
        }
    }

    #[test]
    fn the_app_has_as_much_time_to_end_as_it_reckons_with() {
        let reckoned = shortener_common::time_limits::TERMINATION;
        assert_eq!(u64::try_from(TERMINATION), Ok(reckoned));
    }

    #[test]
    fn a_stack_without_answers_of_its_own_to_visitors_sets_none() {
        assert_eq!(links(&minimal_stack().app), Vec::new());
    }

    #[test]
    fn the_app_accepts_every_target_and_origin_that_the_schema_does() {
        let mut arguments = vec!["app".to_owned(), "serve".to_owned()];
        arguments.push("--database-url=postgres://db/x".to_owned());
        for variable in links(&minimal_stack().visited().app) {
            let flag = variable.name.to_lowercase().replace('_', "-");
            arguments.push(format!("--{flag}={}", variable.value.unwrap()));
        }
        let parsed = <shortener_app::config::Cli as clap::Parser>::try_parse_from(arguments);
        assert!(parsed.is_ok(), "{parsed:?}");
    }

    #[test]
    fn the_app_has_the_hosts_of_the_gateway() {
        for (hosts, expected) in [
            (
                &["go.example.com", "example.com"][..],
                Some("go.example.com,example.com"),
            ),
            (&[], None),
        ] {
            let stack = minimal_stack().hosts(hosts);
            let mut found = env(&stack).into_iter();
            let found = found.find(|variable| variable.name == "GATEWAY_HOSTS");
            assert_eq!(found.and_then(|found| found.value).as_deref(), expected);
        }
    }

    #[test]
    fn the_app_shows_as_much_of_the_addresses_of_clients_as_the_user_wants() {
        let mut stack = minimal_stack();
        for (setting, text) in [
            (ClientAddress::Full, None),
            (ClientAddress::Network, Some("network")),
            (ClientAddress::None, Some("none")),
        ] {
            stack.app.client_address = setting;
            let mut found = env(&stack).into_iter();
            let found = found.find(|variable| variable.name == "LOG_CLIENT_ADDRESS");
            assert_eq!(found.and_then(|found| found.value).as_deref(), text);
            let shown = text.unwrap_or("full");
            let arguments = [
                "app",
                "serve",
                "--database-url=postgres://db/x",
                &format!("--log-client-address={shown}"),
            ];
            let parsed = <shortener_app::config::Cli as clap::Parser>::try_parse_from(arguments);
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }

    #[test]
    fn answers_to_visitors_reach_the_app() {
        golden(
            "deployment-app-visited",
            &deployment(&minimal_stack().visited()),
        );
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
        let spec = deployment(&minimal_stack()).spec.unwrap();
        let pod = spec.template.spec.unwrap();
        assert_eq!(pod.init_containers.unwrap()[0].env, pod.containers[0].env);
    }
}
