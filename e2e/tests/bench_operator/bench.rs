//! The measurements, each with its rows of the report.

use std::{cell::Cell, time::Duration};

use anyhow::{Context, Result};
use kube::{Client, ResourceExt};
use shortener_e2e::{Meter, Operator, Reading, Usage, UsageMeter};
use tokio::time::{Instant, sleep};

use crate::{
    edits::{EDITS, edit, percentile},
    foreign,
    progress::step,
    report::Report,
    restart::{metrics, restart},
    wave::Wave,
};

/// The aims: memory in MB at rest and at any time, and milliseconds from an edit to its changed children.
const MEMORY_AT_REST: f64 = 128.0;
const MEMORY_AT_MOST: f64 = 192.0;
const EDIT_P50: f64 = 30.0;
const EDIT_P99: f64 = 150.0;

/// The time of a measurement at rest.
const MINUTE: Duration = Duration::from_secs(60);
/// The time without writes and lists after which new stacks are at rest. After two minutes the operator stops waiting
/// for the address of an Ingress, and writes that.
const QUIET_AFTER_CREATION: Duration = Duration::from_secs(130);
/// The same after everything else.
const QUIET: Duration = Duration::from_secs(15);
const RESTS: Duration = Duration::from_secs(20 * 60);
const RESTARTED: Duration = Duration::from_secs(20 * 60);
/// One reading of so many is in the curves: a reading every 10 s.
const READINGS_PER_POINT: usize = 10;

const NO_READINGS: &str =
    "the meter of the memory has no new readings: has the operator's container restarted?";

/// The operator that is measured, and what measures it.
pub(crate) struct Bench<'a> {
    client: &'a Client,
    image: &'a str,
    report: &'a mut Report,
    operator: Operator,
    requests: Meter,
    usage: UsageMeter,
    /// The readings of its memory that are in a curve already.
    drawn: usize,
}

impl<'a> Bench<'a> {
    /// Joins the operator of the cluster by a container of an image with bash.
    pub(crate) async fn begin(
        client: &'a Client,
        image: &'a str,
        report: &'a mut Report,
    ) -> Result<Self> {
        let operator = Operator::find(client).await?;
        operator.settled(1).await?;
        Ok(Self {
            client,
            image,
            report,
            requests: Meter::install(client, &operator).await?,
            usage: join(&operator, image).await?,
            operator,
            drawn: 0,
        })
    }

    /// Creates the stacks of a wave, and waits until the operator rests.
    pub(crate) async fn create(&mut self, wave: &Wave<'_>) -> Result<()> {
        let title = wave.title();
        let before = self.requests.read().await?;
        let time = wave.create().await?;
        let requests = since(before, self.settle(QUIET_AFTER_CREATION).await?);
        let (children, states) = (wave.children().await?, wave.states().await?);
        let counted = metrics(&self.operator, &self.operator.leader().await?).await?;
        let readings = self.draw(&format!("{title}: created")).await?;

        let of_each = |value: u64| value as f64 / wave.stacks as f64;
        let remark = format!(
            "no pods: their namespaces have a quota; a class of Ingress without a controller; {states}"
        );
        self.report
            .add_time(&format!("{title}: until the last child"), time, &remark);
        let rows = [
            ("children", children as u64, ""),
            ("writes", requests.writes, "statuses and Events, too"),
            ("lists", requests.lists, ""),
            ("reads", requests.reads, "gets and watches"),
        ];
        for (what, value, remark) in rows {
            let what = format!("{title}: {what}");
            self.report.add(&what, of_each(value), "per stack", remark);
        }
        let processor = processor(&readings)?.as_secs_f64() * 1e3 / wave.stacks as f64;
        let remark = format!(
            "with the time until it rests; since its start {} reconciles have succeeded, {} failed",
            counted.succeeded, counted.failed
        );
        let what = format!("{title}: processor time");
        self.report.add(&what, processor, "ms/stack", &remark);
        Ok(())
    }

    /// Measures the operator for a minute at rest.
    pub(crate) async fn rest(&mut self, title: &str) -> Result<()> {
        let before = self.settle(QUIET).await?;
        self.draw(&format!("{title}: until at rest")).await?;
        let what = format!("Measure at rest for {} s ({title})", MINUTE.as_secs());
        step(&what, 2 * MINUTE, String::new, async {
            sleep(MINUTE).await;
            anyhow::Ok(())
        })
        .await?;
        let requests = since(before, self.requests.read().await?);
        let readings = self.draw(&format!("{title}: at rest")).await?;
        let last = *readings.last().context(NO_READINGS)?;
        let remark = format!(
            "working set; {:.1} MB without files",
            last.anonymous as f64 / 1e6
        );
        let what = format!("{title}: memory at rest");
        self.report
            .add_memory(&what, last.working_set, MEMORY_AT_REST, &remark);
        let most = readings.iter().map(|reading| reading.working_set).max();
        let remark = format!(
            "since its start, with all pages of files; working set in this minute at most {:.1} MB",
            most.unwrap_or_default() as f64 / 1e6
        );
        let what = format!("{title}: highest memory");
        self.report
            .add_memory(&what, last.highest, MEMORY_AT_MOST, &remark);
        let first = readings.first().context(NO_READINGS)?;
        let elapsed = last.uptime.saturating_sub(first.uptime).as_secs_f64();
        let share = processor(&readings)?.as_secs_f64() / elapsed * 1e3;
        let remark = format!(
            "thousandths of a core; meanwhile {} writes, {} lists, {} reads",
            requests.writes, requests.lists, requests.reads
        );
        let what = format!("{title}: processor at rest");
        self.report.add(&what, share, "m", &remark);
        Ok(())
    }

