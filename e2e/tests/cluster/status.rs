//! The status, above all when a component fails.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{
    Provider, Space, Stack, await_condition, await_within, base_spec, conditions_of, echo_spec,
    kubectl, merge, real_stack,
};

/// The promised time in which the status names a failure that Kubernetes reports.
const NAMED_WITHIN: Duration = Duration::from_secs(30);
const CONDITIONS: [&str; 7] = [
    "AppReady",
    "DatabaseReady",
    "Degraded",
    "GatewayReady",
    "Progressing",
    "Ready",
    "SoleEntry",
];

#[tokio::test]
async fn a_ready_stack_describes_itself() -> Result<()> {
    let shared = real_stack(Provider::IngressNginx).await?;
    shared
        .space
        .check(async |_| {
            let live = shared.stack.get().await?;
            let status = &live.data["status"];
            assert_eq!(status["url"], format!("http://{}", shared.space.host()));
            assert_eq!(status["app"], json!({"replicas": 2, "readyReplicas": 2}));
            assert_eq!(status["workers"]["replicas"], 0);
            let selector = status["workers"]["selector"].as_str().unwrap_or_default();
            ensure!(
                selector.contains("app.kubernetes.io/instance=acme"),
                "{selector}"
            );
            assert_eq!(
                status["observedGeneration"],
                json!(live.metadata.generation)
            );
            // The connections of `SoleEntry` are tried beside the first reconciles.
            await_condition("the stack has its conditions", async || {
                assert_conditions(&shared.stack, live.metadata.generation).await
            })
            .await
        })
        .await
}

