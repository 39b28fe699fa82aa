//! The metrics of the drills of the stacks. They follow from the statuses of the drills that exist: nothing else is kept, and
//! a new leader exports the same.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use prometheus::{
    GaugeVec, IntGaugeVec, Registry, register_gauge_vec_with_registry,
    register_int_gauge_vec_with_registry,
};
use shortener_operator_core::{
    api::{DrillPhase, DrillPromise, DrillVerdict, DrilledStore, ShortenerDrill},
    plan::drills::phase,
};

use super::set;

/// Labels of the series of a store.
const LABELS: [&str; 3] = ["namespace", "stack", "store"];

/// The stores that drills take away.
const STORES: [DrilledStore; 5] = [
    DrilledStore::Cache,
    DrilledStore::Queue,
    DrilledStore::Database,
    DrilledStore::Vector,
    DrilledStore::Telemetry,
];

/// Values of the label `result`.
const RESULTS: [&str; 4] = [HELD, "Broken", "Inconclusive", "Refused"];
const HELD: &str = "Held";

/// The gauges.
#[derive(Clone, Debug)]
pub(super) struct DrillGauges {
    running: IntGaugeVec,
    ended: IntGaugeVec,
    completed: IntGaugeVec,
    held: IntGaugeVec,
    longest_gap: GaugeVec,
}

impl DrillGauges {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge =
            |name, help| register_int_gauge_vec_with_registry!(name, help, &LABELS, registry);
        Ok(Self {
            running: gauge(
                "drill_running",
                "Whether a drill of a stack's store runs (1) or not (0).",
            )?,
            ended: register_int_gauge_vec_with_registry!(
                "drills",
                "Drills of a stack's store that exist and have ended, by result.",
                &["namespace", "stack", "store", "result"],
                registry
            )?,
            completed: gauge(
                "drill_completed_timestamp_seconds",
                "Time of the end of the last drill that took a stack's store away.",
            )?,
            held: gauge(
                "drill_held_timestamp_seconds",
                "Time of the end of the last drill of a stack's store during which the promises were held.",
            )?,
            longest_gap: register_gauge_vec_with_registry!(
                "drill_longest_gap_seconds",
                "Longest time of the last drill of a stack's store in which requests that must work were not served.",
                &LABELS,
                registry
            )?,
        })
    }

    /// Sets what the statuses of a stack's drills say. A store without drills has no series.
    pub(super) fn set(&self, namespace: &str, stack: &str, drills: &[Arc<ShortenerDrill>]) {
        for store in STORES {
            let its = drills.iter().filter(|drill| drill.spec.store == store);
            let its: Vec<&ShortenerDrill> = its.map(|drill| &**drill).collect();
            let store = format!("{store:?}");
            self.set_store([namespace, stack, store.as_str()], &its);
        }
    }

    fn set_store(&self, labels: [&str; 3], drills: &[&ShortenerDrill]) {
        let [namespace, stack, store] = labels;
        let exists = !drills.is_empty();
        let running = drills.iter().any(|drill| is_running(drill));
        let running = exists.then_some(i64::from(running));
        set(&self.running, &labels, running);
        for result in RESULTS {
            let its = drills.iter().filter(|drill| outcome(drill) == Some(result));
            let count = i64::try_from(its.count()).unwrap_or(i64::MAX);
            let labels = [namespace, stack, store, result];
            set(&self.ended, &labels, exists.then_some(count));
        }
        let complete = drills
            .iter()
            .filter_map(|drill| Some((completed(drill)?, *drill)));
        let mut complete: Vec<(Timestamp, &ShortenerDrill)> = complete.collect();
        complete.sort_by_key(|(time, _)| *time);
        let last = complete.last();
        let mut newest_first = complete.iter().rev();
        let held = newest_first.find(|(_, drill)| outcome(drill) == Some(HELD));
        let gap = last.and_then(|(_, drill)| longest_gap(drill));
        set(
            &self.completed,
            &labels,
            last.map(|(time, _)| time.as_second()),
        );
        set(&self.held, &labels, held.map(|(time, _)| time.as_second()));
        set(&self.longest_gap, &labels, gap.map(|gap| gap.as_secs_f64()));
    }

    pub(super) fn reset(&self) {
        for gauge in [&self.running, &self.ended, &self.completed, &self.held] {
            gauge.reset();
        }
        self.longest_gap.reset();
    }
}

fn is_running(drill: &ShortenerDrill) -> bool {
    matches!(
        phase(drill),
        Some(DrillPhase::Active | DrillPhase::Recovering)
    )
}

/// Returns the result of a drill that has ended.
fn outcome(drill: &ShortenerDrill) -> Option<&'static str> {
    match (phase(drill)?, drill.status.as_ref()?.verdict) {
        (DrillPhase::Refused, _) => Some("Refused"),
        (DrillPhase::Complete, Some(DrillVerdict::Held)) => Some(HELD),
        (DrillPhase::Complete, Some(DrillVerdict::Broken)) => Some("Broken"),
        (DrillPhase::Complete, Some(DrillVerdict::Inconclusive)) => Some("Inconclusive"),
        (DrillPhase::Complete, None) | (DrillPhase::Active | DrillPhase::Recovering, _) => None,
    }
}

