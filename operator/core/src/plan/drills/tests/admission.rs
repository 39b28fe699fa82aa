//! Tables of the drills that may begin, and of the refusals.

use super::*;

/// Returns the decision on a drill just after the creation of most.
fn admit<'a>(
    drill: &ShortenerDrill,
    others: impl IntoIterator<Item = &'a ShortenerDrill>,
    stack: Option<&ShortenerStack>,
) -> Result<(), Refusal> {
    super::admit(
        drill,
        others,
        stack,
        "2026-01-01T00:00:01Z".parse().unwrap(),
    )
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
fn a_drill_that_nobody_expects_any_more_is_refused() {
    let stack = stack(json!({}));
    for (now, expected) in [
        ("2026-01-01T00:05:00Z", Ok(())),
        ("2026-01-01T00:05:01Z", Err(Refusal::Outdated)),
    ] {
        let now = now.parse().unwrap();
        let found = super::admit(&of_store("Cache"), [], Some(&stack), now);
        assert_eq!(found, expected, "{now}");
    }
}

#[test]
fn each_refusal_names_the_remedy() {
    for refusal in [
        Refusal::StackNotFound,
        Refusal::Outdated,
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
