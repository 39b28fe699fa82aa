//! Tests of the status after each outcome of a reconcile.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PodTemplateSpec},
    jiff::Timestamp,
};
use kube_core::CustomResourceExt;
use serde_json::json;

use super::*;
use crate::{
    api::{PendingChange, VolumesStatus},
    model::{
        measured::{EndToEndResult, Enforcement, Fault, Step},
        stack::EndToEnd,
    },
    plan::{
        ValidateError,
        conditions::{END_TO_END, SOLE_ENTRY},
    },
    testing::{golden, live::workload, shared::stored_stack, stack::minimal_stack},
};

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn live(app_ready: i32) -> Live {
    let ingress =
        json!({"metadata": {}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    Live {
        workloads: [
            (Component::App, workload(2, app_ready)),
            (Component::Gateway, workload(2, 2)),
            (Component::Postgres, workload(2, 2)),
        ]
        .into(),
        ingresses: vec![Arc::new(serde_json::from_value(ingress).unwrap())],
        ..Live::default()
    }
}

fn after(previous: Option<ShortenerStackStatus>, live: &Live, now: i64) -> ShortenerStackStatus {
    let mut stack = stored_stack(json!({}));
    stack.status = previous;
    status(&stack, Outcome::Applied(&minimal_stack(), live), &at(now))
}

fn find<'a>(status: &'a ShortenerStackStatus, type_: &str) -> &'a Condition {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .unwrap()
}

#[test]
fn a_stack_whose_components_are_ready_is_ready() {
    let status = after(None, &live(2), 1);
    assert!(is_ready(&status));
    assert_eq!(status.observed_generation, Some(1));
    assert!(
        status
            .conditions
            .iter()
            .all(|condition| condition.observed_generation == Some(1))
    );
    assert_eq!(
        status.app,
        AppStatus {
            replicas: 2,
            ready_replicas: 2
        }
    );
    let types: Vec<&str> = status
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(
        types,
        [
            "Ready",
            "Progressing",
            "Degraded",
            "DatabaseReady",
            "AppReady",
            "GatewayReady"
        ]
    );
}

#[test]
fn the_transition_time_moves_only_when_the_status_flips() {
    let first = after(None, &live(0), 1);
    let same = after(Some(first.clone()), &live(0), 2);
    let flipped = after(Some(same.clone()), &live(2), 3);
    assert_eq!(find(&same, "Ready").last_transition_time, at(1));
    assert_eq!(find(&flipped, "Ready").last_transition_time, at(3));
    assert_eq!(find(&flipped, "DatabaseReady").last_transition_time, at(1));
}

#[test]
fn a_refused_child_is_named_by_its_component_and_takes_no_other_ones_state() {
    let refused = |component| StepFailure {
        reason: "Forbidden",
        message: format!("Deployment/acme-{}: no", Component::as_str(component)),
        needs_an_edit: false,
        waits: false,
    };
    for (component, type_) in [
        (Component::App, "AppReady"),
        (Component::Gateway, "GatewayReady"),
        (Component::Postgres, "DatabaseReady"),
        // It has no condition of its own.
        (Component::Stack, "Degraded"),
    ] {
        let mut live = live(2);
        live.refused.insert(component, refused(component));
        let status = after(None, &live, 1);
        assert!(is_ready(&status), "{component:?}");
        for type_ in [type_, "Degraded"] {
            let named = find(&status, type_);
            assert_eq!(named.status, "True", "{type_}");
            assert_eq!(named.message, refused(component).message, "{type_}");
        }
        let others = ["DatabaseReady", "AppReady", "GatewayReady"];
        for other in others.into_iter().filter(|other| *other != type_) {
            assert_eq!(find(&status, other).reason, "PodsReady", "{other}");
        }
    }
}

#[test]
fn a_message_is_at_most_as_long_as_kubernetes_has_it() {
    let mut live = live(2);
    let refused = StepFailure {
        reason: "Forbidden",
        message: "\u{e4}".repeat(1 << 20),
        needs_an_edit: false,
        waits: false,
    };
    live.refused.insert(Component::App, refused);
    let status = after(None, &live, 1);
    for type_ in ["AppReady", "Degraded"] {
        let cut = &find(&status, type_).message;
        assert_eq!(cut.len(), LONGEST_MESSAGE, "{type_}");
    }
}

/// Returns the status after a failure of a stack that had `before` ready pods of the app and has `now` of them.
fn after_failure(before: i32, now: i32, error: &ValidateError) -> ShortenerStackStatus {
    let mut stack = stored_stack(json!({}));
    stack.status = Some(after(None, &live(before), 1));
    let now = live(now);
    let failed = Outcome::Failed(StepFailure::from(error), &now);
    status(&stack, failed, &at(2))
}

