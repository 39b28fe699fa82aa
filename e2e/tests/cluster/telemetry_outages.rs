//! A collector that is stopped, replaced, isolated, frozen or refusing, and one without a backend: redirects and
//! jobs keep their usual speed, lost records are counted and logged once, and the export resumes by itself (A9).
//!
//! Specification: 7.

mod outage;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, networking::v1::NetworkPolicy};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{
    Caller, Observed, Provider, SINK_ENDPOINT, SharedStack, Sink, SinkMode, await_condition,
    children_of, every_profile, is_ready, merge, pods_of, redirects_are_right_and_quick, settled,
    with_telemetry,
};

use outage::{Counters, Outage, exported_again, jobs_are_done_quickly};

#[tokio::test]
async fn without_any_pod_of_the_collector_redirects_and_jobs_go_on() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let outage = Outage::begin(&shared).await?;
        shared.stack.pause().await?;
        let pods = Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name);
        let selected = ListParams::default().labels("app.kubernetes.io/component=otel");
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        Api::<Deployment>::namespaced(shared.space.client.clone(), &shared.space.name)
            .patch("acme-otel", &PatchParams::default(), &none)
            .await?;
        await_condition("the pod of the collector is gone", async || {
            let left = pods.list(&selected).await?.items.len();
            ensure!(left == 0, "{left} pods are left");
            Ok(())
        })
        .await?;
        outage.is_survived().await?;
        shared.stack.until("TelemetryReady", "False").await?;
        for component in ["AppReady", "WorkersReady"] {
            shared.stack.until(component, "True").await?;
        }
        shared.stack.edit(json!({"paused": false})).await?;
        exported_again(&shared, &sink).await
    })
    .await
}

#[tokio::test]
async fn while_packets_to_the_collector_are_dropped_redirects_and_jobs_go_on() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let outage = Outage::begin(&shared).await?;
        shared.stack.pause().await?;
        let closed = Patch::Merge(json!({"spec": {"ingress": null}}));
        Api::<NetworkPolicy>::namespaced(shared.space.client.clone(), &shared.space.name)
            .patch("acme-otel", &PatchParams::default(), &closed)
            .await?;
        // A policy does not affect open connections; they end with the pod.
        replace_collector(&shared).await?;
        outage.is_survived().await?;
        shared.stack.edit(json!({"paused": false})).await?;
        exported_again(&shared, &sink).await
    })
    .await
}

#[tokio::test]
async fn while_the_pod_of_the_collector_is_replaced_redirects_and_jobs_go_on() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let goes_on = async {
            redirects_are_right_and_quick(&shared.gateway).await?;
            jobs_are_done_quickly(&shared.gateway).await
        };
        let (replaced, went_on) = tokio::join!(replace_collector(&shared), goes_on);
        replaced?;
        went_on?;
        exported_again(&shared, &sink).await?;
        shared.stack.ready().await
    })
    .await
}

#[tokio::test]
async fn while_the_backend_is_away_the_stack_is_ready_and_the_collector_keeps_what_it_takes()
-> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let counters = Counters::open(&shared).await?;
        let code = gateway
            .shorten("https://example.com/kept-for-later")
            .await?;
        let before = counters.read().await?;
        sink.stop(&shared.space).await?;
        let caller = Caller::new();
        let answer = gateway.get_traced(&format!("/{code}"), &caller).await?;
        ensure!(answer.status == 302, "expected status 302, got {answer:?}");
        redirects_are_right_and_quick(gateway).await?;
        jobs_are_done_quickly(gateway).await?;
        for condition in ["TelemetryReady", "Ready"] {
            stack.current(condition, "True").await?;
        }
        let sink = Sink::start(&shared.space).await?;
        sink.trace_with(&caller.trace_id, &["GET /{code}"]).await?;
        assert_eq!(
            counters.read().await?,
            before,
            "the app or the worker dropped records"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_collector_of_somebody_else_gets_everything_and_may_freeze_or_refuse() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let stack = &shared.stack;
        let mut changes = every_profile();
        // The sink serves as the external collector.
        let collector = json!({"managed": null, "external": {"endpoint": SINK_ENDPOINT}});
        let external = json!({"backend": null, "collector": collector});
        merge(&mut changes, json!({"observability": external}));
        shared.space.serve(Provider::IngressNginx, changes).await?;
        stack
            .until_reason("TelemetryReady", "True", "External")
            .await?;
        settled(stack).await?;
        for child in children_of(stack).await? {
            ensure!(!child.name.ends_with("-otel"), "{} is left", child.title());
        }
        exported_again(&shared, &sink).await?;

        for mode in [SinkMode::Frozen, SinkMode::Refusing] {
            println!("a collector that is {mode:?}:");
            let outage = Outage::begin(&shared).await?;
            sink.behave(mode).await?;
            outage.is_survived().await?;
            stack.current("Ready", "True").await?;
            sink.behave(SinkMode::Taking).await?;
            exported_again(&shared, &sink).await?;
        }
        Ok(())
    })
    .await
}

/// Kills the pod of the collector without a grace period, and waits until its replacement is ready.
async fn replace_collector(shared: &SharedStack) -> Result<()> {
    let stack = &shared.stack;
    let old = pods_of(stack, "otel").await?;
    let old = old.first().context("the collector has no pod")?.name_any();
    let now = DeleteParams::default().grace_period(0);
    Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name)
        .delete(&old, &now)
        .await?;
    await_condition("another pod of the collector is ready", async || {
        let pods = pods_of(stack, "otel").await?;
        let pod = pods.iter().find(|pod| pod.name_any() != old);
        let pod = pod.context("the collector has no new pod yet")?;
        ensure!(is_ready(pod), "pod {} is not ready", pod.name_any());
        Ok(())
    })
    .await
}
