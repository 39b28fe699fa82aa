//! `MonitoringReady`: the monitoring objects are written. Requests and jobs do not depend on them, so it is always
//! true.

use super::{Verdict, View};

/// Reason while a monitoring object could not be written.
pub const MONITORING_REFUSED: &str = "MonitoringRefused";

/// Returns a verdict with the error of writing the monitoring objects, if that failed.
pub(super) fn refused(view: View<'_>) -> Option<Verdict> {
    let refused = view.live.monitoring_refused.as_ref()?;
    Some(Verdict::yes(
        MONITORING_REFUSED,
        format!(
            "monitoring objects could not be written: {refused}. Remove the cause; the operator retries every minute, \
             and requests and jobs do not depend on these objects"
        ),
    ))
}

/// Adds to the verdict on a stack with alerts that its policies admit no Prometheus of the cluster, if that is so.
pub(super) fn unread(view: View<'_>, verdict: Verdict) -> Verdict {
    let stack = view.stack;
    if stack.monitoring.is_none() || !stack.has_monitoring_kinds || !stack.scrape_from.is_empty() {
        return verdict;
    }
    Verdict {
        message: format!(
            "{}; where NetworkPolicies are enforced, no Prometheus may read the metrics, so ShortenerAppNotSeen fires: name its \
             pods in spec.observability.scrapeFrom",
            verdict.message
        ),
        ..verdict
    }
}

/// Returns the verdict on the monitoring objects of a stack without the profile `observability`.
pub fn monitoring_ready(view: View<'_>) -> Verdict {
    refused(view).unwrap_or_else(|| {
        if view.stack.has_monitoring_kinds {
            let told = Verdict::yes(
                "Told",
                "the ServiceMonitor, the PrometheusRule and the dashboard are written",
            );
            unread(view, told)
        } else {
            Verdict::yes(
                "NoPrometheusOperator",
                "only the dashboard is written, because the cluster lacks the kinds ServiceMonitor and PrometheusRule: \
                 install the Prometheus operator to have the metrics scraped and the alerts raised",
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{live::Live, metadata::Component, stack::ValidatedStack},
        plan::conditions::telemetry_ready,
        testing::{self, stack::minimal_stack},
    };

    #[test]
    fn a_stack_that_is_watched_serves_whatever_those_who_watch_it_are_told() {
        let stack = minimal_stack().told("release", "prometheus");
        let monitored = stack.clone().with_monitoring_kinds();
        let live = Live::default();
        let refused = Live {
            monitoring_refused: Some("PrometheusRule/acme: forbidden".to_owned()),
            ..Live::default()
        };
        for (stack, live, reason) in [
            (&stack, &live, "NoPrometheusOperator"),
            (&monitored, &live, "Told"),
            (&monitored, &refused, MONITORING_REFUSED),
        ] {
            let verdict = monitoring_ready(View { stack, live });
            assert_eq!((verdict.holds, verdict.reason), (true, reason));
        }
    }

    #[test]
    fn a_stack_with_alerts_that_admits_no_prometheus_is_told_with_the_remedy() {
        let live = testing::live::live(Component::Otel, testing::live::workload(1, 1));
        let verdict = |stack: &ValidatedStack| {
            let view = View { stack, live: &live };
            match &stack.collector {
                Some(collector) => telemetry_ready(view, collector),
                None => monitoring_ready(view),
            }
        };
        let named = |verdict: &Verdict| verdict.message.contains("spec.observability.scrapeFrom");
        for stack in [
            minimal_stack().told("release", "prometheus"),
            minimal_stack().observability(),
        ] {
            assert!(!named(&verdict(&stack)), "no alert is written");
            let alone = stack.with_monitoring_kinds();
            let peer = alone.operator.clone();
            let scraped = verdict(&alone.clone().scraped_from(peer));
            let alone = verdict(&alone);
            assert!(named(&alone) && !named(&scraped), "{alone:?}");
            assert_eq!((alone.holds, alone.reason), (true, scraped.reason));
        }
    }
}
