//! Checks during and after a time in which the exports of the app and the worker fail.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::api::LogParams;
use serde_json::{Value, json};
use shortener_e2e::{
    Forward, GatewayClient, SharedStack, Sink, await_condition, await_within, log_lines,
    redirects_are_right_and_quick, settled,
};

/// Number of jobs during an outage.
const JOBS: usize = 5;
/// The limit for the median job on a busy machine; a job that waited for the collector would take
/// 5 s, the timeout of an export.
const USUAL: Duration = Duration::from_secs(3);
/// Log lines of a program about an outage: one for traces and one for logs.
const SIGNALS: usize = 2;
/// A limit for unusual log lines: one per request would be far more. A busy machine causes some of them.
const FEW: usize = 20;
/// The longest time until a span reaches the sink: two batches of a second each, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// A time in which the exports of the app and the worker fail.
pub(super) struct Outage<'a> {
    shared: &'a SharedStack,
    counters: Counters,
    before: Dropped,
    since: LogParams,
}

impl<'a> Outage<'a> {
    /// Records the counters and the time at the start of the outage.
    pub(super) async fn begin(shared: &'a SharedStack) -> Result<Self> {
        let counters = Counters::open(shared).await?;
        Ok(Self {
            before: counters.read().await?,
            counters,
            since: LogParams {
                since_time: Some(Timestamp::now()),
                ..LogParams::default()
            },
            shared,
        })
    }

    /// Checks that requests and jobs are not affected, that lost records are counted, and that
    /// the log has few lines about them.
    pub(super) async fn is_survived(&self) -> Result<()> {
        let gateway = &self.shared.gateway;
        redirects_are_right_and_quick(gateway).await?;
        jobs_are_done_quickly(gateway).await?;
        await_condition("the app and the worker count dropped records", async || {
            let now = self.counters.read().await?;
            let rises = now
                .iter()
                .zip(&self.before)
                .all(|(now, before)| now > before);
            ensure!(rises, "dropped before: {:?}, now: {now:?}", self.before);
            Ok(())
        })
        .await?;
        for component in ["app", "worker"] {
            let unusual = self.told_by(component).await?;
            let told = unusual.iter().filter(is_of_outage).count();
            ensure!(
                told <= SIGNALS && unusual.len() < FEW,
                "the {component} logged the outage {told} times (limit {SIGNALS}) among {} unusual lines (below {FEW}): {unusual:#?}",
                unusual.len()
            );
        }
        Ok(())
    }

    /// Waits until a component logs the outage, and returns all its unusual lines.
    async fn told_by(&self, component: &str) -> Result<Vec<Value>> {
        await_condition(
            &format!("the {component} logs telemetry_unavailable"),
            async || {
                let mut lines = log_lines(&self.shared.stack, component, &self.since).await?;
                let usual = ["request", "job_start", "job_done"];
                lines.retain(|line| usual.iter().all(|body| line["body"] != *body));
                ensure!(lines.iter().any(|line| is_of_outage(&line)), "{lines:?}");
                Ok(lines)
            },
        )
        .await
    }
}

fn is_of_outage(line: &&Value) -> bool {
    line["body"] == "telemetry_unavailable"
}

/// Counts of dropped records: traces and logs of the app, traces and logs of the worker.
pub(super) type Dropped = [u64; 4];

/// The metrics of the app and the worker with these counts.
pub(super) struct Counters {
    app: GatewayClient,
    worker: GatewayClient,
    _forward: Forward,
}

impl Counters {
    /// Opens both. They work as long as the worker's pod that the port is forwarded to.
    pub(super) async fn open(shared: &SharedStack) -> Result<Self> {
        let forward = Forward::to(&shared.stack, "acme-worker-metrics", 9090).await?;
        Ok(Self {
            app: shared.gateway.clone(),
            worker: GatewayClient::through(&forward)?,
            _forward: forward,
        })
    }

    pub(super) async fn read(&self) -> Result<Dropped> {
        let (app, worker) = ((&self.app, "/api/metrics"), (&self.worker, "/metrics"));
        let mut dropped = Dropped::default();
        let signals = [
            (app, "traces"),
            (app, "logs"),
            (worker, "traces"),
            (worker, "logs"),
        ];
        for (count, ((gateway, path), signal)) in dropped.iter_mut().zip(signals) {
            let series = format!(r#"otel_dropped_total{{signal="{signal}"}}"#);
            *count = gateway.count_at(path, &series).await?;
        }
        Ok(dropped)
    }
}

/// Enqueues jobs one by one, each after the previous one is done, and checks the median time.
pub(super) async fn jobs_are_done_quickly(gateway: &GatewayClient) -> Result<()> {
    let mut times = Vec::with_capacity(JOBS);
    for _ in 0..JOBS {
        let begin = Instant::now();
        let job = gateway.enqueue(&json!({"task": "email", "id": 4})).await?;
        gateway.wait_for_job_status(&job.id, "done").await?;
        times.push(begin.elapsed());
    }
    times.sort();
    let (usual, slowest) = (times[JOBS / 2], times[JOBS - 1]);
    println!("during the outage: median {usual:?}, slowest {slowest:?} of {JOBS} jobs");
    ensure!(
        usual < USUAL,
        "jobs took {usual:?} at the median (limit {USUAL:?}), {slowest:?} at most"
    );
    Ok(())
}

/// Waits until new spans of the app and the worker reach the sink.
pub(super) async fn exported_again(shared: &SharedStack, sink: &Sink) -> Result<()> {
    await_condition("traces of new jobs reach the sink", async || {
        let job = shared
            .gateway
            .enqueue(&json!({"task": "email", "id": 5}))
            .await?;
        await_within(SOON, "the trace has spans of both", async || {
            let trace = sink.trace(&job.trace_id).await?;
            trace.span("POST /jobs")?;
            trace.span("process jobs").map(|_| ())
        })
        .await
    })
    .await?;
    settled(&shared.stack).await
}
