//! Containers that join a running pod.
//!
//! The images of the programs have no shell. So a container of another image joins the pod and reads the control group
//! through the root folder of the program, which has the same user.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::harness::{await_condition, merge, restricted_container};

/// The name of the container that joins.
pub(crate) const CONTAINER: &str = "meter";

/// Joins the first container of a pod, waits until the new container runs, and returns the name of the pod. The container
/// stays as long as the pod.
pub(crate) async fn join(
    pods: &Api<Pod>,
    pod: &Pod,
    image: &str,
    command: &[&str],
) -> Result<String> {
    let name = pod.name_any();
    let target = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let target = target.context("the pod has no container")?;
    let mut container = restricted_container(
        image,
        json!({
            "name": CONTAINER,
            "command": command,
            "targetContainerName": target.name,
        }),
    );
    // A container that joins later has none.
    merge(&mut container, json!({"resources": null}));
    let joins = Patch::Strategic(json!({"spec": {"ephemeralContainers": [container]}}));
    pods.patch_ephemeral_containers(&name, &PatchParams::default(), &joins)
        .await?;
    await_condition(&format!("the meter in pod {name} runs"), async || {
        let status = pods.get(&name).await?.status.unwrap_or_default();
        let joined = status.ephemeral_container_statuses.unwrap_or_default();
        let state = joined
            .first()
            .and_then(|container| container.state.as_ref());
        let state = state.context("its container has no state yet")?;
        ensure!(state.running.is_some(), "{state:?}");
        Ok(())
    })
    .await?;
    Ok(name)
}
