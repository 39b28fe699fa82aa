//! The stack that is flooded, and what is watched on it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::future::{try_join, try_join_all};
use k8s_openapi::api::{core::v1::Pod, networking::v1::NetworkPolicy};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use shortener_e2e::{
    Caller, Curve, FLOOD_CODE, FLOOD_LABEL, Flood, GatewayClient, Load, LoadReport, MemoryMeter,
    Provider, SINK_ENDPOINT, Sink, SinkMode, Space, Stack, Tally, await_condition, await_within,
};

/// The time of the redirects beside ordinary requests.
const ORDINARY: Duration = Duration::from_secs(10);
/// The time by which a flood is longer than the readings: its pods do not begin at the same moment.
const LEAD: Duration = Duration::from_secs(6);
/// The time after which a span counts as lost: the first ones after a silence of the collector may be.
const EXPORTED: Duration = Duration::from_secs(30);

/// The default memory limit of the gateway and of the app, in bytes.
const MEMORY: u64 = 128 * 1024 * 1024;

const URL: &str = "https://example.com/followed/under/load";
const GATEWAY: &str = "acme-gateway:80";
const APP: &str = "acme-app:3000";

/// Uid and restarts of each pod, by its name.
type Pods = BTreeMap<String, (Option<String>, i32)>;

/// The stack.
pub(super) struct Subject<'a> {
    space: &'a Space,
    stack: Stack,
    gateway: GatewayClient,
    sink: Sink,
    app_meter: MemoryMeter,
    gateway_meter: MemoryMeter,
    /// The redirects that are measured.
    load: Load,
    /// The outcome of the redirects beside ordinary requests.
    ordinary: LoadReport,
    /// The time of the readings.
    time: Duration,
}

impl<'a> Subject<'a> {
    /// Starts the stack with the default resources, and measures redirects beside ordinary requests.
    pub(super) async fn start(space: &'a Space, time: Duration) -> Result<Self> {
        let sink = Sink::start(space).await?;
        let changes = json!({
            "profiles": ["caching", "queue", "observability"],
            "app": {"resources": null},
            "gateway": {"resources": null},
            "workers": {"replicas": 1, "resources": null},
            "database": {"managed": {"resources": null}},
            "cache": {"managed": {"resources": null}},
            "queue": {"managed": {"resources": null}},
            // The sink serves as the collector.
            "observability": {"collector": {"external": {"endpoint": SINK_ENDPOINT}}},
        });
        let (stack, gateway) = space.serve(Provider::Standalone, changes).await?;
        admit_floods(space).await?;
        let chosen = json!({"url": URL, "code": FLOOD_CODE});
        let created = gateway.post("/api/shorten", &chosen).await?;
        ensure!(created.status == 201, "{created:?}");
        gateway.assert_redirects(FLOOD_CODE, URL).await?;
        let mut subject = Self {
            load: Load::of_redirects(&gateway, FLOOD_CODE).await?,
            ordinary: LoadReport::default(),
            app_meter: MemoryMeter::join(space, &stack, "app").await?,
            gateway_meter: MemoryMeter::join(space, &stack, "gateway").await?,
            space,
            stack,
            gateway,
            sink,
            time,
        };
        let (tally, redirects, (app, proxy)) = subject.send(Flood::KnownCode, ORDINARY).await?;
        println!("ordinary requests: {tally}");
        println!("   redirects: {redirects}\n   app: {app}\n   gateway: {proxy}");
        ensure!(
            tally.with(302) > 0,
            "no ordinary request was answered: {tally}"
        );
        ensure!(redirects.failed == 0, "{redirects}");
        // It also proves that the meters read the control groups of these containers.
        for curve in [&app, &proxy] {
            ensure!(curve.limit == MEMORY, "the limit is {}", curve.limit);
        }
        subject.ordinary = redirects;
        Ok(subject)
    }

    /// Sends a flood while the collector takes everything and answers nothing.
    pub(super) async fn without_collector(&self, flood: Flood) -> Result<()> {
        self.sink.behave(SinkMode::Frozen).await?;
        let outcome = self.during(flood).await;
        self.sink.behave(SinkMode::Taking).await?;
        outcome
    }

    /// Sends a flood while the process of the broker is stopped.
    pub(super) async fn without_broker(&self, flood: Flood) -> Result<()> {
        self.stack.freeze_broker().await?;
        let outcome = self.during(flood).await;
        self.stack.thaw_broker().await?;
        outcome
    }

    /// Sends a flood, and checks memory and redirects meanwhile.
    pub(super) async fn during(&self, flood: Flood) -> Result<()> {
        let dropped = self.dropped_spans().await?;
        let (tally, redirects, curves) = self.send(flood, self.time).await?;
        println!("{}: {tally}\n   redirects: {redirects}", flood.as_str());
        println!("   app: {}\n   gateway: {}", curves.0, curves.1);
        ensure!(redirects.failed == 0, "{redirects}\n{}", self.load);
        redirects
            .is_about_as_quick_as(&self.ordinary)
            .with_context(|| {
                format!(
                    "{redirects}, compared with those beside ordinary requests: {}",
                    self.ordinary
                )
            })?;
        memory_was_flat(&[("app", curves.0), ("gateway", curves.1)])?;
        let more = self.dropped_spans().await?.saturating_sub(dropped);
        arrived(flood, &tally, more)
    }

