//! Tables of the decisions about drills.

mod admission;
mod report;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::DrillRequest,
    model::{cloud_native_pg::HIBERNATION, drill::DRILL, stack::ValidatedStack},
    plan::{
        conditions::{self, DRILL_ACTIVE, View},
        stores,
    },
    testing::{
        live::{live, workload},
        shared::stored_stack,
        stack::{every_profile, minimal_stack},
    },
};

/// Returns a time that is so many seconds after the start of the drills.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn drill(name: &str, changes: Value) -> ShortenerDrill {
    let mut drill = json!({
        "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerDrill",
        "metadata": {
            "name": name, "namespace": "links", "uid": name, "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"stackRef": {"name": "acme"}, "store": "Cache", "seconds": 60},
    });
    json_patch::merge(&mut drill, &changes);
    serde_json::from_value(drill).unwrap()
}

fn of_store(store: &str) -> ShortenerDrill {
    drill("mine", json!({"spec": {"store": store}}))
}

/// Returns a drill that is active from second 0 to second 60.
fn running() -> ShortenerDrill {
    let mut drill = of_store("Cache");
    let tally = tally(&drill, true);
    let report = Report {
        tally: &tally,
        now: at(0),
    };
    drill.status = Some(begun(&drill, "k7Qm2xB", report));
    drill
}

/// Returns a tally of a drill whose store was seen to be away.
fn tally(drill: &ShortenerDrill, cached: bool) -> Tally {
    let mut tally = Tally::new(drill.spec.store, (true, cached), (at(0), at(60)));
    tally.sees_away();
    tally
}

fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Returns a stack on which every drill of a managed store may begin, with changes.
fn stack(changes: Value) -> ShortenerStack {
    let mut stack = json!(stored_stack(json!({
        "drills": {"enabled": true},
        "profiles": ["caching", "queue", "observability", "vector"],
        "gateway": {"provider": "Standalone", "endToEndProbe": {}},
        "observability": {"backend": {"managed": {}}},
    })));
    let generation = stack["metadata"]["generation"].clone();
    stack["status"] = json!({
        "observedGeneration": generation,
        "conditions": [
            condition("Ready", "True"), condition("Progressing", "False"), condition("Degraded", "False"),
            condition("EndToEnd", "True"), condition("CacheReady", "True"),
        ],
    });
    json_patch::merge(&mut stack, &changes);
    serde_json::from_value(stack).unwrap()
}

