//! The state of a namespace and of the operator, printed when a test failed.

use std::fmt::{Display, Write};

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, LogParams},
};

use crate::harness::{Operator, stack_resource};

/// Returns the stacks, pods and events of a namespace and the end of the operator's log, as text.
pub(crate) async fn namespace(client: &Client, namespace: &str) -> String {
    let mut text = format!("\n===== state of namespace {namespace} =====\n");
    section(&mut text, "stacks", stacks(client, namespace).await);
    section(&mut text, "pods", pods(client, namespace).await);
    section(&mut text, "events", events(client, namespace).await);
    section(&mut text, "operator", operator(client, namespace).await);
    text
}

fn section(text: &mut String, title: &str, content: anyhow::Result<impl Display>) {
    match content {
        Ok(content) => text.push_str(&format!("----- {title}\n{content}\n")),
        Err(error) => text.push_str(&format!("----- {title}: not readable: {error:#}\n")),
    }
}

async fn stacks(client: &Client, namespace: &str) -> anyhow::Result<String> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &stack_resource());
    let mut text = String::new();
    for mut stack in api.list(&ListParams::default()).await?.items {
        stack.metadata.managed_fields = None;
        text.push_str(&serde_yaml::to_string(&stack)?);
        text.push_str("---\n");
    }
    Ok(text)
}

async fn pods(client: &Client, namespace: &str) -> anyhow::Result<String> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut text = String::new();
    for pod in api.list(&ListParams::default()).await?.items {
        let name = pod.name_any();
        let status = pod.status.unwrap_or_default();
        let phase = status.phase.unwrap_or_default();
        writeln!(
            text,
            "{name}: {phase} {}",
            status.message.unwrap_or_default()
        )?;
        let containers = status.init_container_statuses.into_iter().flatten();
        for container in containers.chain(status.container_statuses.into_iter().flatten()) {
            write_container(&mut text, &container)?;
            let log = LogParams {
                container: Some(container.name),
                tail_lines: Some(15),
                ..LogParams::default()
            };
            if let Ok(log) = api.logs(&name, &log).await {
                log.lines()
                    .try_for_each(|line| writeln!(text, "      | {line}"))?;
            }
        }
    }
    Ok(text)
}

fn write_container(text: &mut String, container: &ContainerStatus) -> anyhow::Result<()> {
    let (name, ready) = (&container.name, container.ready);
    let state = serde_json::to_string(&container.state)?;
    writeln!(
        text,
        "   {name}: ready {ready}, restarts {}, {state}",
        container.restart_count
    )?;
    Ok(())
}

async fn events(client: &Client, namespace: &str) -> anyhow::Result<String> {
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let mut text = String::new();
    for event in api.list(&ListParams::default()).await?.items {
        let object = event.involved_object;
        writeln!(
            text,
            "{} {}: {} {}",
            object.kind.unwrap_or_default(),
            object.name.unwrap_or_default(),
            event.reason.unwrap_or_default(),
            event.message.unwrap_or_default()
        )?;
    }
    Ok(text)
}

/// Returns the end of the operator's log: only warnings, errors and the lines that name the namespace.
async fn operator(client: &Client, namespace: &str) -> anyhow::Result<String> {
    let operator = Operator::find(client).await?;
    let mut text = String::new();
    for pod in operator.running().await? {
        let name = pod.name_any();
        let parameters = LogParams {
            tail_lines: Some(2000),
            ..LogParams::default()
        };
        let log = operator.pods.logs(&name, &parameters).await?;
        let relevant: Vec<&str> = log
            .lines()
            .filter(|line| {
                line.contains(namespace) || line.contains("WARN") || line.contains("ERROR")
            })
            .collect();
        writeln!(text, "{name}:")?;
        for line in relevant.iter().skip(relevant.len().saturating_sub(60)) {
            writeln!(text, "   | {line}")?;
        }
    }
    Ok(text)
}
