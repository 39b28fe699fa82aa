//! Changes of pod templates on a real API server, which keeps or drops what the fake one does not.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodTemplateSpec};
use kube::Api;
use serde_json::json;
use shortener_e2e::{Provider, Space, echo_spec};

#[tokio::test]
async fn changes_reach_the_pods_and_refused_ones_leave_them_serving() -> Result<()> {
    Space::with("pod-template", async |space| {
        space.unused_database().await?;
        let mut spec = echo_spec(space, Provider::IngressNginx);
        let changes = json!({
            "metadata": {"labels": {"team": "links"}},
            "spec": {
                "terminationGracePeriodSeconds": 31,
                "securityContext": {"runAsGroup": null},
                "containers": [{"name": "nginx", "env": [{"name": "TEAM", "value": "links"}]}],
            },
        });
        spec["gateway"]["podTemplate"] = changes;
        let stack = space.stack("acme");
        stack.apply(&spec).await?;
        stack.ready().await?;
        let deployments = Api::<Deployment>::namespaced(space.client.clone(), &space.name);
        let template = async || -> Result<PodTemplateSpec> {
            let live = deployments.get("acme-gateway").await?;
            Ok(live.spec.context("no spec")?.template)
        };
        let before = template().await?;
        let labels = before.metadata.clone().and_then(|metadata| metadata.labels);
        ensure!(labels.is_some_and(|labels| labels["team"] == "links"));
        let pod = before.spec.clone().context("no pod")?;
        ensure!(pod.termination_grace_period_seconds == Some(31));
        let security = pod.security_context.context("no security context")?;
        ensure!(security.run_as_group.is_none() && security.run_as_user.is_some());

        stack
            .edit(json!({"gateway": {"podTemplate": {"spec": {"hostNetwork": true, "dnsPolcy": "None"}}}}))
            .await?;
        let refused = stack
            .until_reason("Degraded", "True", "PodTemplateRefused")
            .await?;
        let sentence = "gateway.podTemplate: spec.dnsPolcy is no field of a pod template";
        ensure!(refused.message.contains(sentence), "{}", refused.message);
        stack.until("Ready", "True").await?;
        ensure!(template().await? == before, "the pods were changed");

        let replaced = json!({"$patch": "replace", "runAsNonRoot": true, "runAsUser": 101,
            "seccompProfile": {"type": "RuntimeDefault"}});
        stack
            .edit(json!({"gateway": {"podTemplate": {"spec": {
                "hostNetwork": null, "dnsPolcy": null, "securityContext": replaced,
            }}}}))
            .await?;
        stack.ready().await?;
        let security = template().await?.spec.and_then(|pod| pod.security_context);
        ensure!(security.is_some_and(|security| security.run_as_group.is_none()));
        Ok(())
    })
    .await
}