/// Returns stacks of which no store may be away: one does not allow it, and one is being deleted.
fn halted() -> [ShortenerStack; 2] {
    [
        stack(json!({"spec": {"drills": {"enabled": false}}})),
        stack(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    ]
}

#[test]
fn a_store_is_away_from_the_start_to_the_end_and_never_longer() {
    let stack = stack(json!({}));
    let drill = running();
    let away = |drill: &ShortenerDrill, stack: &ShortenerStack, seconds| {
        active([drill], stack, at(seconds)).map(|active| active.store)
    };
    for (seconds, expected) in [
        (-6, None),
        (-5, Some(Component::Cache)),
        (0, Some(Component::Cache)),
        (59, Some(Component::Cache)),
        (60, None),
        (6000, None),
    ] {
        assert_eq!(away(&drill, &stack, seconds), expected, "{seconds}");
    }
    assert_eq!(
        away(&of_store("Cache"), &stack, 1),
        None,
        "it has not begun"
    );
    for halted in halted() {
        assert_eq!(away(&drill, &halted, 1), None);
    }
    let elsewhere = self::stack(json!({"metadata": {"name": "other"}}));
    assert_eq!(away(&drill, &elsewhere, 1), None);
    for phase in [
        DrillPhase::Recovering,
        DrillPhase::Complete,
        DrillPhase::Refused,
    ] {
        let mut over = drill.clone();
        over.status.as_mut().unwrap().phase = Some(phase);
        assert_eq!(away(&over, &stack, 1), None, "{phase:?}");
    }
    let mut endless = drill.clone();
    endless.status.as_mut().unwrap().end_time = Some(Time(at(1_000_000)));
    assert_eq!(away(&endless, &stack, 599), Some(Component::Cache));
    assert_eq!(away(&endless, &stack, 600), None);
}

/// Returns a stack of which a drill takes a store away.
fn drilled(mut stack: ValidatedStack, store: Component) -> ValidatedStack {
    stack.drill = Some(ActiveDrill {
        name: "mine".to_owned(),
        store,
        until: at(60),
    });
    stack
}

#[test]
fn only_the_store_of_the_drill_has_no_pods_and_its_volume_stays() {
    let whole = crate::plan::build::build(&every_profile()).children;
    for (store, _) in stores::managed(&every_profile()) {
        let stack = drilled(every_profile(), store.component);
        let children = crate::plan::build::build(&stack).children;
        assert_eq!(children.claims, whole.claims);
        assert_eq!(children.services, whole.services);
        assert_eq!(children.deployments, whole.deployments);
        for (found, before) in children.stateful_sets.iter().zip(&whole.stateful_sets) {
            let is_its = found.metadata.name == Some(format!("acme-{}", store.component.as_str()));
            let spec = |of: &k8s_openapi::api::apps::v1::StatefulSet| of.spec.clone().unwrap();
            assert_eq!(
                spec(found).template,
                spec(before).template,
                "no restart follows"
            );
            if is_its {
                assert_eq!(spec(found).replicas, Some(0));
                let annotations = found.metadata.annotations.as_ref().unwrap();
                assert_eq!(annotations[DRILL], "mine");
            } else {
                assert_eq!(found, before);
            }
        }
    }
}

#[test]
fn a_cluster_hibernates_while_a_drill_takes_the_database_away() {
    let stack = minimal_stack().cloud_native_pg(json!({}));
    let annotations = |stack: &ValidatedStack| {
        let cluster = stores::postgres::cluster::build(stack).unwrap();
        cluster.metadata.annotations.unwrap()
    };
    assert_eq!(annotations(&stack)[HIBERNATION], "off");
    let drilled = annotations(&drilled(stack, Component::Postgres));
    assert_eq!(
        (drilled[HIBERNATION].as_str(), drilled[DRILL].as_str()),
        ("on", "mine")
    );
}

#[test]
fn the_condition_of_the_store_names_the_drill_and_its_end() {
    for (store, type_) in [
        (Component::Cache, "CacheReady"),
        (Component::Postgres, "DatabaseReady"),
        (Component::Rabbitmq, "QueueReady"),
        (Component::Qdrant, "VectorReady"),
        (Component::Telemetry, "TelemetryReady"),
    ] {
        let stack = drilled(every_profile(), store);
        let live = live(store, workload(0, 0));
        let verdicts = conditions::components(View {
            stack: &stack,
            live: &live,
        });
        let (_, verdict) = verdicts.iter().find(|(found, _)| *found == type_).unwrap();
        assert_eq!(
            (verdict.reason, verdict.holds, verdict.fault),
            (DRILL_ACTIVE, false, false)
        );
        let words = "ShortenerDrill mine keeps the store away until 2027-01-15T08:01:00Z";
        assert!(verdict.message.contains(words), "{}", verdict.message);
    }
}

#[test]
fn a_store_is_away_when_no_server_is_left() {
    let stack = drilled(every_profile(), Component::Cache);
    for (ready, away) in [(1, false), (0, true)] {
        let live = live(Component::Cache, workload(0, ready));
        let verdicts = conditions::components(View {
            stack: &stack,
            live: &live,
        });
        let (_, verdict) = verdicts
            .iter()
            .find(|(found, _)| *found == "CacheReady")
            .unwrap();
        let status = if verdict.holds { "True" } else { "False" };
        let mut condition = condition("CacheReady", status);
        condition["reason"] = verdict.reason.into();
        let stack = self::stack(json!({"status": {"conditions": [condition]}}));
        assert_eq!(is_away(&running(), &stack), away);
        let mut over = running();
        over.status.as_mut().unwrap().phase = Some(DrillPhase::Recovering);
        assert!(!is_away(&over, &stack));
    }
    let fault = json!({"status": {"conditions": [condition("CacheReady", "False")]}});
    assert!(!is_away(&running(), &self::stack(fault)));
}

#[test]
fn the_steps_follow_the_times_and_the_requests() {
    let (stack, mut drill) = (stack(json!({})), running());
    let mut tally = tally(&drill, true);
    assert_eq!(step(&drill, Some(&stack), &tally, at(59)), Step::Send);
    assert_eq!(step(&drill, Some(&stack), &tally, at(60)), Step::GiveBack);
    // The clock was corrected. Without an end, the store would be taken away again later.
    assert_eq!(step(&drill, Some(&stack), &tally, at(-5)), Step::Send);
    assert_eq!(step(&drill, Some(&stack), &tally, at(-6)), Step::GiveBack);
    assert_eq!(step(&drill, None, &tally, at(1)), Step::GiveBack);
    for halted in halted() {
        assert_eq!(step(&drill, Some(&halted), &tally, at(1)), Step::GiveBack);
    }
    drill.status.as_mut().unwrap().phase = Some(DrillPhase::Recovering);
    assert_eq!(step(&drill, Some(&stack), &tally, at(61)), Step::Send);
    serve(&mut tally, 62, &[]);
    assert_eq!(
        step(&drill, Some(&stack), &tally, at(71)),
        Step::Send,
        "not steady yet"
    );
    let complete = Step::Complete { is_back: true };
    assert_eq!(step(&drill, Some(&stack), &tally, at(72)), complete);
    let away = self::stack(json!({"status": {"conditions": [condition("CacheReady", "False")]}}));
    assert_eq!(step(&drill, Some(&away), &tally, at(72)), Step::Send);
    let never = Step::Complete { is_back: false };
    assert_eq!(step(&drill, Some(&away), &tally, at(360)), never);
    tally.jobs.as_mut().unwrap().accepted = 1;
    assert_eq!(
        step(&drill, Some(&stack), &tally, at(72)),
        Step::Send,
        "a job is awaited"
    );
}

/// Counts one request of each kind, those of `refused` with 503.
fn serve(tally: &mut Tally, second: i64, refused: &[DrillRequest]) {
    for (request, _) in kinds(true) {
        let answer = match refused.contains(&request) {
            true => Answer::Status(503),
            false => Answer::Served(302),
        };
        tally.count(request, at(second), answer);
    }
}
