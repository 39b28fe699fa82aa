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

/// Returns the verdict on the monitoring objects of a stack without the profile `observability`.
pub fn monitoring_ready(view: View<'_>) -> Verdict {
    refused(view).unwrap_or_else(|| {
        if view.stack.has_monitoring_kinds {
            Verdict::yes(
                "Told",
                "the ServiceMonitor, the PrometheusRule and the dashboard are written",
            )
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
    use crate::{model::live::Live, testing::stack::minimal_stack};

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
}