/// Returns the time at which a drill was complete; `None` too if it took nothing away.
fn completed(drill: &ShortenerDrill) -> Option<Timestamp> {
    let time = drill.status.as_ref()?.completion_time.as_ref()?;
    Some(time.0)
}

/// Returns the longest gap in the requests that must work. The others have one for as long as the store is away.
fn longest_gap(drill: &ShortenerDrill) -> Option<Duration> {
    let reports = drill.status.iter().flat_map(|status| &status.requests);
    let promised = reports.filter(|report| report.promise == DrillPromise::Served);
    let longest = promised
        .map(|report| report.longest_gap_milliseconds)
        .max()?;
    // Who edits the status can write a negative one.
    let longest = u64::try_from(longest).unwrap_or_default();
    Some(Duration::from_millis(longest))
}

#[cfg(test)]
pub(super) mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;
    use crate::server::metrics::Metrics;

    /// Returns a drill of a store of the stack `acme`.
    pub fn drill(store: &str, status: Value) -> Arc<ShortenerDrill> {
        let drill = json!({
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerDrill",
            "metadata": {"name": "mine", "namespace": "links"},
            "spec": {"stackRef": {"name": "acme"}, "store": store},
            "status": status,
        });
        Arc::new(serde_json::from_value(drill).unwrap())
    }

    /// Returns the status of a drill that was complete at this second, with request, promise and gap of each report.
    pub fn complete(verdict: &str, second: u32, gaps: &[(&str, &str, i64)]) -> Value {
        let requests = gaps.iter().map(|(request, promise, gap)| {
            json!({
                "request": request, "promise": promise, "kept": true, "sent": 9, "served": 9,
                "longestGapMilliseconds": gap,
            })
        });
        json!({
            "phase": "Complete", "verdict": verdict,
            "completionTime": format!("2026-11-28T04:17:{second:02}Z"),
            "requests": requests.collect::<Vec<_>>(),
        })
    }

    /// Returns the series of these drills, by name and labels, without the labels of the stack.
    fn series(drills: &[Arc<ShortenerDrill>]) -> Vec<String> {
        let metrics = Metrics::new().unwrap();
        metrics.drills("links", "acme", drills);
        let page = String::from_utf8(metrics.render().unwrap()).unwrap();
        let series = page
            .lines()
            .filter_map(|line| line.strip_prefix("shortener_stack_"));
        let series = series.map(|line| {
            line.replace("namespace=\"links\",", "")
                .replace("stack=\"acme\",", "")
                .replace('"', "")
        });
        series.collect()
    }

    #[test]
    fn a_store_has_series_as_soon_as_it_has_a_drill() {
        assert_eq!(series(&[]), [] as [&str; 0]);
        assert_eq!(
            series(&[drill("Queue", Value::Null)]),
            [
                "drill_running{store=Queue} 0",
                "drills{result=Broken,store=Queue} 0",
                "drills{result=Held,store=Queue} 0",
                "drills{result=Inconclusive,store=Queue} 0",
                "drills{result=Refused,store=Queue} 0",
            ]
        );
        for (phase, running) in [
            ("Active", 1),
            ("Recovering", 1),
            ("Complete", 0),
            ("Refused", 0),
        ] {
            let series = series(&[drill("Queue", json!({"phase": phase}))]);
            let expected = format!("drill_running{{store=Queue}} {running}");
            assert!(series.contains(&expected), "{phase}: {series:?}");
        }
    }

    #[test]
    fn drills_are_counted_by_result_and_the_last_one_counts_for_times_and_gap() {
        let gaps = [
            ("CachedRedirect", "Served", 1500),
            ("Create", "Unavailable", 60_000),
            ("Job", "Served", 250),
        ];
        let found = series(&[
            drill("Database", complete("Broken", 3, &gaps)),
            drill("Database", complete("Held", 2, &[])),
            drill("Database", complete("Held", 1, &[])),
            drill("Database", json!({"phase": "Refused"})),
            // It took nothing away.
            drill(
                "Database",
                json!({"phase": "Complete", "verdict": "Inconclusive"}),
            ),
            drill("Cache", complete("Held", 9, &[])),
        ]);
        let of_database: Vec<&str> = found
            .iter()
            .map(String::as_str)
            .filter(|line| line.contains("store=Database"))
            .collect();
        assert_eq!(
            of_database,
            [
                "drill_completed_timestamp_seconds{store=Database} 1795839423",
                "drill_held_timestamp_seconds{store=Database} 1795839422",
                "drill_longest_gap_seconds{store=Database} 1.5",
                "drill_running{store=Database} 0",
                "drills{result=Broken,store=Database} 1",
                "drills{result=Held,store=Database} 2",
                "drills{result=Inconclusive,store=Database} 1",
                "drills{result=Refused,store=Database} 1",
            ]
        );
    }

    #[test]
    fn every_store_that_a_drill_can_take_away_has_series() {
        let definition = json!(ShortenerDrill::crd());
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let stores = &schema["properties"]["spec"]["properties"]["store"]["enum"];
        assert_eq!(*stores, json!(STORES));
        for store in stores.as_array().unwrap() {
            let store = store.as_str().unwrap();
            let series = series(&[drill(store, Value::Null)]);
            let expected = format!("drill_running{{store={store}}} 0");
            assert!(series.contains(&expected), "{series:?}");
        }
    }
}
