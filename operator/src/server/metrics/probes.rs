//! The metrics of the probes of the stacks.

use std::time::Duration;

use prometheus::{
    HistogramVec, IntGaugeVec, Registry, register_histogram_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

use super::{LABELS, set};

/// Upper bounds of the histogram of end-to-end probes, in seconds: a link takes milliseconds, a job waits for a worker.
const BUCKETS: [f64; 9] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// The metrics of the probes; clones share their values.
#[derive(Clone, Debug)]
pub struct ProbeMetrics {
    end_to_end: IntGaugeVec,
    durations: HistogramVec,
    policies: IntGaugeVec,
}

impl ProbeMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Two metrics have the same name, which is a bug in this file.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge =
            |name, help| register_int_gauge_vec_with_registry!(name, help, &LABELS, registry);
        Ok(Self {
            end_to_end: gauge(
                "end_to_end_success",
                "Whether the last end-to-end probe of the operator through a stack's gateway succeeded (1) or not (0).",
            )?,
            durations: register_histogram_vec_with_registry!(
                "end_to_end_duration_seconds",
                "Duration of end-to-end probes that succeeded, from the creation of a link to the result of a job.",
                &LABELS,
                BUCKETS.to_vec(),
                registry
            )?,
            policies: gauge(
                "network_policies_enforced",
                "Whether the last connections that a stack's NetworkPolicies forbid failed (1) or not (0).",
            )?,
        })
    }

    /// Records an end-to-end probe through a stack's gateway.
    pub fn end_to_end(&self, namespace: &str, stack: &str, duration: Duration, succeeded: bool) {
        let labels = [namespace, stack];
        let gauge = self.end_to_end.with_label_values(&labels);
        gauge.set(succeeded.into());
        if succeeded {
            let histogram = self.durations.with_label_values(&labels);
            histogram.observe(duration.as_secs_f64());
        }
    }

    /// Removes the metrics of the end-to-end probes through a stack's gateway.
    pub fn forget_end_to_end(&self, namespace: &str, stack: &str) {
        // The errors mean that the stack had no such metrics.
        let _ = self.end_to_end.remove_label_values(&[namespace, stack]);
        let _ = self.durations.remove_label_values(&[namespace, stack]);
    }

    /// Sets whether connections that a stack's NetworkPolicies forbid failed; `None` if none is tried.
    pub fn policies_enforced(&self, namespace: &str, stack: &str, enforced: Option<bool>) {
        set(&self.policies, &[namespace, stack], enforced.map(i64::from));
    }

    /// Removes the metrics of all stacks.
    pub(super) fn forget_stacks(&self) {
        self.end_to_end.reset();
        self.durations.reset();
        self.policies.reset();
    }

    /// Removes the metrics of a deleted stack.
    pub(super) fn forget_stack(&self, namespace: &str, stack: &str) {
        self.forget_end_to_end(namespace, stack);
        self.policies_enforced(namespace, stack, None);
    }
}
