//! Environment variables of the app and the workers for the broker.

use k8s_openapi::api::core::v1::EnvVar;

use super::PORT;
use crate::{
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

/// Returns the variables of a client, or none without a queue. The app does not publish to a queue that is being
/// drained.
pub(super) fn env(stack: &ValidatedStack, client: Component) -> Vec<EnvVar> {
    let queue = stack.queue.as_ref();
    let Some(queue) = queue.filter(|_| stack.publishes_jobs() || client != Component::App) else {
        return Vec::new();
    };
    let mut env = match &queue.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Rabbitmq);
            vec![
                pod::env("QUEUE_URL", format!("amqp://{host}:{PORT}/%2f")),
                pod::secret_env("QUEUE_USERNAME", &host, credentials::USERNAME_KEY),
                pod::secret_env("QUEUE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External {
            secret,
            access,
            tls,
            ..
        } => external("QUEUE", secret, access, tls.as_ref()),
    };
    let tasks: Vec<&str> = queue.public_tasks.iter().map(String::as_str).collect();
    // The workers check what the app checked, because a job may be older than a change of the settings.
    env.push(pod::env("PUBLIC_TASKS", tasks.join(",")));
    env
}

#[cfg(test)]
mod tests {
    use shortener_common::queue::public_tasks::PublicTasks;

    use super::*;
    use crate::testing::stack::minimal_stack;

    /// Returns the public tasks that a client reads.
    fn public(stack: &ValidatedStack, client: Component) -> PublicTasks {
        let env = env(stack, client).into_iter();
        let mut lists = env.filter(|variable| variable.name == "PUBLIC_TASKS");
        PublicTasks::parse(&lists.next().unwrap().value.unwrap()).unwrap()
    }

    #[test]
    fn app_and_workers_know_which_tasks_need_no_key() {
        for client in [Component::App, Component::Worker] {
            let mut stack = minimal_stack().queue();
            assert_eq!(public(&stack, client), PublicTasks::default());
            for list in ["*,reindex", "email,report.daily", ""] {
                if let Some(queue) = &mut stack.queue {
                    let names = list.split(',').filter(|name| !name.is_empty());
                    queue.public_tasks = names.map(str::to_owned).collect();
                }
                assert_eq!(public(&stack, client), PublicTasks::parse(list).unwrap());
            }
        }
    }
}