#[test]
fn a_failure_names_its_reason_and_takes_nothing_from_a_stack_that_serves() {
    let error = ValidateError::NameTaken("acme-checksum".to_owned());
    for (before, now, ready, reason) in [
        (2, 2, "True", "Serving"),
        (2, 1, "True", "Serving"),
        (2, 0, "False", "NameTaken"),
        (0, 2, "False", "NameTaken"),
    ] {
        let status = after_failure(before, now, &error);
        let found = find(&status, "Ready");
        assert_eq!(
            (found.status.as_str(), found.reason.as_str()),
            (ready, reason)
        );
        let degraded = find(&status, "Degraded");
        assert_eq!(
            (degraded.status.as_str(), degraded.reason.as_str()),
            ("True", "NameTaken")
        );
        let before = if before > 0 { "True" } else { "False" };
        assert_eq!(find(&status, "AppReady").status, before, "it was seen last");
    }
}

#[test]
fn the_numbers_of_pods_are_those_of_today_after_a_failure_too() {
    let error = ValidateError::NameTaken("acme-checksum".to_owned());
    let mut stack = stored_stack(json!({}));
    stack.status = Some(after(None, &live(2), 1));
    let mut now = live(1);
    now.workloads.insert(Component::Worker, workload(5, 3));
    let failed = Outcome::Failed(StepFailure::from(&error), &now);
    let status = status(&stack, failed, &at(2));
    assert_eq!(status.app.ready_replicas, 1);
    assert_eq!(status.workers.replicas, 5);
}

fn claim(size: &str) -> Arc<PersistentVolumeClaim> {
    let claim = json!({"metadata": {}, "spec": {"resources": {"requests": {"storage": size}}}});
    Arc::new(serde_json::from_value(claim).unwrap())
}

#[test]
fn the_sizes_that_the_live_claims_request_are_recorded_after_every_outcome() {
    let stack = stored_stack(json!({"database": {"managed": {"storage": "3Gi"}}}));
    let validated = minimal_stack();
    let mut grown = live(2);
    grown.claims = [
        (Component::Postgres, claim("1Gi")),
        (Component::Rabbitmq, claim("2Gi")),
        (Component::Qdrant, claim("4Gi")),
        (Component::Telemetry, claim("8Gi")),
    ]
    .into();
    let error = ValidateError::NameTaken("acme-checksum".to_owned());
    for outcome in [
        Outcome::Applied(&validated, &grown),
        Outcome::Paused(&validated, &grown),
        Outcome::Planned(&validated, &grown, &Changes::default()),
        Outcome::Failed(StepFailure::from(&error), &grown),
    ] {
        let sizes = status(&stack, outcome, &at(1)).volumes.unwrap();
        assert_eq!(
            serde_json::to_value(sizes).unwrap(),
            json!({"database": "1Gi", "queue": "2Gi", "vector": "4Gi", "backend": "8Gi"})
        );
    }
    grown
        .claims
        .retain(|component, _| *component == Component::Qdrant);
    assert_eq!(
        after(None, &grown, 1).volumes,
        Some(VolumesStatus {
            vector: Some("4Gi".to_owned()),
            ..VolumesStatus::default()
        })
    );
    assert_eq!(after(None, &live(2), 1).volumes, None);
}

#[test]
fn a_paused_stack_says_so_and_still_tells_the_truth() {
    let stack = stored_stack(json!({"paused": true}));
    let status = status(&stack, Outcome::Paused(&minimal_stack(), &live(0)), &at(1));
    assert_eq!(find(&status, "Progressing").reason, "Paused");
    assert!(!is_ready(&status));
}

#[test]
fn only_what_changed_is_told_in_events() {
    let before = after(None, &live(0), 1);
    let now = after(Some(before.clone()), &live(2), 2);
    let changed: Vec<&str> = changes(Some(&before), &now)
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(changed, ["Ready", "Progressing", "AppReady"]);
    assert_eq!(
        find(&before, "Reconciling").status,
        "True",
        "it is no news of its own"
    );
    assert!(changes(Some(&now), &now).is_empty());
}

#[test]
fn the_scale_subresource_always_has_a_selector() {
    let expected = "app.kubernetes.io/component=worker,app.kubernetes.io/instance=acme,app.kubernetes.io/name=shortener";
    assert_eq!(
        after(None, &live(2), 1).workers,
        WorkersStatus {
            replicas: 0,
            selector: expected.to_owned(),
            desired_replicas: None,
        }
    );
}

