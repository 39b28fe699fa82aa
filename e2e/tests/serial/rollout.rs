//! Rolling updates of the app under load (A1). `E2E_ROLLOUTS` sets their number: 1 by default.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Load, Provider, Space, Stack, await_condition, merge, with_env,
};

use crate::undisturbed;

/// The number of rollouts without a drain in which at least one request must be dropped.
const MOST_ROLLOUTS: u32 = 12;

#[tokio::test]
async fn a_rolling_update_behind_ingress_nginx_fails_no_request() -> Result<()> {
    updates_fail_nothing(Provider::IngressNginx).await
}

#[tokio::test]
async fn a_rolling_update_behind_a_standalone_gateway_fails_no_request() -> Result<()> {
    updates_fail_nothing(Provider::Standalone).await
}

/// Proves that the two tests above can fail.
#[tokio::test]
async fn without_the_drain_a_rolling_update_drops_requests() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("no-drain", async |space| {
        let undrained = json!([
            {"name": "DRAIN_DELAY_SECONDS", "value": "0"},
            {"name": "DRAIN_TIMEOUT_SECONDS", "value": "0"},
        ]);
        let undrained = json!({"app": with_env("app", &undrained)});
        let (stack, gateway) = two_of_everything(space, Provider::Standalone, undrained).await?;
        let load = Load::of_redirects_and_creates(&gateway).await?;
        for number in 1..=MOST_ROLLOUTS {
            let (report, ()) = load.during(update(&stack, number)).await?;
            println!("update {number}: {report}");
            if report.dropped > 0 {
                return Ok(());
            }
        }
        anyhow::bail!("{MOST_ROLLOUTS} rollouts without a drain dropped no request")
    })
    .await
}

async fn updates_fail_nothing(provider: Provider) -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("rollout", async |space| {
        let (stack, gateway) = two_of_everything(space, provider, json!({})).await?;
        let rollouts = std::env::var("E2E_ROLLOUTS");
        let rollouts = rollouts.map_or(Ok(1), |number| number.parse())?;
        let load = Load::of_redirects_and_creates(&gateway).await?;
        for number in 1..=rollouts {
            let title = format!("update {number}");
            load.fails_nothing(&title, update(&stack, number)).await?;
        }
        Ok(())
    })
    .await
}

/// Serves a stack with two pods of the app and two of the gateway, and with further changes of its spec.
pub(super) async fn two_of_everything(
    space: &Space,
    provider: Provider,
    further: Value,
) -> Result<(Stack, GatewayClient)> {
    // The operator's default requests: with smaller ones a busy machine starves the pods, which is not under test.
    let mut changes = json!({
        "app": {"replicas": 2, "resources": null},
        "gateway": {"replicas": 2, "resources": null},
        "database": {"managed": {"resources": null}},
        "cache": {"managed": {"resources": null}},
    });
    merge(&mut changes, further);
    space.serve(provider, changes).await
}

/// Replaces every pod of the app.
async fn update(stack: &Stack, number: u32) -> Result<()> {
    let mut template = stack.get().await?.data["spec"]["app"]["podTemplate"].take();
    let env = template.pointer_mut("/spec/containers/0/env");
    let mut env = env.map(Value::take).unwrap_or_default();
    let round = json!({"name": "E2E_ROUND", "value": number.to_string()});
    if let Some(list) = env.as_array_mut() {
        list.retain(|entry| entry["name"] != "E2E_ROUND");
        list.push(round);
    } else {
        env = json!([round]);
    }
    stack.edit(json!({"app": with_env("app", &env)})).await?;
    replaced(stack, number).await
}

/// Waits until all pods of the app run the new template and the old ones are gone.
async fn replaced(stack: &Stack, number: u32) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(stack.client.clone(), &stack.namespace);
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let of_the_app = ListParams::default().labels("app.kubernetes.io/component=app");
    await_condition("every pod of the app is replaced", async || {
        let deployment = deployments.get("acme-app").await?;
        let status = deployment.status.context("the Deployment has no status")?;
        ensure!(
            status.ready_replicas == Some(2) && status.replicas == Some(2),
            "the app does not have 2 ready replicas"
        );
        for pod in pods.list(&of_the_app).await? {
            let container = pod.spec.and_then(|spec| spec.containers.into_iter().next());
            let env = container
                .and_then(|container| container.env)
                .unwrap_or_default();
            let round = env.iter().find(|entry| entry.name == "E2E_ROUND");
            let round = round.and_then(|entry| entry.value.as_deref());
            ensure!(
                round == Some(number.to_string().as_str()),
                "a pod has E2E_ROUND {round:?}, not {number}"
            );
        }
        Ok(())
    })
    .await
}
