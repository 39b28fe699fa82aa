//! Outages of a stack's stores: stopping, killing, isolating and freezing them, and recovery.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod, networking::v1::NetworkPolicy};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::harness::{Stack, await_condition, is_ready, kubectl};

/// Sends a signal to the broker's process. Nothing stops the first process of a container from inside, and that is a
/// shell.
const SIGNAL: &str = r#"
set -eu
found=no
for process in /proc/[0-9]*; do
  case $(readlink "$process/exe" || true) in
    */beam.smp) kill -s "$1" "${process#/proc/}" && found=yes ;;
  esac
done
test "$found" = yes
"#;

impl Stack {
    /// Pauses the operator's work on this stack, because it would revert the changes of a test.
    pub async fn pause(&self) -> Result<()> {
        self.edit(json!({"paused": true})).await?;
        self.until_reason("Progressing", "False", "Paused").await?;
        Ok(())
    }

    /// Ends the pause and waits until the operator has reverted the changes.
    pub async fn resume(&self) -> Result<()> {
        self.edit(json!({"paused": false})).await?;
        self.ready().await
    }

    /// Scales a store to zero. It stays down until the stack, which must be paused, is resumed.
    pub async fn scale_to_zero(&self, store: &str) -> Result<()> {
        let name = format!("{}-{store}", self.name);
        let sets = Api::<StatefulSet>::namespaced(self.client.clone(), &self.namespace);
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        sets.patch(&name, &PatchParams::default(), &none).await?;
        let pods = self.pods();
        await_condition(&format!("the pod of {name} is gone"), async || {
            let pod = pods.get_opt(&format!("{name}-0")).await?;
            ensure!(pod.is_none(), "the pod still exists");
            Ok(())
        })
        .await
    }

    /// Drops every packet to a store until the stack, which must be paused, is resumed. A policy does not affect
    /// open connections, so the store's pod is killed too, which ends them.
    pub async fn isolate(&self, store: &str) -> Result<()> {
        let name = format!("{}-{store}", self.name);
        let policies = Api::<NetworkPolicy>::namespaced(self.client.clone(), &self.namespace);
        let closed = Patch::Merge(json!({"spec": {"ingress": null}}));
        policies
            .patch(&name, &PatchParams::default(), &closed)
            .await?;
        self.kill(store).await
    }

    /// Stops the process of the managed broker until [`Stack::thaw_broker`]. The kernel takes connections for it, so its
    /// pod stays ready, and nothing answers.
    pub async fn freeze_broker(&self) -> Result<()> {
        self.signal_broker("STOP").await
    }

    /// Lets the process of the managed broker go on.
    pub async fn thaw_broker(&self) -> Result<()> {
        self.signal_broker("CONT").await
    }

    async fn signal_broker(&self, signal: &str) -> Result<()> {
        let pod = format!("{}-rabbitmq-0", self.name);
        kubectl(
            self,
            &["exec", &pod, "--", "sh", "-c", SIGNAL, "sh", signal],
        )
        .await?;
        Ok(())
    }

    /// Kills the pod of a store without a grace period, and waits until its replacement is ready.
    pub async fn kill(&self, store: &str) -> Result<()> {
        let name = format!("{}-{store}-0", self.name);
        let pods = self.pods();
        let old = pods.get(&name).await?.uid();
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&name, &now).await?;
        await_condition(
            &format!("the replacement of pod {name} is ready"),
            async || {
                let pod = pods.get(&name).await?;
                ensure!(pod.uid() != old, "the old pod still exists");
                ensure!(is_ready(&pod), "the new pod is not ready");
                Ok(())
            },
        )
        .await
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
