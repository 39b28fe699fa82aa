//! The operator's own metrics, in the Prometheus text format.

mod backups;
mod drills;
mod probes;

use std::{sync::Arc, time::Duration};

use prometheus::{
    Encoder, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
    core::{Atomic, GenericGaugeVec},
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_vec_with_registry,
    register_int_gauge_with_registry,
};
use shortener_operator_core::{api::ShortenerDrill, model::queue_state::Depths};

use backups::BackupGauges;
pub use backups::BackupMetrics;
use drills::DrillGauges;
pub use probes::ProbeMetrics;

/// Upper bounds of the duration histogram, in seconds: a reconcile that changes nothing takes milliseconds, the first
/// one of a stack takes seconds.
const DURATIONS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0];

/// Labels of the series of a stack.
const LABELS: [&str; 2] = ["namespace", "stack"];

/// Largest number of members that the broker of a stack may have.
const MEMBERS: usize = 7;

// What the metrics say of themselves.
const RECONCILES: &str = "Reconciles that have ended, by result.";
const ERRORS: &str = "Reconciles that have failed, by reason.";
const WAITING: &str = "Reconciles that wait for a free slot.";
const LEADER: &str = "Whether this replica is the leader (1) or a standby (0).";
const REQUESTS: &str = "Requests that change the cluster, except for the lease, by method and by HTTP status, `error` or `refused`.";
const WATCH_ERRORS: &str = "Failures to list or watch the objects of a kind.";
const QUEUES: &str = "Jobs in a stack's queue: waiting for a worker (ready), or delivered and not acknowledged (unacked).";
const DEAD_LETTERS: &str = "Messages in a stack's dead-letter queue.";
const WORKERS: &str = "Workers that workers.autoscaling of a stack has decided on.";
const PURGES: &str =
    "Whether the last removal of a stack's expired data that was due has succeeded (1) or not (0).";
const SHORT_LINKS: &str = "ShortLinks of a stack, by the status of their condition Ready.";

/// Value of the label `result` for a reconcile that has succeeded.
const OK: &str = "ok";
/// Value of the label `result` for a reconcile that has failed.
const ERROR: &str = "error";

/// Value of the label `state` for jobs that wait for a worker.
const READY: &str = "ready";
/// Value of the label `state` for jobs that a worker has not acknowledged yet.
const UNACKED: &str = "unacked";

/// The operator's metrics; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    errors: IntCounterVec,
    durations: HistogramVec,
    running: IntGauge,
    waiting: IntGauge,
    stacks: IntGaugeVec,
    leader: IntGauge,
    requests: IntCounterVec,
    watch_errors: IntCounterVec,
    spans_dropped: IntCounter,
    stack_registry: Registry,
    queues: IntGaugeVec,
    dead_letters: IntGaugeVec,
    dropped: IntCounterVec,
    workers: IntGaugeVec,
    purges: IntGaugeVec,
    short_links: IntGaugeVec,
    backups: BackupGauges,
    drills: DrillGauges,
    pub probes: ProbeMetrics,
}