#[test]
fn a_decided_number_of_workers_is_news_once_and_stays_while_nothing_is_written() {
    let status_of = |workers| ShortenerStackStatus {
        workers: WorkersStatus {
            desired_replicas: workers,
            ..WorkersStatus::default()
        },
        ..ShortenerStackStatus::default()
    };
    for (before, now, expected) in [
        (Some(1), Some(3), Some((1, 3))),
        (Some(3), Some(3), None),
        (None, Some(3), None),
        (Some(3), None, None),
    ] {
        let found = scaling(Some(&status_of(before)), &status_of(now));
        assert_eq!(found, expected, "{before:?} to {now:?}");
    }
    let mut stack = stored_stack(json!({}));
    stack.status = Some(status_of(Some(3)));
    let paused = status(&stack, Outcome::Paused(&minimal_stack(), &live(2)), &at(1));
    assert_eq!(paused.workers.desired_replicas, Some(3));
}

/// Compares a whole stack, as a GitOps tool reads it, with a golden file. `e2e/checks/kstatus.sh` passes these files
/// to kstatus.
fn read_by_kstatus(name: &str, stack: &ShortenerStack, status: ShortenerStackStatus) {
    let mut object = serde_json::to_value(stack).unwrap();
    object["status"] = serde_json::to_value(status).unwrap();
    golden(&format!("kstatus-{name}"), &object);
}

