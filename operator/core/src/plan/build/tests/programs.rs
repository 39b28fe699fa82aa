//! Tests of the environment of the stack's own programs against the settings that the programs accept.

use clap::{CommandFactory, FromArgMatches};
use k8s_openapi::api::core::v1::EnvVar;
use shortener_app::config::Cli;
use shortener_worker::config::WorkerArgs;

use super::{ValidatedStack, pods::pods};
use crate::testing::stack::{every_profile, minimal_stack};

/// Variables that libraries read: OpenTelemetry's, and the allocator.
const OF_LIBRARIES: [&str; 2] = ["OTEL_RESOURCE_ATTRIBUTES", "MIMALLOC_ALLOW_THP"];

/// Returns a stack with every profile and managed stores, one with external stores, one with external stores over TLS, and
/// one with a pooler before its database, and one with many pods.
fn stacks() -> [ValidatedStack; 5] {
    let external = minimal_stack()
        .external_database()
        .external_cache()
        .external_queue()
        .external_collector()
        .external_vector();
    let over_tls = minimal_stack().every_external_store_over_tls();
    let pooled = every_profile().external_database_behind_a_pooler();
    let mut many = every_profile();
    many.app.replicas = 40;
    [every_profile(), external, over_tls, pooled, many]
}

/// Returns the environment of the main container of a component.
fn environment(stack: &ValidatedStack, component: &str) -> Vec<EnvVar> {
    let mut pods = pods(stack).into_iter();
    let (_, pod) = pods.find(|(name, _)| name == component).unwrap();
    let env = pod.containers.into_iter().next().unwrap().env.unwrap();
    let own = env
        .into_iter()
        .filter(|variable| !OF_LIBRARIES.contains(&variable.name.as_str()));
    own.collect()
}

/// Returns a command line with the flags that correspond to the variables of an environment. A program rejects an
/// unknown flag but would ignore an unknown variable.
fn command_line(env: Vec<EnvVar>) -> impl Iterator<Item = String> {
    env.into_iter().map(|variable| {
        let flag = variable.name.to_lowercase().replace('_', "-");
        let source = variable.value_from.unwrap_or_default();
        let value = match (variable.value, source.resource_field_ref) {
            (Some(value), _) => value,
            (None, Some(_)) => "134217728".to_owned(),
            // A value from a Secret may be any text.
            (None, None) => "secret".to_owned(),
        };
        format!("--{flag}={value}")
    })
}

/// Returns the error that a program reports for a command line, if any.
fn refusal<P: CommandFactory + FromArgMatches>(arguments: Vec<String>) -> Option<String> {
    let matches = P::command().try_get_matches_from(arguments);
    let read = matches.and_then(|matches| P::from_arg_matches(&matches));
    read.err().map(|error| error.to_string())
}

#[test]
fn the_app_knows_every_variable_and_takes_its_value() {
    for stack in stacks() {
        let program = ["app", "serve"].map(str::to_owned).into_iter();
        let arguments = program.chain(command_line(environment(&stack, "acme-app")));
        assert_eq!(refusal::<Cli>(arguments.collect()), None);
    }
}

#[test]
fn a_worker_knows_every_variable_and_takes_its_value() {
    for stack in stacks() {
        let program = std::iter::once("worker".to_owned());
        let arguments = program.chain(command_line(environment(&stack, "acme-worker")));
        assert_eq!(refusal::<WorkerArgs>(arguments.collect()), None);
    }
}