    /// Creates Secrets of others.
    pub(crate) async fn secrets(&mut self, secrets: usize) -> Result<()> {
        let time = foreign::create(self.client, secrets).await?;
        let what = format!("{secrets} Secrets: until all are created");
        let remark =
            "in other namespaces; one in 20 with Helm's labels and a last applied configuration";
        self.report.add_time(&what, time, remark);
        self.draw(&format!("{secrets} Secrets: created")).await?;
        Ok(())
    }

    /// Measures edits of the stacks of a wave.
    pub(crate) async fn edits(&mut self, wave: &Wave<'_>) -> Result<()> {
        let title = wave.title();
        let done = Cell::new(0_usize);
        let shown = || format!("{} of {EDITS} edits have been seen", done.get());
        let what = format!("Edit {title} {EDITS} times");
        let work = edit(self.client, wave, &done);
        let (times, _) = step(&what, RESTS, shown, work).await?;
        let answered = percentile(&times.answered, 50).as_secs_f64() * 1e3;
        let remark = format!(
            "{EDITS} edits, one after another; from sending one to seeing both Ingresses; the API server answers the edit itself within {answered:.1} ms"
        );
        let changed = &times.changed;
        for (percent, aim, remark) in [(50, EDIT_P50, remark.as_str()), (99, EDIT_P99, "")] {
            let what = format!("{title}: edit to changed children, p{percent}");
            let time = percentile(changed, percent);
            self.report.add_latency(&what, time, aim, remark);
        }
        self.draw(&format!("{title}: edited")).await?;
        Ok(())
    }

    /// Deletes the stacks of a wave.
    pub(crate) async fn delete(&mut self, wave: &Wave<'_>) -> Result<()> {
        let time = wave.delete().await?;
        let title = wave.title();
        let what = format!("{title}: until all are deleted");
        self.report.add_time(&what, time, "with their namespaces");
        self.draw(&format!("{title}: deleted")).await?;
        Ok(())
    }

    /// Restarts the operator, and joins its new pod.
    pub(crate) async fn restart(&mut self, wave: &Wave<'_>) -> Result<()> {
        let title = wave.title();
        let before = self.settle(QUIET).await?;
        let what = format!("Restart the operator ({title})");
        let work = restart(&self.operator, wave.stacks);
        let (times, _) = step(&what, RESTARTED, String::new, work).await?;
        self.operator.settled(1).await?;
        self.usage = join(&self.operator, self.image).await?;
        self.drawn = 0;
        let requests = since(before, self.settle(QUIET).await?);
        let remark = format!(
            "from the deletion of its pod; {:.1} s of it until another pod led",
            times.led.as_secs_f64()
        );
        let what = format!("{title}: restart to first reconcile");
        self.report.add_time(&what, times.first, &remark);
        let remark = format!(
            "{} writes and {} lists until it rests",
            requests.writes, requests.lists
        );
        let what = format!("{title}: restart to all reconciled");
        self.report.add_time(&what, times.all, &remark);
        Ok(())
    }

    /// Waits until the operator has neither written nor listed for a while, and returns its requests.
    async fn settle(&self, quiet: Duration) -> Result<Reading> {
        let still = Cell::new(0_u64);
        let shown = || format!("{} s without a write or a list", still.get());
        let work = self.until_quiet(quiet, &still);
        let (requests, _) = step("Wait until the operator rests", RESTS, shown, work).await?;
        Ok(requests)
    }

    async fn until_quiet(&self, quiet: Duration, still: &Cell<u64>) -> Result<Reading> {
        let mut seen = self.requests.read().await?;
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            sleep(Duration::from_secs(1)).await;
            let now = self.requests.read().await?;
            if (now.writes, now.lists) != (seen.writes, seen.lists) {
                since = Instant::now();
            }
            seen = now;
            still.set(since.elapsed().as_secs());
        }
        Ok(seen)
    }

    /// Adds the memory since the last curve to the report, and returns these readings.
    async fn draw(&mut self, what: &str) -> Result<Vec<Usage>> {
        let mut readings = self.usage.readings().await?;
        let new = readings.split_off(self.drawn.min(readings.len()));
        self.drawn += new.len();
        let points = new.iter().step_by(READINGS_PER_POINT);
        self.report
            .add_curve(what, points.map(|reading| reading.working_set));
        Ok(new)
    }
}

/// Joins the pod of the operator that leads.
async fn join(operator: &Operator, image: &str) -> Result<UsageMeter> {
    let leader = operator.leader().await?;
    let mut pods = operator.running().await?.into_iter();
    let pod = pods.find(|pod| pod.name_any() == leader);
    let pod = pod.with_context(|| format!("the leader {leader} is gone"))?;
    UsageMeter::join(&operator.pods, &pod, image).await
}

/// Returns the processor time from the first reading to the last.
fn processor(readings: &[Usage]) -> Result<Duration> {
    let (first, last) = (readings.first(), readings.last());
    let (first, last) = first.zip(last).context(NO_READINGS)?;
    Ok(last.processor.saturating_sub(first.processor))
}

/// Returns the requests between two readings. The counters begin again if the API server restarts.
fn since(before: Reading, after: Reading) -> Reading {
    Reading {
        leases: after.leases.saturating_sub(before.leases),
        writes: after.writes.saturating_sub(before.writes),
        lists: after.lists.saturating_sub(before.lists),
        reads: after.reads.saturating_sub(before.reads),
    }
}
