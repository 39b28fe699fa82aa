//! Measurements of the operator: connections past the gateway, on a network that enforces NetworkPolicies, and an end-to-end probe
//! through it.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use shortener_e2e::{Provider, Space};

const DOOR: &str = "door";

#[tokio::test]
async fn the_operator_sees_that_policies_are_enforced_and_names_a_service_that_opens_a_store()
-> Result<()> {
    Space::with("entry", async |space| {
        let (stack, _gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        stack
            .until_reason("SoleEntry", "True", "GatewayOnly")
            .await?;
        let door = json!({
            "metadata": {"name": DOOR, "namespace": stack.namespace},
            "spec": {
                "type": "NodePort",
                "ports": [{"port": 5432}],
                "selector": {
                    "app.kubernetes.io/instance": stack.name,
                    "app.kubernetes.io/component": "postgres",
                },
            },
        });
        let door: Service = serde_json::from_value(door)?;
        let services = Api::<Service>::namespaced(stack.client.clone(), &stack.namespace);
        services.create(&PostParams::default(), &door).await?;
        let exposed = stack.until_reason("SoleEntry", "False", "Exposed").await?;
        let names_both = [DOOR, "acme-postgres"].map(|name| exposed.message.contains(name));
        ensure!(names_both == [true; 2], "{}", exposed.message);
        stack.current("Ready", "True").await?;
        stack.current("Degraded", "False").await?;
        services.delete(DOOR, &DeleteParams::default()).await?;
        stack
            .until_reason("SoleEntry", "True", "GatewayOnly")
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_operator_makes_links_and_gets_jobs_done_through_the_gateway() -> Result<()> {
    Space::with("end-to-end", async |space| {
        let probed = json!({
            "profiles": ["queue"],
            "gateway": {"endToEndProbe": {"intervalSeconds": 30}},
        });
        let (stack, _gateway) = space.serve(Provider::Standalone, probed).await?;
        let passed = stack.until_reason("EndToEnd", "True", "Passed").await?;
        ensure!(passed.message.contains("a job done"), "{}", passed.message);

        // The task of the job is public no more, and the operator has no key.
        stack.edit(json!({"queue": {"publicTasks": []}})).await?;
        let refused = stack
            .until_reason("EndToEnd", "False", "KeyRefused")
            .await?;
        ensure!(
            refused.message.contains("publicTasks"),
            "{}",
            refused.message
        );
        stack.until("Ready", "True").await?;
        stack.edit(json!({"queue": {"publicTasks": ["*"]}})).await?;
        stack.until_reason("EndToEnd", "True", "Passed").await?;
        Ok(())
    })
    .await
}