#[tokio::test]
async fn every_condition_follows_the_generation() -> Result<()> {
    Space::with("generation", async |space| {
        let stack = space.apply_echo(json!({})).await?;
        stack.ready().await?;
        for replicas in [2, 1] {
            stack.edit(json!({"app": {"replicas": replicas}})).await?;
            let generation = stack.get().await?.metadata.generation;
            await_condition("every condition has the new generation", async || {
                assert_conditions(&stack, generation).await
            })
            .await?;
            await_condition("the status has the new number of pods", async || {
                let status = stack.get().await?.data["status"]["app"].clone();
                let expected = json!({"replicas": replicas, "readyReplicas": replicas});
                ensure!(status == expected, "{status}");
                Ok(())
            })
            .await?;
        }
        stack.ready().await
    })
    .await
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_named_within_30_seconds() -> Result<()> {
    Space::with("image", async |space| {
        // No server listens there, so the pull fails at once, with or without internet access.
        let changes = json!({"app": {"image": "127.0.0.1:1/none:1"}});
        let stack = space.apply_echo(changes).await?;
        named(&stack, "AppReady", "127.0.0.1:1/none:1").await?;
        stack.until("Degraded", "True").await?;
        stack
            .edit(json!({"app": {"image": space.settings.echo_image}}))
            .await?;
        stack.ready().await?;
        stack.until("Degraded", "False").await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_template_that_does_not_start_beside_serving_pods_leaves_the_stack_ready() -> Result<()> {
    Space::with("stuck-rollout", async |space| {
        let stack = space.apply_echo(json!({})).await?;
        stack.ready().await?;
        let image = |image: &str| json!({"app": {"image": image}});
        stack.edit(image("127.0.0.1:1/none:1")).await?;
        stack
            .until_reason("Degraded", "True", "ImagePullFailed")
            .await?;
        for condition in ["Ready", "AppReady"] {
            stack.current(condition, "True").await?;
        }
        stack.edit(image(&space.settings.echo_image)).await?;
        stack.ready().await?;
        stack.until("Degraded", "False").await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_stack_with_one_missing_secret_comes_up_without_that_part() -> Result<()> {
    Space::with("held", async |space| {
        let backend = json!({"external": {
            "endpoint": "https://otlp.test:4317", "headersSecretRef": {"name": "not-there"},
        }});
        let changes = json!({"profiles": ["observability"], "observability": {"backend": backend}});
        let stack = space.apply_echo(changes).await?;
        let held = stack
            .until_reason("TelemetryReady", "False", "SecretNotFound")
            .await?;
        ensure!(held.message.contains("not-there"), "{}", held.message);
        for condition in ["Ready", "AppReady", "GatewayReady"] {
            stack.until(condition, "True").await?;
        }
        stack.edit(json!({"app": {"replicas": 1}})).await?;
        await_condition("the app is scaled", async || {
            let app = stack.get().await?.data["status"]["app"].clone();
            ensure!(app == json!({"replicas": 1, "readyReplicas": 1}), "{app}");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn a_volume_that_is_not_bound_is_named_within_30_seconds() -> Result<()> {
    Space::with("volume", async |space| {
        let mut spec = echo_spec(space, Provider::IngressNginx);
        let database = json!({"external": null, "managed": {"storage": "64Mi", "storageClassName": "no-such-class"}});
        merge(&mut spec, json!({"database": database}));
        let stack = space.stack("acme");
        stack.apply(&spec).await?;
        named(&stack, "DatabaseReady", "PersistentVolumeClaim").await?;
        // A volume may take minutes, so it is no fault yet.
        stack.current("Progressing", "True").await?;
        stack.current("Degraded", "False").await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_full_quota_is_named_within_30_seconds_and_its_pods_come_when_it_is_raised() -> Result<()>
{
    Space::with("quota", async |space| {
        allow_pods(space, 0).await?;
        let mut spec = base_spec(space, Provider::IngressNginx);
        merge(
            &mut spec,
            json!({"app": {"image": space.settings.echo_image}}),
        );
        let stack = space.stack("acme");
        stack.apply(&spec).await?;
        // The database is a StatefulSet, whose status names no reason. Those of the Deployments do.
        named(&stack, "DatabaseReady", "exceeded quota: small").await?;
        stack.until("Degraded", "True").await?;
        stack
            .until_reason("AppReady", "False", "PodsNotCreated")
            .await?;
        allow_pods(space, 20).await?;
        stack.ready().await?;
        stack.until("Degraded", "False").await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn of_two_stacks_with_one_host_the_younger_reports_the_conflict() -> Result<()> {
    Space::with("conflict", async |space| {
        space.unused_database().await?;
        let spec = echo_spec(space, Provider::IngressNginx);
        let (older, younger) = (space.stack("older"), space.stack("younger"));
        older.apply(&spec).await?;
        older.ready().await?;
        // The order is by creation time, which the API server stores in whole seconds.
        let born = older.get().await?.metadata.creation_timestamp;
        await_condition("a second has passed at the API server", async || {
            younger.apply(&spec).await?;
            if younger.get().await?.metadata.creation_timestamp > born {
                return Ok(());
            }
            younger.delete().await?;
            anyhow::bail!("both stacks were created in the same second")
        })
        .await?;
        let conflict = younger
            .until_reason("GatewayReady", "False", "HostConflict")
            .await?;
        ensure!(
            conflict.message.contains(&format!("{}/older", space.name)),
            "{}",
            conflict.message
        );
        older.until("GatewayReady", "True").await?;
        older.delete().await?;
        younger.ready().await
    })
    .await
}

#[tokio::test]
async fn the_scale_subresource_sets_the_workers() -> Result<()> {
    Space::with("scale", async |space| {
        let stack = space.apply_echo(json!({"stopped": true})).await?;
        stack.until("Ready", "False").await?;
        let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
        stack
            .api
            .patch_scale("acme", &PatchParams::default(), &patch)
            .await?;
        assert_eq!(stack.get().await?.data["spec"]["workers"]["replicas"], 3);
        let scale = stack.api.get_scale("acme").await?;
        assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(3));
        let status = scale.status.unwrap_or_default();
        assert_eq!(
            status.replicas, 0,
            "expected 0 workers without the profile queue"
        );
        let selector = status.selector.unwrap_or_default();
        ensure!(
            selector.contains("app.kubernetes.io/component=worker"),
            "{selector}"
        );
        Ok(())
    })
    .await
}

/// Sets the number of pods that the namespace may have, and waits until that is in force.
async fn allow_pods(space: &Space, number: usize) -> Result<()> {
    let quotas = Api::<ResourceQuota>::namespaced(space.client.clone(), &space.name);
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
        "spec": {"hard": {"pods": number.to_string()}},
    });
    let parameters = PatchParams::apply("e2e").force();
    quotas
        .patch("small", &parameters, &Patch::Apply(quota))
        .await?;
    // A quota limits nothing until its status has the limit.
    await_condition("the quota is in force", async || {
        let status = quotas.get("small").await?.status.unwrap_or_default();
        let limits = status.hard.unwrap_or_default();
        let limit = limits.get("pods").context("its status has no limit yet")?;
        ensure!(limit.0 == number.to_string(), "the limit is {}", limit.0);
        Ok(())
    })
    .await
}

/// Checks that the component's condition names the cause. Kubernetes itself reports it later on a busy machine.
async fn named(stack: &Stack, component: &str, part: &str) -> Result<()> {
    await_condition(&format!("an event names {part}"), async || {
        let events = kubectl(stack, &["get", "events"]).await?;
        ensure!(events.contains(part), "{events}");
        Ok(())
    })
    .await?;
    let limit = NAMED_WITHIN;
    let (condition, time) = await_within(limit, &format!("{component} names {part}"), async || {
        let condition = stack.current(component, "False").await?;
        ensure!(condition.message.contains(part), "{}", condition.message);
        stack.current("Ready", "False").await?;
        Ok(condition)
    })
    .await?;
    println!(
        "named after {:.1} s: {}: {}",
        time.as_secs_f32(),
        condition.reason,
        condition.message
    );
    Ok(())
}

/// Checks that the stack has exactly the permanent conditions of a base stack, each with a reason,
/// a message and this generation.
async fn assert_conditions(stack: &Stack, generation: Option<i64>) -> Result<()> {
    let mut conditions = conditions_of(&stack.get().await?)?;
    conditions.sort_by(|one, other| one.kind.cmp(&other.kind));
    let types: Vec<&str> = conditions
        .iter()
        .map(|condition| condition.kind.as_str())
        // This condition exists only while a change is in progress.
        .filter(|kind| *kind != "Reconciling")
        .collect();
    ensure!(
        types == CONDITIONS,
        "expected the conditions {CONDITIONS:?}, got {types:?}"
    );
    for condition in &conditions {
        ensure!(condition.observed_generation == generation, "{condition:?}");
        ensure!(
            !condition.reason.is_empty() && !condition.message.is_empty(),
            "{condition:?}"
        );
    }
    Ok(())
}