impl Metrics {
    /// Registers the metrics: `shortener_operator_*` about the operator, `shortener_stack_*` about the queues and the probes
    /// of the stacks.
    ///
    /// # Errors
    /// Two metrics have the same name, which is a bug in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let own = Registry::new_custom(Some("shortener_operator".to_owned()), None)?;
        let stacks = Registry::new_custom(Some("shortener_stack".to_owned()), None)?;
        let counter = |name, help, labels: &[&str]| {
            register_int_counter_vec_with_registry!(name, help, labels, own)
        };
        let gauge = |name, help| register_int_gauge_with_registry!(name, help, own);
        let of_stack = |name, help, labels: &[&str]| {
            register_int_gauge_vec_with_registry!(name, help, labels, stacks)
        };
        Ok(Self {
            reconciles: counter("reconciles_total", RECONCILES, &["result"])?,
            errors: counter("reconcile_errors_total", ERRORS, &["reason"])?,
            durations: register_histogram_vec_with_registry!(
                "reconcile_duration_seconds",
                "Duration of a reconcile, by result.",
                &["result"],
                DURATIONS.to_vec(),
                own
            )?,
            running: gauge("reconciles_running", "Reconciles in progress.")?,
            waiting: gauge("reconciles_waiting", WAITING)?,
            stacks: register_int_gauge_vec_with_registry!(
                "stack_ready",
                "Whether a stack is ready (1) or not (0).",
                &["namespace", "name"],
                own
            )?,
            leader: gauge("leader", LEADER)?,
            requests: counter("mutating_requests_total", REQUESTS, &["method", "status"])?,
            watch_errors: counter("watch_errors_total", WATCH_ERRORS, &["kind"])?,
            spans_dropped: register_int_counter_with_registry!(
                "spans_dropped_total",
                "Spans of traces that the collector did not take in time.",
                own
            )?,
            queues: of_stack("queue_messages", QUEUES, &["namespace", "stack", "state"])?,
            dead_letters: of_stack("dead_letters", DEAD_LETTERS, &LABELS)?,
            dropped: register_int_counter_vec_with_registry!(
                "dead_letters_dropped_total",
                "Dead letters that a member of a stack's broker has dropped since its start because their queue was full.",
                &["namespace", "stack", "member"],
                stacks
            )?,
            workers: of_stack("workers_desired", WORKERS, &LABELS)?,
            purges: of_stack("purge_succeeded", PURGES, &LABELS)?,
            short_links: of_stack("short_links", SHORT_LINKS, &["namespace", "stack", "ready"])?,
            backups: BackupGauges::register(&stacks)?,
            drills: DrillGauges::register(&stacks)?,
            probes: ProbeMetrics::register(&stacks)?,
            registry: own,
            stack_registry: stacks,
        })
    }

    /// Counts a reconcile that has ended; `failure` is the reason if it has failed, a fixed string.
    pub fn reconciled(&self, duration: Duration, failure: Option<&'static str>) {
        let result = if failure.is_some() { ERROR } else { OK };
        self.reconciles.with_label_values(&[result]).inc();
        self.durations
            .with_label_values(&[result])
            .observe(duration.as_secs_f64());
        if let Some(reason) = failure {
            self.errors.with_label_values(&[reason]).inc();
        }
    }

    /// Counts a reconcile as running until the guard is dropped.
    pub fn running(&self) -> GaugeGuard {
        GaugeGuard::new(&self.running)
    }

    /// Counts a reconcile as waiting for its turn until the guard is dropped.
    pub fn waiting(&self) -> GaugeGuard {
        GaugeGuard::new(&self.waiting)
    }

    /// Sets the readiness of a stack; `None` while it is stopped, because its next start would seem to follow an outage.
    pub fn stack_ready(&self, namespace: &str, name: &str, ready: Option<bool>) {
        set(&self.stacks, &[namespace, name], ready.map(i64::from));
    }

    /// Sets the decided number of a stack's workers; `None` if the spec states it.
    pub fn workers_desired(&self, namespace: &str, stack: &str, number: Option<i32>) {
        set(&self.workers, &[namespace, stack], number.map(i64::from));
    }

    /// Sets whether the last removal of a stack's expired data that was due has succeeded; `None` if none was due.
    pub fn purged(&self, namespace: &str, stack: &str, succeeded: Option<bool>) {
        set(&self.purges, &[namespace, stack], succeeded.map(i64::from));
    }

    /// Sets the numbers of a stack's ShortLinks by the status of their condition, one of `True`, `False` and `Unknown`; `None` if
    /// it has none.
    pub fn short_links(&self, namespace: &str, stack: &str, counts: Option<[i64; 3]>) {
        for (place, ready) in ["True", "False", "Unknown"].into_iter().enumerate() {
            let count = counts.map(|counts| counts[place]);
            set(&self.short_links, &[namespace, stack, ready], count);
        }
    }

    /// Sets the state of a stack's backups.
    pub fn backups(&self, namespace: &str, stack: &str, state: BackupMetrics) {
        self.backups.set(namespace, stack, state);
    }

    /// Sets what the statuses of a stack's drills say. `drills` are all that exist.
    pub fn drills(&self, namespace: &str, stack: &str, drills: &[Arc<ShortenerDrill>]) {
        self.drills.set(namespace, stack, drills);
    }

    /// Removes the metrics of a deleted stack.
    pub fn forget_stack(&self, namespace: &str, name: &str) {
        self.stack_ready(namespace, name, None);
        self.workers_desired(namespace, name, None);
        self.purged(namespace, name, None);
        self.short_links(namespace, name, None);
        self.backups(namespace, name, BackupMetrics::default());
        self.drills(namespace, name, &[]);
        self.forget_queue(namespace, name);
        self.probes.forget_stack(namespace, name);
    }

    /// Removes the metrics of all stacks, which the next leader exports.
    pub fn forget_stacks(&self) {
        for gauge in [
            &self.stacks,
            &self.workers,
            &self.purges,
            &self.short_links,
            &self.queues,
            &self.dead_letters,
        ] {
            gauge.reset();
        }
        self.dropped.reset();
        self.backups.reset();
        self.drills.reset();
        self.probes.forget_stacks();
    }

    /// Sets the depths of a stack's queues, and the number of dead letters that each member of the broker has dropped. What is
    /// unknown is not exported.
    pub fn queue(&self, namespace: &str, stack: &str, depths: Depths, dropped: &[Option<u64>]) {
        self.forget_queue(namespace, stack);
        if let Some(depth) = depths.jobs {
            for (state, count) in [(READY, depth.ready), (UNACKED, depth.unacked)] {
                let gauge = self.queues.with_label_values(&[namespace, stack, state]);
                gauge.set(count);
            }
        }
        if let Some(count) = depths.dead_letters {
            let gauge = self.dead_letters.with_label_values(&[namespace, stack]);
            gauge.set(count);
        }
        for (member, count) in dropped.iter().take(MEMBERS).enumerate() {
            let Some(count) = count else { continue };
            // A copy of the member's counter, which begins again at 0 when the member restarts. The sum of all would seem to
            // do so, too, and count the others twice.
            let member = member.to_string();
            let counter = self
                .dropped
                .with_label_values(&[namespace, stack, member.as_str()]);
            counter.inc_by(*count);
        }
    }

    /// Removes the metrics of a stack's queues.
    pub fn forget_queue(&self, namespace: &str, stack: &str) {
        // The errors mean that the stack had no such metrics.
        for state in [READY, UNACKED] {
            let _ = self.queues.remove_label_values(&[namespace, stack, state]);
        }
        let _ = self.dead_letters.remove_label_values(&[namespace, stack]);
        for member in 0..MEMBERS {
            let member = member.to_string();
            let _ = self
                .dropped
                .remove_label_values(&[namespace, stack, member.as_str()]);
        }
    }

    /// Sets the leader gauge: 1 while this replica leads, 0 while it stands by.
    pub fn leader(&self, leading: bool) {
        self.leader.set(leading.into());
    }

    /// Counts a request that changes the cluster; `status` is the HTTP status, `error` or `refused`.
    pub fn mutating_request(&self, method: &str, status: &str) {
        self.requests.with_label_values(&[method, status]).inc();
    }

    /// Counts a failure to list or watch a kind.
    pub fn watch_failed(&self, kind: &str) {
        self.watch_errors.with_label_values(&[kind]).inc();
    }

    /// Returns the counter of the spans that were dropped.
    pub fn spans_dropped(&self) -> IntCounter {
        self.spans_dropped.clone()
    }

    /// Renders all metrics in the Prometheus text format.
    ///
    /// # Errors
    /// A metric cannot be expressed in that format, which is a bug in this file.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut page = Vec::new();
        for registry in [&self.registry, &self.stack_registry] {
            TextEncoder::new().encode(&registry.gather(), &mut page)?;
        }
        Ok(page)
    }
}

