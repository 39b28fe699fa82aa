//! Pods: those of a stack, and those that the tests create, which pass the restricted Pod Security Standard.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams, PostParams},
};
use serde_json::{Value, json};

use crate::harness::{Space, Stack, await_condition, merge};

/// Returns a container that the restricted standard admits.
pub fn restricted_container(image: &str, more: Value) -> Value {
    let mut container = json!({
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    merge(&mut container, more);
    container
}

/// Returns a pod that the restricted standard admits.
pub fn restricted_pod(name: &str, labels: &Value, container: Value, volumes: Value) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": volumes,
        },
    }))?)
}

/// Returns true when the condition `Ready` of a pod is true.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    conditions
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the pods of a component that are not being deleted.
pub async fn pods_of(stack: &Stack, component: &str) -> Result<Vec<Pod>> {
    let selector = format!(
        "app.kubernetes.io/instance={},app.kubernetes.io/component={component}",
        stack.name
    );
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let mut pods = pods
        .list(&ListParams::default().labels(&selector))
        .await?
        .items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(pods)
}

/// Returns the uids of the pods of components, each of which has one.
pub async fn uids_of(stack: &Stack, components: &[&str]) -> Result<BTreeSet<String>> {
    let mut uids = BTreeSet::new();
    for component in components {
        let pods = pods_of(stack, component).await?;
        ensure!(!pods.is_empty(), "{component} has no pod");
        uids.extend(pods.iter().filter_map(ResourceExt::uid));
    }
    Ok(uids)
}

/// Waits until as many ready pods of these components have taken the place of the earlier ones, which are gone.
pub async fn await_replaced(
    stack: &Stack,
    components: &[&str],
    earlier: &BTreeSet<String>,
) -> Result<()> {
    await_condition("every pod is replaced", async || {
        let mut ready = 0;
        for component in components {
            for pod in pods_of(stack, component).await? {
                let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
                ensure!(!earlier.contains(&uid), "pod {name} is an earlier one");
                ensure!(is_ready(&pod), "pod {name} is not ready");
                ready += 1;
            }
        }
        let expected = earlier.len();
        ensure!(ready == expected, "{ready} of {expected} pods are ready");
        Ok(())
    })
    .await?;
    settled(stack).await
}

/// Waits until every pod of a stack has the newest template, and the older pods are gone.
pub async fn settled(stack: &Stack) -> Result<()> {
    stack.ready().await?;
    stack.until("Progressing", "False").await?;
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let selected =
        ListParams::default().labels(&format!("app.kubernetes.io/instance={}", stack.name));
    await_condition("no pod is being deleted", async || {
        for pod in pods.list(&selected).await? {
            let ends = pod.metadata.deletion_timestamp.is_some();
            ensure!(!ends, "pod {} is being deleted", pod.name_any());
        }
        Ok(())
    })
    .await
}

/// Returns the log of a component's pods, one entry per line; a line that is not JSON becomes a string.
pub async fn log_lines(stack: &Stack, component: &str, since: &LogParams) -> Result<Vec<Value>> {
    let api = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let parameters = LogParams {
        container: Some(component.to_owned()),
        ..since.clone()
    };
    let mut lines = Vec::new();
    for pod in pods_of(stack, component).await? {
        let log = api.logs(&pod.name_any(), &parameters).await?;
        let read = |line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
        lines.extend(log.lines().map(read));
    }
    Ok(lines)
}

/// Runs a bash script in a new pod and returns its output.
pub async fn run_script(space: &Space, name: &str, labels: Value, script: &str) -> Result<String> {
    let container = restricted_container(
        &space.settings.postgres_image,
        json!({"command": ["bash", "-c", script]}),
    );
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    let pod = restricted_pod(name, &labels, container, json!([]))?;
    pods.create(&PostParams::default(), &pod).await?;
    output_of(space, name).await
}

/// Waits until a pod has ended, removes it, and returns its output.
pub async fn output_of(space: &Space, name: &str) -> Result<String> {
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    let phase = await_condition(
        &format!("the program of pod {name} has ended"),
        async || {
            let phase = pods.get(name).await?.status.and_then(|status| status.phase);
            match phase.as_deref() {
                Some(phase @ ("Succeeded" | "Failed")) => Ok(phase.to_owned()),
                other => bail!("the pod is in phase {other:?}"),
            }
        },
    )
    .await?;
    let printed = pods
        .logs(name, &LogParams::default())
        .await
        .with_context(|| format!("cannot read the log of pod {name}"))?;
    if phase == "Failed" {
        bail!("the program of pod {name} failed: {printed}");
    }
    pods.delete(name, &Default::default()).await?;
    Ok(printed)
}