    /// Sends a flood for some time. Returns what became of its requests, what became of redirects meanwhile, and the memory
    /// of the app and the gateway.
    async fn send(
        &self,
        flood: Flood,
        time: Duration,
    ) -> Result<(Tally, LoadReport, (Curve, Curve))> {
        let starts = targets(flood)
            .iter()
            .map(|(to, clients)| flood.start(self.space, to, *clients, time + LEAD));
        let floods = try_join_all(starts).await?;
        let reading = try_join(self.app_meter.read(time), self.gateway_meter.read(time));
        let (redirects, curves) = self.load.during(reading).await?;
        let mut tally = Tally::default();
        for flood in floods {
            tally.add(flood.ended().await?);
        }
        Ok((tally, redirects, curves))
    }

    /// Waits until what clients need works after a flood.
    pub(super) async fn works(&self) -> Result<()> {
        let gateway = &self.gateway;
        await_condition("links are created and followed", async || {
            gateway.assert_redirects(FLOOD_CODE, URL).await?;
            let code = gateway.shorten(URL).await?;
            gateway.assert_redirects(&code, URL).await
        })
        .await?;
        let job = json!({"task": "email", "id": 1});
        await_condition("a job is accepted", async || gateway.enqueue(&job).await).await?;
        await_condition("a new trace reaches the sink", async || {
            let caller = Caller::new();
            let path = format!("/{FLOOD_CODE}");
            gateway.get_traced(&path, &caller).await?;
            await_within(EXPORTED, "the trace has the request", async || {
                let trace = self.sink.trace(&caller.trace_id).await?;
                trace.span("GET /{code}").map(|_| ())
            })
            .await
        })
        .await?;
        Ok(())
    }

    /// Returns the pods of the stack.
    pub(super) async fn pods(&self) -> Result<Pods> {
        let selected = format!("app.kubernetes.io/instance={}", self.stack.name);
        let pods = Api::<Pod>::namespaced(self.stack.client.clone(), &self.stack.namespace)
            .list(&ListParams::default().labels(&selected))
            .await?;
        let pods = pods.into_iter().map(|pod| {
            let containers = pod.status.as_ref();
            let containers = containers.and_then(|status| status.container_statuses.as_ref());
            let restarts = containers.into_iter().flatten();
            let restarts = restarts
                .map(|container| container.restart_count)
                .sum::<i32>();
            (pod.name_any(), (pod.uid(), restarts))
        });
        Ok(pods.collect())
    }

    /// Returns the number of spans that the app has dropped.
    async fn dropped_spans(&self) -> Result<u64> {
        let series = r#"otel_dropped_total{signal="traces"}"#;
        self.gateway.count(series).await
    }
}

/// Returns the Services that a flood is sent to, each with a number of clients.
fn targets(flood: Flood) -> &'static [(&'static str, usize)] {
    match flood {
        // More than the gateway takes of them.
        Flood::SlowBodies => &[(GATEWAY, 1000)],
        // The gateway would close the other side as well.
        Flood::HalfClosed => &[(APP, 500)],
        Flood::LargeJobs => &[(GATEWAY, 200)],
        Flood::KnownCode | Flood::LongPaths | Flood::UnknownCodes => &[(GATEWAY, 50)],
    }
}

fn memory_was_flat(curves: &[(&str, Curve)]) -> Result<()> {
    for (component, curve) in curves {
        ensure!(
            curve.is_flat(),
            "the memory of the {component} is not flat: {curve}"
        );
    }
    Ok(())
}

/// Checks that a flood had the effect that it is sent for: without it, the rest would prove nothing.
fn arrived(flood: Flood, tally: &Tally, dropped: u64) -> Result<()> {
    let clients: usize = targets(flood).iter().map(|(_, clients)| clients).sum();
    ensure!(tally.all() >= clients as u64, "only {tally}");
    match flood {
        Flood::KnownCode => {}
        Flood::LongPaths => ensure!(dropped > 0, "no span was dropped"),
        Flood::SlowBodies => ensure!(tally.with(503) > 0, "no body was refused: {tally}"),
        Flood::HalfClosed => ensure!(tally.unanswered > 0, "no work was given up: {tally}"),
        Flood::UnknownCodes => {
            let refused = tally.with(404) + tally.with(503);
            ensure!(tally.with(404) > 0, "no code was looked up: {tally}");
            ensure!(refused + tally.unanswered == tally.all(), "{tally}");
        }
        Flood::LargeJobs => {
            ensure!(tally.with(503) > 0, "no job was refused: {tally}");
            ensure!(tally.with(202) == 0, "the broker took jobs: {tally}");
        }
    }
    Ok(())
}

/// Admits the pods of floods to the app, to which otherwise only the gateway may connect.
async fn admit_floods(space: &Space) -> Result<()> {
    let (key, value) = FLOOD_LABEL;
    let app = json!({
        "app.kubernetes.io/instance": "acme",
        "app.kubernetes.io/component": "app",
    });
    let policy: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": "floods"},
        "spec": {
            "podSelector": {"matchLabels": app},
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{"podSelector": {"matchLabels": {key: value}}}],
                "ports": [{"port": 3000, "protocol": "TCP"}],
            }],
        },
    }))?;
    Api::<NetworkPolicy>::namespaced(space.client.clone(), &space.name)
        .create(&PostParams::default(), &policy)
        .await
        .context("cannot admit floods to the app")?;
    Ok(())
}
