//! What the stack's own programs are told against what they read.

use clap::{CommandFactory, FromArgMatches};
use k8s_openapi::api::core::v1::EnvVar;
use shortener_app::config::Cli;
use shortener_worker::config::WorkerArgs;

use super::{ValidatedStack, pods::pods};
use crate::testing::stack::{every_profile, minimal_stack};

/// What OpenTelemetry's own libraries read.
const OF_OPENTELEMETRY: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Every profile, once with what the operator runs and once with what somebody else does.
fn stacks() -> [ValidatedStack; 2] {
    let external = minimal_stack()
        .external_database()
        .external_cache()
        .external_queue()
        .external_collector()
        .external_vector();
    [every_profile(), external]
}

/// The environment of the main container of a component.
fn environment(stack: &ValidatedStack, component: &str) -> Vec<EnvVar> {
    let mut pods = pods(stack).into_iter();
    let (_, pod) = pods.find(|(name, _)| name == component).unwrap();
    let env = pod.containers.into_iter().next().unwrap().env.unwrap();
    let own = env
        .into_iter()
        .filter(|variable| variable.name != OF_OPENTELEMETRY);
    own.collect()
}

/// A command line that says what an environment says: every variable has a flag of its name. A program refuses a flag
/// that it does not know, and would ignore the variable.
fn command_line(env: Vec<EnvVar>) -> impl Iterator<Item = String> {
    env.into_iter().map(|variable| {
        let flag = variable.name.to_lowercase().replace('_', "-");
        // What comes from a Secret is any text.
        let value = variable.value.unwrap_or_else(|| "secret".to_owned());
        format!("--{flag}={value}")
    })
}

/// What is wrong with a command line, if anything.
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