/// Sets the value of a series, or removes the series.
fn set<P: Atomic>(gauge: &GenericGaugeVec<P>, labels: &[&str], value: Option<P::T>) {
    match value {
        Some(value) => gauge.with_label_values(labels).set(value),
        None => {
            // The error means that there was no such series.
            let _ = gauge.remove_label_values(labels);
        }
    }
}

/// A guard that raises a gauge by one until it is dropped, also when the counted work is cancelled.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shortener_operator_core::model::queue_state::Depth;

    use super::*;
    use crate::testing::shared::golden_text;

    const TIME: &str = "2026-11-28T04:17:00Z";

    fn condition(type_: &str) -> Value {
        json!({"type": type_, "status": "True", "reason": "", "message": "", "lastTransitionTime": TIME})
    }

    fn page(metrics: &Metrics) -> String {
        String::from_utf8(metrics.render().unwrap()).unwrap()
    }

    fn one_event_of_each_kind_about_a_stack(metrics: &Metrics) {
        let depths = Depths {
            jobs: Some(Depth::default()),
            dead_letters: Some(0),
            ..Depths::default()
        };
        metrics.stack_ready("links", "acme", Some(true));
        metrics.queue("links", "acme", depths, &[Some(0)]);
        metrics.workers_desired("links", "acme", Some(0));
        metrics.purged("links", "acme", Some(true));
        metrics.short_links("links", "acme", Some([0; 3]));
        let status = json!({
            "conditions": [condition("BackupReady"), condition("BackupVerified")],
            "backups": [{"completedAt": TIME, "verifiedAt": TIME, "result": "Verified"}],
        });
        let status = serde_json::from_value(status).unwrap();
        metrics.backups("links", "acme", BackupMetrics::of(&status));
        let status = drills::tests::complete("Held", 0, &[("Create", "Served", 1500)]);
        metrics.drills("links", "acme", &[drills::tests::drill("Cache", status)]);
        let probes = &metrics.probes;
        probes.end_to_end("links", "acme", Duration::ZERO, true);
        probes.policies_enforced("links", "acme", Some(true));
    }

    /// The tests of the crate `shortener-operator-core` read this file: alerts and panels use these series.
    #[test]
    fn the_page_after_one_event_of_each_kind() {
        let metrics = Metrics::new().unwrap();
        metrics.reconciled(Duration::ZERO, None);
        metrics.watch_failed("Secret");
        one_event_of_each_kind_about_a_stack(&metrics);
        golden_text("metrics", &page(&metrics));
    }

    #[test]
    fn a_replica_that_leads_no_longer_exports_no_stack() {
        let metrics = Metrics::new().unwrap();
        let before = page(&metrics);
        one_event_of_each_kind_about_a_stack(&metrics);
        assert!(page(&metrics).contains("\"acme\""));
        metrics.forget_stacks();
        assert_eq!(page(&metrics), before);
    }

    #[test]
    fn a_failed_reconcile_is_counted_with_its_reason() {
        let metrics = Metrics::new().unwrap();
        metrics.reconciled(Duration::from_millis(20), None);
        metrics.reconciled(Duration::from_millis(20), Some("apply"));
        let page = page(&metrics);
        assert!(
            page.contains("shortener_operator_reconciles_total{result=\"ok\"} 1"),
            "{page}"
        );
        assert!(
            page.contains("shortener_operator_reconcile_errors_total{reason=\"apply\"} 1"),
            "{page}"
        );
        assert!(
            page.contains(
                "shortener_operator_reconcile_duration_seconds_count{result=\"error\"} 1"
            ),
            "{page}"
        );
    }

    #[test]
    fn a_stack_that_is_gone_leaves_no_metric_behind() {
        let metrics = Metrics::new().unwrap();
        metrics.stack_ready("team-a", "acme", Some(true));
        metrics.workers_desired("team-a", "acme", Some(3));
        metrics.purged("team-a", "acme", Some(false));
        metrics.short_links("team-a", "acme", Some([1, 0, 0]));
        assert!(
            page(&metrics)
                .contains("shortener_stack_workers_desired{namespace=\"team-a\",stack=\"acme\"} 3")
        );
        metrics
            .probes
            .end_to_end("team-a", "acme", Duration::ZERO, true);
        metrics
            .probes
            .policies_enforced("team-a", "acme", Some(false));
        assert!(
            page(&metrics)
                .contains("shortener_operator_stack_ready{name=\"acme\",namespace=\"team-a\"} 1")
        );
        metrics.forget_stack("team-a", "acme");
        assert!(!page(&metrics).contains("acme"));
    }

    #[test]
    fn what_a_queue_holds_is_shown_as_long_as_it_is_known() {
        let metrics = Metrics::new().unwrap();
        let depths = Depths {
            jobs: Some(Depth {
                ready: 3,
                unacked: 1,
            }),
            dead_letters: Some(2),
            ..Depths::default()
        };
        // The counters of the members are copied and not summed up.
        for _ in 0..2 {
            metrics.queue("team-a", "acme", depths, &[Some(7), None, Some(2)]);
        }
        let labels = "namespace=\"team-a\",stack=\"acme\"";
        for line in [
            format!("shortener_stack_queue_messages{{{labels},state=\"ready\"}} 3"),
            format!("shortener_stack_queue_messages{{{labels},state=\"unacked\"}} 1"),
            format!("shortener_stack_dead_letters{{{labels}}} 2"),
            format!("shortener_stack_dead_letters_dropped_total{{member=\"0\",{labels}}} 7"),
            format!("shortener_stack_dead_letters_dropped_total{{member=\"2\",{labels}}} 2"),
        ] {
            assert!(page(&metrics).contains(&line), "{line}");
        }
        assert!(!page(&metrics).contains("member=\"1\""));
        metrics.queue("team-a", "acme", Depths::default(), &[]);
        assert!(!page(&metrics).contains("acme"));
    }

    #[test]
    fn a_reconcile_counts_as_running_until_it_ends() {
        let metrics = Metrics::new().unwrap();
        let guard = metrics.running();
        assert!(page(&metrics).contains("shortener_operator_reconciles_running 1"));
        drop(guard);
        assert!(page(&metrics).contains("shortener_operator_reconciles_running 0"));
    }

    #[test]
    fn clones_share_their_values() {
        let metrics = Metrics::new().unwrap();
        metrics.clone().leader(true);
        metrics.clone().mutating_request("PATCH", "200");
        let page = page(&metrics);
        assert!(page.contains("shortener_operator_leader 1"), "{page}");
        assert!(page.contains(
            "shortener_operator_mutating_requests_total{method=\"PATCH\",status=\"200\"} 1"
        ));
    }
}
