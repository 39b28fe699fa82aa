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
    // The app alone decides whether to accept a job: workers with other settings must not decide it again.
    if client == Component::App {
        let tasks: Vec<&str> = queue.public_tasks.iter().map(String::as_str).collect();
        env.push(pod::env("PUBLIC_TASKS", tasks.join(",")));
    }
    env
}

#[cfg(test)]
mod tests {
    use shortener_common::queue::public_tasks::PublicTasks;

    use super::*;
    use crate::testing::stack::minimal_stack;

    /// Returns the public tasks that a client reads; `None` if it does not read them.
    fn public(stack: &ValidatedStack, client: Component) -> Option<PublicTasks> {
        let mut env = env(stack, client).into_iter();
        let list = env.find(|variable| variable.name == "PUBLIC_TASKS")?;
        Some(PublicTasks::parse(&list.value.unwrap()).unwrap())
    }

    #[test]
    fn the_app_alone_reads_which_tasks_need_no_key() {
        let mut stack = minimal_stack().queue();
        let default = Some(PublicTasks::default());
        assert_eq!(public(&stack, Component::App), default);
        for list in ["*,reindex", "email,report.daily", ""] {
            if let Some(queue) = &mut stack.queue {
                let names = list.split(',').filter(|name| !name.is_empty());
                queue.public_tasks = names.map(str::to_owned).collect();
            }
            let parsed = PublicTasks::parse(list).unwrap();
            assert_eq!(public(&stack, Component::App), Some(parsed));
            assert_eq!(public(&stack, Component::Worker), None);
        }
    }
}