#[test]
fn a_stack_that_the_operator_has_not_seen_has_a_generation_of_its_own() {
    let crd = serde_json::to_value(ShortenerStack::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let status = schema["properties"]["status"]["default"].clone();
    assert_eq!(status, json!({"observedGeneration": -1}));
    let mut created = serde_json::to_value(stored_stack(json!({}))).unwrap();
    created["status"] = status;
    golden("kstatus-created", &created);
    serde_json::from_value::<ShortenerStack>(created).unwrap();
}

#[test]
fn the_life_of_a_stack_as_gitops_tools_read_it() {
    let stack = stored_stack(json!({}));
    read_by_kstatus("starting", &stack, after(None, &live(1), 1));
    read_by_kstatus("ready", &stack, after(None, &live(2), 1));
    let mut rolling = live(2);
    if let Some(app) = rolling.workloads.get_mut(&Component::App) {
        app.updated = 1;
    }
    let rolling = after(None, &rolling, 1);
    assert_eq!(find(&rolling, "Ready").status, "True");
    assert_eq!(find(&rolling, "Reconciling").status, "True");
    read_by_kstatus("rolling-out", &stack, rolling);
    let mut broken = live(0);
    if let Some(app) = broken.workloads.get_mut(&Component::App) {
        app.failure = Some("exceeded quota: pods".to_owned());
    }
    read_by_kstatus("failing", &stack, after(None, &broken, 1));
    // The old pods serve while the new ones cannot be created.
    let mut stuck = live(2);
    if let Some(app) = stuck.workloads.get_mut(&Component::App) {
        app.updated = 0;
        app.failure = Some("exceeded quota: pods".to_owned());
    }
    let stuck = after(None, &stuck, 1);
    assert!(is_ready(&stuck));
    assert_eq!(find(&stuck, "Degraded").status, "True");
    read_by_kstatus("stuck", &stack, stuck);
    let mut edited = stack.clone();
    edited.metadata.generation = Some(2);
    read_by_kstatus("edited", &edited, after(None, &live(2), 1));
    let mut deleted = stack.clone();
    deleted.metadata.deletion_timestamp = Some(at(2));
    read_by_kstatus("deleted", &deleted, after(None, &live(2), 1));
    let paused = stored_stack(json!({"paused": true}));
    let paused_status = status(&paused, Outcome::Paused(&minimal_stack(), &live(2)), &at(1));
    read_by_kstatus("paused", &paused, paused_status);
}

/// Returns the status of a stack whose database is held.
fn with_held_database(error: &ValidateError, live: &Live) -> ShortenerStackStatus {
    let mut validated = minimal_stack();
    validated.database = None;
    validated
        .held
        .insert(Component::Postgres, StepFailure::from(error));
    let stack = stored_stack(json!({}));
    status(&stack, Outcome::Applied(&validated, live), &at(1))
}

fn version_refused() -> ValidateError {
    ValidateError::VersionRefused {
        field: "database.managed.image",
        wanted: "postgres:19".to_owned(),
        claim: "acme-postgres".to_owned(),
        data: "PostgreSQL 18".to_owned(),
        remedy: "set an image of PostgreSQL 18".to_owned(),
    }
}

#[test]
fn a_held_database_that_runs_is_named_and_the_stack_serves_on() {
    let status = with_held_database(&version_refused(), &live(2));
    assert!(is_ready(&status));
    for type_ in ["DatabaseReady", "Degraded"] {
        let named = find(&status, type_);
        assert_eq!(
            (named.status.as_str(), named.reason.as_str()),
            ("True", "VersionRefused"),
            "{type_}"
        );
    }
    assert_eq!(find(&status, "AppReady").reason, "PodsReady");
    // The app of a new stack waits for the database.
    let mut new = live(0);
    new.workloads.remove(&Component::App);
    let status = with_held_database(&version_refused(), &new);
    assert!(!is_ready(&status));
    assert_eq!(find(&status, "AppReady").reason, "VersionRefused");
    assert_eq!(find(&status, "GatewayReady").reason, "PodsReady");
}

#[test]
fn an_optional_part_that_is_held_is_named_even_if_nothing_of_it_exists() {
    let mut validated = minimal_stack().caching();
    validated.cache = None;
    let error = ValidateError::SecretNotFound {
        field: "cache",
        secret: "redis".to_owned(),
        key: "url".to_owned(),
    };
    validated
        .held
        .insert(Component::Cache, StepFailure::from(&error));
    let stack = stored_stack(json!({"profiles": ["caching"]}));
    let status_of =
        |validated: &ValidatedStack| status(&stack, Outcome::Applied(validated, &live(2)), &at(1));
    let status = status_of(&validated);
    assert!(is_ready(&status));
    assert_eq!(status.profiles, ["caching"]);
    let cache = find(&status, "CacheReady");
    assert_eq!(
        (cache.status.as_str(), cache.reason.as_str()),
        ("False", "SecretNotFound")
    );
    assert_eq!(find(&status, "Degraded").message, error.to_string());
    validated
        .kept_templates
        .insert(Component::App, PodTemplateSpec::default());
    let kept = status_of(&validated);
    let message = &find(&kept, "CacheReady").message;
    assert!(message.starts_with(&error.to_string()), "{message}");
    assert!(message.contains("pod templates"), "{message}");
    assert_eq!(find(&status, "Reconciling").status, "True");
}

#[test]
fn what_a_release_would_restart_is_listed_and_stays_listed_after_a_failure() {
    let mut validated = minimal_stack();
    validated.pending = vec![PendingChange {
        workload: "Deployment/acme-app".to_owned(),
        fields: vec!["spec.containers[app].image".to_owned()],
    }];
    let mut stack = stored_stack(json!({"upgradePolicy": "OnSpecChange"}));
    let told = status(&stack, Outcome::Applied(&validated, &live(2)), &at(1));
    assert!(is_ready(&told));
    assert_eq!(told.pending_changes, validated.pending);
    let progressing = find(&told, "Progressing");
    assert_eq!(
        (progressing.status.as_str(), progressing.reason.as_str()),
        ("False", "ChangesPending")
    );
    let mut conditions = told.conditions.iter();
    assert!(conditions.all(|condition| condition.type_ != "Reconciling"));
    stack.status = Some(told);
    let failure = StepFailure {
        reason: "ReadFailed",
        message: "no answer".to_owned(),
        needs_an_edit: false,
        waits: false,
    };
    let failed = status(&stack, Outcome::Failed(failure, &live(2)), &at(2));
    assert_eq!(failed.pending_changes, validated.pending);
    let released = status(&stack, Outcome::Applied(&minimal_stack(), &live(2)), &at(3));
    assert_eq!(released.pending_changes, []);
}

#[test]
fn only_what_an_edit_repairs_is_given_up_by_gitops_tools() {
    let stack = stored_stack(json!({}));
    let stalled = |status: &ShortenerStackStatus| {
        let mut conditions = status.conditions.iter();
        conditions.any(|condition| condition.type_ == "Stalled")
    };
    let missing = ValidateError::SecretNotFound {
        field: "database",
        secret: "db".to_owned(),
        key: "uri".to_owned(),
    };
    let mut new = live(0);
    new.workloads
        .retain(|component, _| *component == Component::Gateway);
    let absent = with_held_database(&missing, &new);
    assert!(!stalled(&absent));
    read_by_kstatus("secret-missing", &stack, absent);
    let refused = with_held_database(&version_refused(), &live(2));
    assert_eq!(find(&refused, "Stalled").status, "True");
    read_by_kstatus("refused", &stack, refused.clone());
    let identity = StackIdentity::of(&stack).unwrap();
    let nothing = (&ShortenerStackStatus::default(), &Live::default());
    let unread = unreadable("unknown variant", &identity, Some(1), nothing, &at(1));
    read_by_kstatus("invalid", &stack, unread);
    // The condition `Stalled` disappears with the error.
    let next = after(Some(refused), &live(2), 2);
    assert!(!stalled(&next));
}

#[test]
fn a_stack_that_does_not_parse_keeps_the_rest_of_its_status() {
    let stack = stored_stack(json!({}));
    let identity = StackIdentity::of(&stack).unwrap();
    let before = ShortenerStackStatus {
        volumes: Some(VolumesStatus {
            database: Some("5Gi".to_owned()),
            ..VolumesStatus::default()
        }),
        ..after(None, &live(2), 1)
    };
    assert!(is_ready(&before));
    let unread =
        |live: &Live| unreadable("spec.x: bad", &identity, Some(2), (&before, live), &at(2));
    let found = unread(&live(2));
    assert!(is_ready(&found), "its pods serve");
    assert_eq!(find(&found, "Degraded").reason, "InvalidSpec");
    assert_eq!(find(&found, "Stalled").status, "True");
    assert_eq!(
        find(&found, "DatabaseReady"),
        find(&before, "DatabaseReady")
    );
    assert_eq!(found.observed_generation, Some(2));
    let kept = |status: &ShortenerStackStatus| {
        (
            status.url.clone(),
            status.profiles.clone(),
            status.volumes.clone(),
            status.workers.selector.clone(),
            status.app.clone(),
        )
    };
    assert_eq!(kept(&found), kept(&before));
    assert_eq!(
        unreadable(
            "spec.x: bad",
            &identity,
            Some(2),
            (&found, &live(2)),
            &at(3)
        ),
        found
    );
    let away = unread(&Live::default());
    assert!(!is_ready(&away) && away.app.ready_replicas == 0);
}

/// Returns the status of a stack with an end-to-end probe, after an end-to-end probe with this trace and fault.
fn after_end_to_end(
    previous: Option<ShortenerStackStatus>,
    trace: Option<&str>,
    failed: Option<(Step, Fault)>,
    now: i64,
) -> ShortenerStackStatus {
    let mut live = live(2);
    live.end_to_end = trace.map(|trace| EndToEndResult {
        trace: trace.to_owned(),
        milliseconds: 12,
        failed,
    });
    let mut validated = minimal_stack();
    validated.gateway.end_to_end = Some(EndToEnd {
        interval: std::time::Duration::from_secs(300),
        probe_url: None,
        probe_hosts: vec!["*".to_owned()],
        key: None,
    });
    let mut stack = stored_stack(json!({}));
    stack.status = previous;
    status(&stack, Outcome::Applied(&validated, &live), &at(now))
}

#[test]
fn a_measured_condition_changes_when_its_result_flips_and_at_no_other_time() {
    let first = after_end_to_end(None, Some("1111"), None, 1);
    assert_eq!(find(&first, END_TO_END).reason, "Passed");
    // Another end-to-end probe, and an operator that has just started and knows of none.
    for trace in [Some("2222"), None] {
        assert_eq!(after_end_to_end(Some(first.clone()), trace, None, 2), first);
    }
    let fault = Some((Step::Shorten, Fault::Status(503)));
    let failed = after_end_to_end(Some(first), Some("3333"), fault, 3);
    let condition = find(&failed, END_TO_END);
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("3333"), "{}", condition.message);
    assert_eq!(condition.last_transition_time, at(3));
    assert!(is_ready(&failed), "it takes no readiness");
    assert_eq!(find(&failed, DEGRADED).status, "False");
}

#[test]
fn a_measured_condition_is_absent_until_it_is_known_and_goes_with_its_subject() {
    let types = |status: &ShortenerStackStatus| {
        let conditions = status.conditions.iter();
        let types = conditions.map(|condition| condition.type_.clone());
        types
            .filter(|type_| [SOLE_ENTRY, END_TO_END].contains(&type_.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&after_end_to_end(None, None, None, 1)), [""; 0]);
    let passed = after_end_to_end(None, Some("1111"), None, 1);
    assert_eq!(types(&passed), [END_TO_END]);
    assert_eq!(types(&after(Some(passed), &live(2), 2)), [""; 0]);

    let mut live = live(2);
    live.entry_points = Some(vec![]);
    live.enforcement = Some(Enforcement::Enforced);
    let enforced = after(None, &live, 1);
    assert_eq!(types(&enforced), [SOLE_ENTRY]);
    let mut stack = stored_stack(json!({}));
    stack.status = Some(enforced);
    let stopped = minimal_stack().stopped();
    let stopped = status(&stack, Outcome::Applied(&stopped, &live), &at(2));
    assert_eq!(types(&stopped), [""; 0]);
}
