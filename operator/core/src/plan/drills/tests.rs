//! Tables of the decisions about drills.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{DrillRequest, DrillVerdict, ShortenerDrillStatus},
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

fn tally(drill: &ShortenerDrill, cached: bool) -> Tally {
    Tally::new(drill.spec.store, (true, cached), (at(0), at(60)))
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

#[test]
fn every_managed_store_of_a_healthy_stack_can_be_taken_away() {
    for store in ["Cache", "Queue", "Database", "Vector", "Telemetry"] {
        let drill = of_store(store);
        assert_eq!(
            admit(&drill, [&drill], Some(&stack(json!({})))),
            Ok(()),
            "{store}"
        );
    }
    let cluster = json!({"spec": {"database": {"cloudNativePG": {}}}});
    assert_eq!(
        admit(&of_store("Database"), [], Some(&stack(cluster))),
        Ok(())
    );
}

/// Returns the decision on a drill of the cache while a stack has these changes.
fn decided(changes: Value) -> Result<(), Refusal> {
    admit(&of_store("Cache"), [], Some(&stack(changes)))
}

#[test]
fn a_drill_is_refused_by_what_the_spec_says() {
    use Refusal::{DrillsNotAllowed, NoProbe, StackHalted, StoreNotInStack, StoreNotManaged};
    let external = json!({"external": {"secretRef": {"name": "links-cache"}}});
    for (field, value, refusal) in [
        ("drills", json!(null), DrillsNotAllowed),
        ("drills", json!({"enabled": false}), DrillsNotAllowed),
        ("paused", json!(true), StackHalted),
        ("stopped", json!(true), StackHalted),
        ("profiles", json!(["queue"]), StoreNotInStack),
        ("cache", external, StoreNotManaged),
        ("gateway", json!({"endToEndProbe": null}), NoProbe),
    ] {
        let found = decided(json!({"spec": {field: value}}));
        assert_eq!(found, Err(refusal), "{field}");
    }
    let without = stack(json!({"spec": {"observability": {"backend": null}}}));
    let found = admit(&of_store("Telemetry"), [], Some(&without));
    assert_eq!(found, Err(StoreNotManaged));
}

#[test]
fn a_drill_is_refused_while_the_stack_is_not_as_asked_for() {
    use Refusal::{ProbeFailed, StackChanging, StackHalted, StackNotFound, StackNotReady};
    for (type_, status, refusal) in [
        ("Ready", "False", StackNotReady),
        ("Progressing", "True", StackChanging),
        ("Degraded", "True", StackChanging),
        ("EndToEnd", "False", ProbeFailed),
    ] {
        let mut conditions = json!(stack(json!({})).status.unwrap().conditions);
        for condition in conditions.as_array_mut().unwrap() {
            if condition["type"] == type_ {
                *condition = self::condition(type_, status);
            }
        }
        let found = decided(json!({"status": {"conditions": conditions}}));
        assert_eq!(found, Err(refusal), "{type_}");
    }
    let plan_only = json!({"annotations": {"shortener.dev/plan-only": "true"}});
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    for (metadata, refusal) in [
        (json!({"generation": 99}), StackChanging),
        (plan_only, StackHalted),
        (deleted, StackNotFound),
    ] {
        let found = decided(json!({"metadata": metadata.clone()}));
        assert_eq!(found, Err(refusal), "{metadata}");
    }
    assert_eq!(admit(&of_store("Cache"), [], None), Err(StackNotFound));
}

#[test]
fn there_is_one_drill_at_a_time_and_the_oldest_is_first() {
    let stack = stack(json!({}));
    let older = drill(
        "z",
        json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}}),
    );
    let younger = drill(
        "b",
        json!({"metadata": {"creationTimestamp": "2027-01-01T00:00:00Z"}}),
    );
    let mine = drill("c", json!({}));
    let first_by_name = drill("a", json!({}));
    for (other, expected) in [
        (&mine, Ok(())),
        (&younger, Ok(())),
        (&older, Err(Refusal::AnotherDrill)),
        (&first_by_name, Err(Refusal::AnotherDrill)),
        (&running(), Err(Refusal::AnotherDrill)),
    ] {
        assert_eq!(
            admit(&mine, [other], Some(&stack)),
            expected,
            "{}",
            other.name_any()
        );
    }
    let mut over = older;
    over.status = Some(refused(&over, Refusal::StackChanging, at(0)));
    assert_eq!(admit(&mine, [&over], Some(&stack)), Ok(()));
}

