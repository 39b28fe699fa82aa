//! Pods that the tests create, which pass the restricted Pod Security Standard.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{LogParams, PostParams},
};
use serde_json::{Value, json};

use crate::{Space, await_condition, merge};

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

/// Runs a bash script in a new pod and returns its output.
pub async fn run_script(space: &Space, name: &str, labels: Value, script: &str) -> Result<String> {
    let container = restricted_container(
        &space.settings.postgres_image,
        json!({"command": ["bash", "-c", script]}),
    );
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    let pod = restricted_pod(name, &labels, container, json!([]))?;
    pods.create(&PostParams::default(), &pod).await?;
    let phase = await_condition(&format!("the script of pod {name} has ended"), async || {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase);
        match phase.as_deref() {
            Some(phase @ ("Succeeded" | "Failed")) => Ok(phase.to_owned()),
            other => bail!("the pod is in phase {other:?}"),
        }
    })
    .await?;
    let printed = pods
        .logs(name, &LogParams::default())
        .await
        .with_context(|| format!("cannot read the log of pod {name}"))?;
    if phase == "Failed" {
        bail!("the script of pod {name} failed: {printed}");
    }
    pods.delete(name, &Default::default()).await?;
    Ok(printed)
}
