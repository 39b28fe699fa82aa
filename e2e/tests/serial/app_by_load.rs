//! An app that follows its load by the figures of the real metrics-server: first by the stack's own autoscaler, then by one
//! of a user, which takes over under load.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use shortener_e2e::{
    FLOOD_CODE, Flood, History, LONGEST_FLOOD, Load, Provider, Space, Stack, await_condition,
    settled,
};

use crate::undisturbed;

/// The CPU request of a pod of the app, in thousandths of a processor.
const REQUEST: f64 = 10.0;
/// The most pods.
const MOST: u8 = 2;
/// The app takes at least so many times more for the flood than for few requests. The target is their geometric mean, from
/// which both are then far enough on every machine: an autoscaler ignores a tenth.
const TIMES: f64 = 2.0;
/// The highest target, in percent of the request, which the app does not reach.
const NEVER: u32 = 10_000;
/// The number of clients of the flood, each of which sends about 33 requests a second.
const CLIENTS: usize = 100;
const GATEWAY: &str = "acme-gateway:80";
const URL: &str = "https://example.com/followed/by/load";

#[tokio::test]
async fn the_app_follows_its_load_and_no_request_fails() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("app-by-load", async |space| {
        let request = json!({"requests": {"cpu": format!("{REQUEST}m")}});
        let app = json!({"resources": request, "autoscaling": limits(NEVER)});
        let (stack, gateway) = space
            .serve(Provider::Standalone, json!({"app": app}))
            .await?;
        settled(&stack).await?;
        let chosen = json!({"url": URL, "code": FLOOD_CODE});
        let created = gateway.post("/api/shorten", &chosen).await?;
        ensure!(created.status == 201, "{created:?}");
        let load = Load::of_redirects(&gateway, FLOOD_CODE).await?;
        let (redirects, ()) = load.during(follows(space, &stack)).await?;
        println!("while the app followed its load: {redirects}");
        ensure!(redirects.failed == 0, "{redirects}\n{load}");
        Ok(())
    })
    .await
}

/// Returns the limits of the stack's own autoscaler.
fn limits(target: u32) -> Value {
    json!({"minReplicas": 1, "maxReplicas": MOST, "targetCPUUtilizationPercentage": target})
}

/// Floods the app until it has more pods, lets an autoscaler of a user take over, and ends the flood.
async fn follows(space: &Space, stack: &Stack) -> Result<()> {
    let mut pods = History::of_pods(stack, "app");
    let calm = percentage_of_the_request(stack).await?;
    let flood = Flood::KnownCode
        .start(space, GATEWAY, CLIENTS, LONGEST_FLOOD)
        .await?;
    let flooded = percentage_of_the_request(stack).await?;
    let taken = format!("the app took {calm:.0} % of its request, and {flooded:.0} % in a flood");
    ensure!(flooded >= TIMES * calm, "{taken}");
    let target = (calm * flooded).sqrt().round() as u32;
    println!("{taken}; the target is {target} %");
    stack
        .edit(json!({"app": {"autoscaling": limits(target)}}))
        .await?;
    pods.until(MOST.into()).await?;
    settled(stack).await?;
    hand_over(stack, target).await?;
    flood.stop().await?;
    pods.until(1).await?;
    settled(stack).await?;
    let numbers = pods.numbers()?;
    ensure!(
        numbers == [1, MOST.into(), 1],
        "the app had {numbers:?} pods"
    );
    Ok(())
}

/// Lets an autoscaler of a user replace the stack's own one. Fewer pods are enough for it at once.
async fn hand_over(stack: &Stack, target: u32) -> Result<()> {
    let usage = json!({"type": "Utilization", "averageUtilization": target});
    let app = format!("{}-app", stack.name);
    let mine: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"name": "mine"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
            "minReplicas": 1,
            "maxReplicas": MOST,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": usage}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }))?;
    let autoscalers = Api::namespaced(stack.client.clone(), &stack.namespace);
    autoscalers.create(&PostParams::default(), &mine).await?;
    stack
        .until_reason("AppReady", "True", "AutoscalerConflict")
        .await?;
    stack.edit(json!({"app": {"autoscaling": null}})).await?;
    stack.until_reason("AppReady", "True", "PodsReady").await?;
    let own = autoscalers.get_opt(&app).await?;
    ensure!(own.is_none(), "two autoscalers scale the app");
    Ok(())
}

/// Returns the processor time of the app's only pod, in percent of its request, as metrics-server measures it from now on.
async fn percentage_of_the_request(stack: &Stack) -> Result<f64> {
    let mut times: Vec<String> = Vec::new();
    await_condition("metrics-server has new figures", async || {
        let (time, used) = figures(stack).await?;
        if times.last() != Some(&time) {
            times.push(time);
        }
        // The first one is of the past. Of what the second one measures, the beginning may be; of the third one nothing is.
        ensure!(times.len() > 3, "there are those of {times:?}");
        Ok(used / REQUEST * 100.0)
    })
    .await
}

/// Returns the time of the last figures, and the processor time per second that they state, in thousandths of a processor.
async fn figures(stack: &Stack) -> Result<(String, f64)> {
    let path = format!(
        "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dapp",
        stack.namespace
    );
    let request = http::Request::get(path).body(Vec::new())?;
    let list: Value = stack.client.request(request).await?;
    let pod = &list["items"][0];
    let time = pod["timestamp"]
        .as_str()
        .with_context(|| format!("{list}"))?;
    let used = pod["containers"][0]["usage"]["cpu"]
        .as_str()
        .context("no CPU")?;
    Ok((time.to_owned(), thousandths(used)?))
}

/// Reads a quantity of processors, in thousandths.
fn thousandths(quantity: &str) -> Result<f64> {
    let (number, unit) = match quantity.strip_suffix('n') {
        Some(number) => (number, 1e6),
        None => match quantity.strip_suffix('u') {
            Some(number) => (number, 1e3),
            None => match quantity.strip_suffix('m') {
                Some(number) => (number, 1.0),
                None => (quantity, 1e-3),
            },
        },
    };
    let number: f64 = number.parse().with_context(|| quantity.to_owned())?;
    Ok(number / unit)
}