#[test]
fn each_refusal_names_the_remedy() {
    for refusal in [
        Refusal::StackNotFound,
        Refusal::DrillsNotAllowed,
        Refusal::StackHalted,
        Refusal::AnotherDrill,
        Refusal::StoreNotInStack,
        Refusal::StoreNotManaged,
        Refusal::StackNotReady,
        Refusal::StackChanging,
        Refusal::NoProbe,
        Refusal::ProbeFailed,
    ] {
        assert!(refusal.message().contains(": "), "{refusal:?}");
        let status = refused(&of_store("Cache"), refusal, at(0));
        assert_eq!(status.phase, Some(DrillPhase::Refused));
        let condition = &status.conditions[0];
        assert_eq!(
            (condition.type_.as_str(), condition.status.as_str()),
            ("Complete", "True")
        );
        assert_eq!(condition.reason, refusal.reason());
        assert_eq!((status.start_time, status.end_time), (None, None));
    }
}

#[test]
fn a_store_is_away_from_the_start_to_the_end_and_never_longer() {
    let stack = stack(json!({}));
    let drill = running();
    let away = |drill: &ShortenerDrill, stack: &ShortenerStack, seconds| {
        active([drill], stack, at(seconds)).map(|active| active.store)
    };
    for (seconds, expected) in [
        (-1, None),
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
    let forbidden = self::stack(json!({"spec": {"drills": {"enabled": false}}}));
    assert_eq!(away(&drill, &forbidden, 1), None);
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
fn the_steps_follow_the_times_and_the_requests() {
    let (stack, mut drill) = (stack(json!({})), running());
    let mut tally = tally(&drill, true);
    assert_eq!(step(&drill, Some(&stack), &tally, at(59)), Step::Send);
    assert_eq!(step(&drill, Some(&stack), &tally, at(60)), Step::GiveBack);
    assert_eq!(step(&drill, None, &tally, at(1)), Step::GiveBack);
    let forbidden = self::stack(json!({"spec": {"drills": {"enabled": false}}}));
    assert_eq!(
        step(&drill, Some(&forbidden), &tally, at(1)),
        Step::GiveBack
    );
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

/// Returns the verdict on a drill of a store during which these kinds of requests got 503.
fn judged(store: &str, cached: bool, refused: &[DrillRequest]) -> ShortenerDrillStatus {
    let drill = of_store(store);
    let mut tally = tally(&drill, cached);
    for second in 0..60 {
        serve(&mut tally, second, refused);
    }
    (60..80).for_each(|second| serve(&mut tally, second, &[]));
    complete(
        &drill,
        true,
        Report {
            tally: &tally,
            now: at(80),
        },
    )
}

#[test]
fn a_promise_is_held_or_broken() {
    use DrillRequest::{CachedRedirect, Create, Job, UncachedCode};
    for (store, cached, refused, expected) in [
        ("Cache", true, &[][..], DrillVerdict::Held),
        ("Cache", true, &[CachedRedirect], DrillVerdict::Broken),
        ("Queue", true, &[Job], DrillVerdict::Held),
        ("Queue", true, &[Job, Create], DrillVerdict::Broken),
        (
            "Database",
            true,
            &[UncachedCode, Create],
            DrillVerdict::Held,
        ),
        (
            "Database",
            true,
            &[CachedRedirect, UncachedCode, Create],
            DrillVerdict::Broken,
        ),
        (
            "Database",
            false,
            &[CachedRedirect, UncachedCode, Create],
            DrillVerdict::Held,
        ),
        ("Vector", true, &[], DrillVerdict::Held),
        ("Telemetry", true, &[Job], DrillVerdict::Broken),
    ] {
        let status = judged(store, cached, refused);
        let case = format!("{store} {refused:?}: {status:?}");
        assert_eq!(status.verdict, Some(expected), "{case}");
        assert_eq!(status.phase, Some(DrillPhase::Complete), "{case}");
        assert_eq!(
            status.conditions[0].reason,
            format!("{expected:?}"),
            "{case}"
        );
    }
}

#[test]
fn the_report_has_counts_gaps_and_the_time_of_recovery() {
    let drill = of_store("Queue");
    let mut tally = tally(&drill, true);
    serve(&mut tally, 0, &[]);
    (2..64).for_each(|second| serve(&mut tally, second, &[DrillRequest::Job]));
    (64..70).for_each(|second| serve(&mut tally, second, &[]));
    let status = complete(
        &drill,
        true,
        Report {
            tally: &tally,
            now: at(70),
        },
    );
    let jobs = &status.requests[3];
    assert_eq!(
        (jobs.request, jobs.sent, jobs.served),
        (DrillRequest::Job, 69, 7)
    );
    assert_eq!(json!(jobs.answers), json!({"302": 7, "503": 62}));
    assert_eq!(jobs.longest_gap_milliseconds, 62_000);
    assert_eq!(jobs.recovery_milliseconds, Some(4000));
    assert!(jobs.kept);
    let redirects = &status.requests[0];
    assert_eq!(
        (
            redirects.longest_gap_milliseconds,
            redirects.recovery_milliseconds
        ),
        (0, Some(0))
    );
}

#[test]
fn one_failed_request_is_no_outage_and_two_in_a_row_are() {
    for (failures, expected) in [(1, DrillVerdict::Held), (2, DrillVerdict::Broken)] {
        let drill = of_store("Cache");
        let mut tally = tally(&drill, true);
        for second in (0..80).step_by(2) {
            let fails = (20..20 + 2 * failures).contains(&second);
            serve(
                &mut tally,
                second,
                if fails { &[DrillRequest::Create] } else { &[] },
            );
        }
        let status = complete(
            &drill,
            true,
            Report {
                tally: &tally,
                now: at(80),
            },
        );
        assert_eq!(status.verdict, Some(expected), "{status:?}");
    }
}

#[test]
fn another_answer_than_503_breaks_the_promise_of_503() {
    let drill = of_store("Queue");
    let mut tally = tally(&drill, true);
    serve(&mut tally, 0, &[]);
    tally.count(DrillRequest::Job, at(1), Answer::Status(500));
    (60..80).for_each(|second| serve(&mut tally, second, &[]));
    let status = complete(
        &drill,
        true,
        Report {
            tally: &tally,
            now: at(80),
        },
    );
    assert_eq!(status.verdict, Some(DrillVerdict::Broken), "{status:?}");
}

#[test]
fn a_lost_job_and_a_store_that_is_not_back_break_a_drill() {
    let drill = of_store("Queue");
    let mut tally = tally(&drill, true);
    (0..80).for_each(|second| serve(&mut tally, second, &[]));
    let now = at(80);
    let never = complete(&drill, false, Report { tally: &tally, now });
    assert_eq!(never.verdict, Some(DrillVerdict::Broken));
    tally.jobs.as_mut().unwrap().accepted = 3;
    tally.jobs.as_mut().unwrap().done = 2;
    let lost = complete(&drill, true, Report { tally: &tally, now });
    assert_eq!(
        (lost.verdict, lost.jobs.unwrap().lost),
        (Some(DrillVerdict::Broken), 1)
    );
}

#[test]
fn a_prober_that_saw_too_little_proves_nothing() {
    let drill = running();
    let fresh = || tally(&drill, true);
    let limited = |answer| {
        let mut tally = fresh();
        for second in 0..80 {
            serve(&mut tally, second, &[]);
            if second % 5 == 0 {
                tally.count(DrillRequest::Create, at(second), answer);
            }
        }
        tally
    };
    let mut silent = fresh();
    for second in 0..80 {
        for (request, _) in kinds(true) {
            silent.count(request, at(second), Answer::None);
        }
    }
    let mut replaced = fresh();
    serve(&mut replaced, 1, &[]);
    let status = reported(
        &drill,
        DrillPhase::Active,
        Report {
            tally: &replaced,
            now: at(2),
        },
    );
    let mut replaced = fresh().resumed(&status, at(20));
    (20..80).for_each(|second| serve(&mut replaced, second, &[]));
    assert_eq!(replaced.unobserved, 19_000);
    for (tally, words) in [
        (limited(Answer::Status(429)), "rate limits"),
        (silent, "did not answer"),
        (replaced, "for 19 s"),
        (fresh(), "not every kind"),
    ] {
        let report = Report {
            tally: &tally,
            now: at(80),
        };
        let status = complete(&drill, true, report);
        assert_eq!(
            status.verdict,
            Some(DrillVerdict::Inconclusive),
            "{words}: {status:?}"
        );
        let message = &status.conditions[0].message;
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn an_operator_that_takes_over_keeps_the_counts_and_knows_no_awaited_job() {
    let drill = running();
    let mut first = tally(&drill, true);
    (0..10).for_each(|second| serve(&mut first, second, &[DrillRequest::Job]));
    *first.jobs.as_mut().unwrap() = serde_json::from_value(json!({
        "accepted": 5, "done": 3, "lost": 0, "repeated": 1, "unknown": 0,
    }))
    .unwrap();
    let status = reported(
        &drill,
        DrillPhase::Active,
        Report {
            tally: &first,
            now: at(10),
        },
    );
    assert_eq!(status.start_time, Some(Time(at(0))));
    assert_eq!(status.code.as_deref(), Some("k7Qm2xB"));
    let second = tally(&drill, true).resumed(&status, at(11));
    assert_eq!(second.jobs.unwrap().unknown, 2);
    assert_eq!(second.awaited_jobs(), 0);
    let again = reported(
        &drill,
        DrillPhase::Active,
        Report {
            tally: &second,
            now: at(11),
        },
    );
    assert_eq!(again.requests[0].sent, 10);
    assert_eq!(again.unobserved_seconds, 2);
}
