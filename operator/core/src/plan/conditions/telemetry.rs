//! `TelemetryReady`: traces and logs have a receiver. Requests and jobs do not depend on it.

use super::{Verdict, View, monitoring};
use crate::{
    model::{
        metadata::Component,
        stack::{Backend, Collector},
    },
    plan::{stores::common, verdict::workload},
};

/// Checks the receiver of traces and logs, then the monitoring objects. Monitoring objects that could not be written
/// change the reason, never the status.
pub fn telemetry_ready(view: View<'_>, collector: &Collector) -> Verdict {
    let verdict = export_ready(view, collector);
    if verdict.holds && verdict.reason != workload::ROLLING_OUT {
        monitoring::refused(view).unwrap_or_else(|| monitoring::unread(view, verdict))
    } else {
        verdict
    }
}

/// Checks the collector's Deployment, then the stack's own backend.
fn export_ready(view: View<'_>, collector: &Collector) -> Verdict {
    let collector = match collector {
        Collector::Managed(collector) => collector,
        Collector::Held { .. } => return workload::ready(view, Component::Otel),
        Collector::External { endpoint } => {
            return Verdict::yes(
                "External",
                format!("external collector {endpoint}; data that it does not accept is dropped"),
            );
        }
    };
    let verdict = workload::ready(view, Component::Otel);
    if !verdict.holds {
        return verdict;
    }
    match &collector.backend {
        Backend::Managed(own) => {
            let without = "data that it does not accept is dropped";
            let backend = common::ready(view, Component::Telemetry, own, without);
            // A rollout of either component is reported.
            if backend.holds && verdict.reason == workload::ROLLING_OUT {
                verdict
            } else {
                backend
            }
        }
        Backend::External(_) => verdict,
        Backend::Nowhere if verdict.reason == workload::ROLLING_OUT => verdict,
        Backend::Nowhere => Verdict::yes(
            "NoBackend",
            "the collector has no backend and drops all traces and logs: set spec.observability.backend to keep them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::OtlpProtocol,
        model::{
            live::{Live, Workload},
            stack::ValidatedStack,
        },
        plan::conditions::MONITORING_REFUSED,
        testing::{self, stack::minimal_stack},
    };

    fn workload(ready: i32, updated: i32) -> Workload {
        Workload {
            updated,
            ..testing::live::workload(1, ready)
        }
    }

    fn verdict(stack: &ValidatedStack, collector: Workload, backend: Workload) -> Verdict {
        let live = Live {
            workloads: [
                (Component::Otel, collector),
                (Component::Telemetry, backend),
            ]
            .into(),
            ..Live::default()
        };
        let view = View { stack, live: &live };
        telemetry_ready(view, stack.collector.as_ref().unwrap())
    }

    #[test]
    fn telemetry_is_ready_when_the_collector_and_the_stacks_own_backend_are() {
        let (good, down, old) = (|| workload(1, 1), || workload(0, 1), || workload(1, 0));
        let dropping = minimal_stack().observability();
        let own = minimal_stack().telemetry();
        let sending = minimal_stack().external_backend(OtlpProtocol::Grpc);
        let table = [
            (&dropping, good(), down(), true, "NoBackend"),
            (&dropping, old(), down(), true, "RollingOut"),
            (&dropping, down(), good(), false, "PodsStarting"),
            (&own, good(), good(), true, "PodsReady"),
            (&own, good(), down(), false, "PodsStarting"),
            (&own, down(), good(), false, "PodsStarting"),
            (&own, old(), good(), true, "RollingOut"),
            (&own, good(), old(), true, "RollingOut"),
            (&sending, good(), down(), true, "PodsReady"),
            (&sending, down(), down(), false, "PodsStarting"),
        ];
        for (stack, collector, backend, holds, reason) in table {
            let found = verdict(stack, collector, backend);
            assert_eq!((found.holds, found.reason), (holds, reason), "{found:?}");
        }
    }

    #[test]
    fn what_a_prometheus_operator_refuses_is_told_and_takes_no_readiness() {
        let stack = minimal_stack().telemetry();
        let table = [
            (workload(1, 1), true, MONITORING_REFUSED),
            (workload(1, 0), true, "RollingOut"),
            (workload(0, 1), false, "PodsStarting"),
        ];
        for (collector, holds, reason) in table {
            let live = Live {
                workloads: [
                    (Component::Otel, collector),
                    (Component::Telemetry, workload(1, 1)),
                ]
                .into(),
                monitoring_refused: Some("PrometheusRule/acme: no".to_owned()),
                ..Live::default()
            };
            let view = View {
                stack: &stack,
                live: &live,
            };
            let found = telemetry_ready(view, stack.collector.as_ref().unwrap());
            assert_eq!((found.holds, found.reason), (holds, reason), "{found:?}");
        }
    }

    #[test]
    fn an_external_collector_is_somebody_elses_matter() {
        let stack = minimal_stack().external_collector();
        let verdict = verdict(&stack, workload(0, 0), workload(0, 0));
        assert!(verdict.holds && verdict.reason == "External", "{verdict:?}");
        assert!(
            verdict.message.contains("collector.test"),
            "{}",
            verdict.message
        );
    }
}
