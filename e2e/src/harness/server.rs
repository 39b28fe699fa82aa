//! Servers that the tests run beside a stack: a Deployment of one pod, and a Service of the same name.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{Space, await_condition, merge, restricted_pod};

/// Key of the label that selects the pods of a server; its value is the server's name.
pub(crate) const LABEL: &str = "app";

/// A server that a test starts.
pub(crate) struct Server<'a> {
    /// Name of the Deployment and the Service, and therefore the host name.
    pub name: &'static str,
    /// Ports of the pod and the Service.
    pub ports: &'a [u16],
    /// Its container, with a readiness probe.
    pub container: Value,
    /// Volumes of its pod.
    pub volumes: Value,
}

impl Server<'_> {
    /// Starts the server unless it already runs, and waits until it is ready.
    pub(crate) async fn start(self, space: &Space) -> Result<()> {
        let (name, labels) = (self.name, json!({LABEL: self.name}));
        let pod = restricted_pod(name, &labels, self.container, self.volumes)?;
        let mut template = json!({"metadata": {"labels": labels}, "spec": pod.spec});
        merge(&mut template, json!({"spec": {"restartPolicy": "Always"}}));
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": labels},
                "template": template,
            },
        });
        let ports = self.ports.iter();
        let ports = ports.map(|port| json!({"name": format!("port-{port}"), "port": port}));
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": ports.collect::<Vec<_>>()},
        });
        let ours = PatchParams::apply("e2e").force();
        Api::<Service>::namespaced(space.client.clone(), &space.name)
            .patch(name, &ours, &Patch::Apply(service))
            .await?;
        deployments(space)
            .patch(name, &ours, &Patch::Apply(deployment))
            .await?;
        ready(space, name).await
    }
}

/// Stops a server and waits until its pod is gone.
pub(crate) async fn stop(space: &Space, name: &str) -> Result<()> {
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments(space)
        .patch_scale(name, &PatchParams::default(), &none)
        .await?;
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    let selected = ListParams::default().labels(&format!("{LABEL}={name}"));
    await_condition(&format!("the pods of {name} are gone"), async || {
        let left = pods.list(&selected).await?.items.len();
        ensure!(left == 0, "{left} pods are left");
        Ok(())
    })
    .await
}

async fn ready(space: &Space, name: &str) -> Result<()> {
    let deployments = deployments(space);
    await_condition(&format!("{name} is ready"), async || {
        let deployment = deployments.get(name).await?;
        let status = deployment
            .status
            .context("the Deployment has no status yet")?;
        let current = status.observed_generation == deployment.metadata.generation;
        let counts = [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
        ];
        ensure!(current && counts == [Some(1); 3], "{status:?}");
        Ok(())
    })
    .await
}

fn deployments(space: &Space) -> Api<Deployment> {
    Api::namespaced(space.client.clone(), &space.name)
}
