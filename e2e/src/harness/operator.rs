//! The operator's own Deployment, pods and lease.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::harness::await_condition;

pub const OPERATOR_NAMESPACE: &str = "shortener-system";

const SELECTOR: &str = "app.kubernetes.io/name=shortener-operator";

/// The operator as the chart installed it.
pub struct Operator {
    /// Name of its Deployment, lease and, by default, service account.
    pub name: String,
    /// Name of its service account.
    pub service_account: String,
    pub pods: Api<Pod>,
    deployments: Api<Deployment>,
    leases: Api<Lease>,
}

impl Operator {
    pub async fn find(client: &Client) -> Result<Self> {
        let deployments = Api::<Deployment>::namespaced(client.clone(), OPERATOR_NAMESPACE);
        let deployment = deployments
            .list(&ListParams::default().labels(SELECTOR))
            .await?
            .items
            .into_iter()
            .next()
            .context("the cluster has no Deployment of the operator: install its chart")?;
        let service_account = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref()?.service_account_name.clone())
            .context("the operator has no service account")?;
        Ok(Self {
            name: deployment.name_any(),
            service_account,
            pods: Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
            deployments,
            leases: Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
        })
    }

    /// Returns its pods that are not being deleted.
    pub async fn running(&self) -> Result<Vec<Pod>> {
        let mut pods = self
            .pods
            .list(&ListParams::default().labels(SELECTOR))
            .await?
            .items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// Sets the number of replicas and waits until exactly these run and are ready.
    pub async fn scale(&self, replicas: i32) -> Result<()> {
        self.want(replicas).await?;
        self.settled(replicas).await
    }

    /// Scales it to zero and waits until no pod is left. The last one gives its lease back.
    pub async fn stop(&self) -> Result<()> {
        self.want(0).await?;
        await_condition("no operator pod is left", async || {
            let selected = ListParams::default().labels(SELECTOR);
            let left = self.pods.list(&selected).await?.items.len();
            ensure!(left == 0, "{left} pods are left");
            Ok(())
        })
        .await
    }

    async fn want(&self, replicas: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments
            .patch_scale(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Returns the environment variables of its container that are plain values: its settings.
    pub async fn settings(&self) -> Result<Vec<(String, String)>> {
        let spec = self.deployments.get(&self.name).await?.spec;
        let pod = spec.and_then(|spec| spec.template.spec);
        let container = pod.and_then(|pod| pod.containers.into_iter().next());
        let container = container.context("the operator has no container")?;
        let variables = container.env.unwrap_or_default().into_iter();
        let plain = variables.filter_map(|variable| Some((variable.name, variable.value?)));
        Ok(plain.collect())
    }

    /// Waits until exactly `replicas` pods run and are ready, and one of them leads.
    pub async fn settled(&self, replicas: i32) -> Result<()> {
        await_condition(&format!("{replicas} operator pods are ready"), async || {
            let status = self.deployments.get(&self.name).await?.status;
            let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
            let selected = ListParams::default().labels(SELECTOR);
            let pods = i32::try_from(self.pods.list(&selected).await?.items.len())?;
            ensure!(
                ready == replicas && pods == replicas,
                "{ready} of {pods} pods are ready"
            );
            self.leader().await.map(|_| ())
        })
        .await
    }

    /// Returns the metrics of one of its pods.
    pub async fn metrics_of(&self, pod: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:8080/proxy/metrics");
        let request = http::Request::get(path).body(Vec::new())?;
        let client = self.pods.clone().into_client();
        Ok(client.request_text(request).await?)
    }

    /// Returns the holder of the lease, which must be a pod that is not being deleted.
    pub async fn leader(&self) -> Result<String> {
        let lease = self.leases.get(&self.name).await?;
        let holder = lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .unwrap_or_default();
        let pods = self.running().await?;
        let leader = pods.iter().map(ResourceExt::name_any);
        leader
            .into_iter()
            .find(|name| holder.starts_with(name.as_str()))
            .with_context(|| format!("the lease is held by {holder:?}, which is not a running pod"))
    }
}
