//! The environment variables of the programs that know the receivers.

use k8s_openapi::api::core::v1::EnvVar;
use serde_json::{Value, json};

use super::deployment::SECRETS;
use crate::{
    model::{
        metadata::Component,
        stack::{ValidatedStack, Webhook},
    },
    plan::{build::otel, objects::pod, stores::clients},
};

/// Returns the variable with the receivers, or `None` for a stack without any. Every migration needs it, because it removes
/// those receivers from the database that it is not told of.
pub(in crate::plan::build) fn receivers(stack: &ValidatedStack) -> Option<EnvVar> {
    if stack.webhooks.is_empty() {
        return None;
    }
    let receivers: Value = stack.webhooks.iter().map(receiver).collect();
    Some(pod::env("WEBHOOKS", receivers.to_string()))
}

fn receiver(receiver: &Webhook) -> Value {
    let events = receiver.events.iter().map(|event| event.as_str());
    let events: Vec<&str> = events.collect();
    json!({"name": receiver.name, "url": receiver.url, "events": events})
}

/// Returns the variables of the pod, without the receivers.
pub(super) fn common(stack: &ValidatedStack) -> Vec<EnvVar> {
    let mut env = clients::env(stack, Component::Webhooks);
    env.push(pod::name_env());
    env.extend(otel::env(stack, Component::Webhooks));
    env
}

/// Returns the variables of the program that delivers.
pub(super) fn deliver(stack: &ValidatedStack) -> Vec<EnvVar> {
    let mut env = common(stack);
    env.push(pod::env("PUBLIC_URL", &stack.public_url));
    env.push(pod::env("WEBHOOKS_SECRETS_DIRECTORY", SECRETS));
    env.extend(receivers(stack));
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::ADMITTED_ADDRESSES, testing::stack::minimal_stack};

    #[test]
    fn a_stack_without_receivers_has_no_such_variable() {
        assert_eq!(receivers(&minimal_stack()), None);
    }

    #[test]
    fn each_receiver_has_its_events_spelt_out() {
        let text = receivers(&minimal_stack().webhooks()).unwrap().value;
        let list: Value = serde_json::from_str(&text.unwrap()).unwrap();
        let all = [
            "link.created",
            "link.deleted",
            "link.disabled",
            "link.expired",
        ];
        let expected = json!([
            {"name": "crm", "url": "https://hooks.example.com/x?y=1", "events": all},
            {"name": "audit", "url": "https://audit.example.com:8443", "events": ["link.deleted"]},
        ]);
        assert_eq!(list, expected);
    }

    /// Returns the error of the app for a subcommand with these variables, if there is one.
    fn refusal(subcommand: &str, env: Vec<EnvVar>) -> Option<String> {
        let known = env
            .into_iter()
            .filter(|variable| variable.name != "OTEL_RESOURCE_ATTRIBUTES");
        let flags = known.map(|variable| {
            let flag = variable.name.to_lowercase().replace('_', "-");
            format!(
                "--{flag}={}",
                variable.value.unwrap_or_else(|| "secret".to_owned())
            )
        });
        let program = ["app", subcommand].map(str::to_owned).into_iter();
        let arguments: Vec<String> = program.chain(flags).collect();
        let parsed = <shortener_app::config::Cli as clap::Parser>::try_parse_from(arguments);
        parsed.err().map(|error| error.to_string())
    }

    #[test]
    fn the_app_takes_the_command_and_each_of_its_settings() {
        let external = minimal_stack().external_database().external_collector();
        for stack in [minimal_stack().observability(), external] {
            let stack = stack.webhooks();
            assert_eq!(refusal("webhooks", deliver(&stack)), None);
            let list = receivers(&stack).into_iter();
            let migrating = clients::env(&stack, Component::Webhooks).into_iter();
            assert_eq!(refusal("migrate", migrating.chain(list).collect()), None);
        }
    }

    #[test]
    fn the_app_takes_every_address_that_the_schema_does() {
        let mut stack = minimal_stack().webhooks();
        let longest = format!("{:x<2048}", "https://hooks.example.com?");
        for url in ADMITTED_ADDRESSES.into_iter().chain([&*longest]) {
            url.clone_into(&mut stack.webhooks[0].url);
            assert_eq!(refusal("webhooks", deliver(&stack)), None, "{url}");
        }
    }
}
