//! Stores of a stack that are taken away, killed or cut off, and come back.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod, networking::v1::NetworkPolicy};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{Stack, await_condition, is_ready};

impl Stack {
    /// Holds the operator off this stack: it would undo what a test does to it.
    pub async fn pause(&self) -> Result<()> {
        self.edit(json!({"paused": true})).await?;
        self.until_reason("Progressing", "False", "Paused").await?;
        Ok(())
    }

    /// Lets the operator put everything back, and waits until it has.
    pub async fn resume(&self) -> Result<()> {
        self.edit(json!({"paused": false})).await?;
        self.ready().await
    }

    /// Takes a store away until the stack, which must be paused, is resumed.
    pub async fn take_away(&self, store: &str) -> Result<()> {
        let name = format!("{}-{store}", self.name);
        let sets = Api::<StatefulSet>::namespaced(self.client.clone(), &self.namespace);
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        sets.patch(&name, &PatchParams::default(), &none).await?;
        let pods = self.pods();
        await_condition(&format!("the pod of {name} is gone"), async || {
            let pod = pods.get_opt(&format!("{name}-0")).await?;
            ensure!(pod.is_none(), "still there");
            Ok(())
        })
        .await
    }

    /// Drops every packet to a store until the stack, which must be paused, is resumed. Connections there are go with the
    /// old pod, because a policy leaves them alone.
    pub async fn cut_off(&self, store: &str) -> Result<()> {
        let name = format!("{}-{store}", self.name);
        let policies = Api::<NetworkPolicy>::namespaced(self.client.clone(), &self.namespace);
        let closed = Patch::Merge(json!({"spec": {"ingress": null}}));
        policies
            .patch(&name, &PatchParams::default(), &closed)
            .await?;
        self.kill(store).await
    }

    /// Kills the pod of a store outright, and waits until another one is ready in its place.
    pub async fn kill(&self, store: &str) -> Result<()> {
        let name = format!("{}-{store}-0", self.name);
        let pods = self.pods();
        let old = pods.get(&name).await?.uid();
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&name, &now).await?;
        await_condition(&format!("another {name} is ready"), async || {
            let pod = pods.get(&name).await?;
            ensure!(pod.uid() != old, "it is still the old one");
            ensure!(is_ready(&pod), "it is not ready");
            Ok(())
        })
        .await
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
