//! Tests of the ShortLinks of a running stack, in virtual time.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_operator_core::{
    api::{SHORT_LINK_FINALIZER, ShortLink, ShortenerStack},
    model::metadata::{Component, labels},
};

use crate::testing::{
    api_server::{Effect, FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

const APPLY: &str = "/links/apply";
const RELEASE: &str = "/links/release";
const MINUTE: Duration = Duration::from_secs(60);

fn link_in(namespace: &str, name: &str, spec: Value) -> ShortLink {
    let mut link = json!({
        "apiVersion": "shortener.dev/v1alpha1",
        "kind": "ShortLink",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"stackRef": {"name": "acme", "namespace": NAMESPACE}, "code": name, "url": "https://example.com/a"},
    });
    let fields = spec.as_object().unwrap();
    link["spec"].as_object_mut().unwrap().extend(fields.clone());
    serde_json::from_value(link).unwrap()
}

fn link(name: &str, spec: Value) -> ShortLink {
    link_in(NAMESPACE, name, spec)
}

fn create_pod(server: &FakeApiServer) {
    let pod = json!({
        "metadata": {"name": "acme-app-0", "namespace": NAMESPACE, "labels": labels("acme", Component::App)},
        "status": {"podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    server.create(&serde_json::from_value::<Pod>(pod).unwrap());
}

/// Starts a stack whose app has a ready pod, in a cluster that serves ShortLinks.
async fn running(spec: Value) -> World {
    let server = FakeApiServer::default();
    server.add_kind::<ShortLink>();
    server.create(&stored_stack(spec));
    create_pod(&server);
    let world = World::start(server);
    world.settle().await;
    world.server.forget_writes();
    world
}

/// Starts a stack that has the link `a`.
async fn with_link(spec: Value) -> World {
    let world = running(json!({})).await;
    world.server.create(&link("a", spec));
    world.settle().await;
    assert_eq!(state(&world, "a"), is("True", "Serving"));
    world.server.forget_writes();
    world.management.asked();
    world
}

fn get(world: &World, name: &str) -> Option<ShortLink> {
    world.server.get(NAMESPACE, name)
}

fn ready_in(world: &World, namespace: &str, name: &str) -> Condition {
    let link: ShortLink = world.server.get(namespace, name).unwrap();
    let conditions = link.status.unwrap_or_default().conditions;
    conditions
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("{name} has no status"))
}

/// Returns status and reason of the condition.
fn state(world: &World, name: &str) -> (String, String) {
    let ready = ready_in(world, NAMESPACE, name);
    (ready.status, ready.reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn is_held(world: &World, name: &str) -> bool {
    let link = get(world, name).unwrap();
    link.finalizers()
        .iter()
        .any(|held| held == SHORT_LINK_FINALIZER)
}

/// Deletes a link of which a finalizer is left, with a deletion so many minutes ago. The fake server's own clock gives every
/// change a time in the past.
fn delete_since(world: &World, name: &str, minutes: i64) {
    world.server.delete::<ShortLink>(NAMESPACE, name);
    world.server.reshape::<ShortLink>(NAMESPACE, name, |link| {
        let since = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
        link["metadata"]["deletionTimestamp"] = since.to_string().into();
    });
}

/// Returns the paths of the writes to ShortLinks.
fn writes(world: &World) -> Vec<String> {
    let writes = world.server.writes().into_iter();
    let paths = writes.map(|write| write.path);
    paths.filter(|path| path.contains("/shortlinks/")).collect()
}

fn paths(world: &World) -> Vec<String> {
    world
        .management
        .asked()
        .into_iter()
        .map(|(path, _)| path)
        .collect()
}

fn left(world: &World) -> bool {
    let events = world.server.writes().into_iter();
    let mut created = events.filter(|write| write.effect == Some(Effect::Created));
    created.any(|write| write.path.contains("/events"))
}

#[tokio::test(start_paused = true)]
async fn a_link_is_claimed_then_held_then_told_and_nothing_is_written_afterwards() {
    let world = running(json!({})).await;
    world
        .server
        .create(&link("a", json!({"title": "A", "tags": ["x"]})));
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(state(&world, "a"), is("True", "Serving"));
    let status = get(&world, "a").unwrap().status.unwrap();
    assert_eq!(
        status.short_url.as_deref(),
        Some("https://go.example.com/a")
    );
    assert_eq!(status.observed_generation, Some(1));
    assert!(is_held(&world, "a"));
    let link = "/apis/shortener.dev/v1alpha1/namespaces/links/shortlinks/a";
    assert_eq!(writes(&world), [link.to_owned(), format!("{link}/status")]);
    let row = world.management.row("a").unwrap();
    assert_eq!((&row["title"], &row["tags"]), (&json!("A"), &json!(["x"])));
    let series = "shortener_stack_short_links{namespace=\"links\",ready=\"True\",stack=\"acme\"} 1";
    assert!(world.metrics().contains(series), "{}", world.metrics());

    world.server.forget_writes();
    world.management.asked();
    world.pass(20 * MINUTE).await;
    let asked = world.management.asked();
    assert!((4..=6).contains(&asked.len()), "{asked:?}");
    let world = world.restart().await;
    world.pass(10 * MINUTE).await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_followed_at_once_and_what_others_change_within_five_minutes() {
    let world = with_link(json!({})).await;
    world.server.edit::<ShortLink>(NAMESPACE, "a", |link| {
        link["spec"]["enabled"] = false.into()
    });
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(state(&world, "a"), is("True", "LinkDisabled"));
    assert_eq!(world.management.row("a").unwrap()["enabled"], false);

    world.server.forget_writes();
    world
        .management
        .edit("a", |row| row["enabled"] = true.into());
    world.pass(6 * MINUTE).await;
    assert_eq!(world.management.row("a").unwrap()["enabled"], false);
    assert_eq!(writes(&world), [] as [String; 0]);
    world
        .management
        .edit("a", |row| row["expired"] = true.into());
    world.pass(6 * MINUTE).await;
    assert_eq!(state(&world, "a"), is("False", "LinkExpired"));
    assert_eq!(get(&world, "a").unwrap().status.unwrap().short_url, None);
}

#[tokio::test(start_paused = true)]
async fn the_second_link_of_a_code_has_no_finalizer_and_deletes_nothing() {
    let world = with_link(json!({"deletionPolicy": "Retain"})).await;
    let same = json!({"code": "a", "adopt": "IfSame"});
    world.server.create(&link("b", same));
    world.settle().await;
    assert_eq!(state(&world, "b"), is("False", "CodeTaken"));
    let message = ready_in(&world, NAMESPACE, "b").message;
    assert!(message.contains("ShortLink links/a"), "{message}");
    assert!(!is_held(&world, "b"));

    world.server.create(&link("c", json!({"code": "a"})));
    world.settle().await;
    world.management.asked();
    world.server.delete::<ShortLink>(NAMESPACE, "c");
    world.pass(Duration::from_secs(1)).await;
    assert!(get(&world, "c").is_none());
    assert_eq!(paths(&world), [] as [String; 0]);
    // The code is free as soon as the first one is gone.
    world.server.delete::<ShortLink>(NAMESPACE, "a");
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(state(&world, "b"), is("True", "Serving"));
    assert!(is_held(&world, "b") && get(&world, "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_the_app_refuses_is_told_with_the_remedy() {
    let world = running(json!({})).await;
    world.management.edit("b", |row| {
        *row = json!({"url": "https://other.example", "owner": null})
    });
    world
        .management
        .edit("c", |row| *row = json!({"deleted": true, "owner": null}));
    for (name, spec, reason, remedy) in [
        (
            "a",
            json!({"url": "https://refused"}),
            "InvalidLink",
            "url must not be refused",
        ),
        ("b", json!({}), "CodeTaken", "adopt: IfSame"),
        ("c", json!({}), "LinkDeleted", "another code"),
    ] {
        world.server.create(&link(name, spec));
        world.settle().await;
        assert_eq!(state(&world, name), is("False", reason));
        let message = ready_in(&world, NAMESPACE, name).message;
        assert!(message.contains(remedy), "{message}");
        assert!(!is_held(&world, name));
    }
}

#[tokio::test(start_paused = true)]
async fn an_app_that_is_down_is_told_of_by_new_links_and_others_keep_what_is_known() {
    let world = with_link(json!({})).await;
    world.management.fail(Some(StatusCode::SERVICE_UNAVAILABLE));
    world.server.create(&link("b", json!({})));
    world.pass(Duration::from_secs(15)).await;
    assert_eq!(state(&world, "b"), is("Unknown", "StackNotReachable"));
    let message = ready_in(&world, NAMESPACE, "b").message;
    assert!(message.contains("answers 503"), "{message}");
    world.server.forget_writes();
    world.management.fall_silent(true);
    world.pass(30 * MINUTE).await;
    assert_eq!(writes(&world), [] as [String; 0]);
    assert_eq!(state(&world, "a"), is("True", "Serving"));

    world.management.fail(None);
    world.management.fall_silent(false);
    world.pass(2 * MINUTE).await;
    for name in ["a", "b"] {
        assert_eq!(state(&world, name), is("True", "Serving"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_app_changes_no_status() {
    let world = with_link(json!({})).await;
    world.server.delete::<Pod>(NAMESPACE, "acme-app-0");
    world.pass(Duration::from_secs(30)).await;
    create_pod(&world.server);
    world.pass(10 * MINUTE).await;
    assert_eq!(writes(&world), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_link_is_released_by_its_policy() {
    for (policy, field, expected) in [
        ("Disable", "enabled", json!(false)),
        ("Delete", "deleted", json!(true)),
        ("Retain", "enabled", json!(true)),
    ] {
        let world = with_link(json!({"deletionPolicy": policy})).await;
        world.server.delete::<ShortLink>(NAMESPACE, "a");
        world.pass(Duration::from_secs(1)).await;
        assert!(get(&world, "a").is_none());
        let row = world.management.row("a").unwrap();
        assert_eq!(
            (&row["owner"], &row[field]),
            (&Value::Null, &expected),
            "{policy}"
        );
        assert!(!left(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_link_of_a_stack_that_is_gone_or_going_ends_at_once() {
    let gone: fn(&World) = |world| world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    let going: fn(&World) = |world| {
        world
            .server
            .edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
                stack["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
            });
        world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    };
    for end in [gone, going] {
        let world = with_link(json!({})).await;
        end(&world);
        world.settle().await;
        world.server.delete::<ShortLink>(NAMESPACE, "a");
        world.pass(Duration::from_secs(1)).await;
        assert!(get(&world, "a").is_none());
        assert_eq!(paths(&world), [] as [String; 0]);
        assert!(!world.metrics().contains("shortener_stack_short_links{"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_link_whose_stack_cannot_be_reached_ends_after_five_minutes_with_an_event() {
    let stopped: fn(&World) = |world| {
        world.edit_spec("acme", |spec| spec["stopped"] = true.into());
    };
    let down: fn(&World) = |world| world.management.fail(Some(StatusCode::SERVICE_UNAVAILABLE));
    let silent: fn(&World) = |world| world.management.fall_silent(true);
    let foreign: fn(&World) = |world| {
        world.edit_spec("acme", |spec| {
            spec["paused"] = true.into();
            spec["operatorClass"] = "other".into();
        });
    };
    for (place, (end, patience)) in [(stopped, 5), (down, 5), (silent, 5), (foreign, 60)]
        .into_iter()
        .enumerate()
    {
        let world = with_link(json!({})).await;
        end(&world);
        world.settle().await;
        world.server.forget_writes();
        delete_since(&world, "a", 0);
        world.pass(3 * MINUTE).await;
        assert!(get(&world, "a").is_some(), "{place}");
        delete_since(&world, "a", patience + 1);
        world.pass(4 * MINUTE).await;
        assert!(get(&world, "a").is_none(), "{place}");
        assert!(left(&world), "{place}");
        // It is released when the app answers again, unless the stack has another operator.
        world.edit_spec("acme", |spec| spec["stopped"] = false.into());
        world.management.fail(None);
        world.management.fall_silent(false);
        world.pass(2 * MINUTE).await;
        let owner = &world.management.row("a").unwrap()["owner"];
        assert_eq!(owner.is_null(), patience == 5, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn links_that_are_left_later_are_named_in_another_event() {
    let world = with_link(json!({})).await;
    world.server.create(&link("b", json!({})));
    world.settle().await;
    let down = Some(StatusCode::SERVICE_UNAVAILABLE);
    world.management.fail(down);
    for name in ["a", "b"] {
        world.server.delete::<ShortLink>(NAMESPACE, name);
        world.pass(7 * MINUTE).await;
        assert!(get(&world, name).is_none());
    }
    let mut events = world.events();
    events.retain(|event| event.reason.as_deref() == Some("ShortLinkLeft"));
    let notes: Vec<_> = events.into_iter().filter_map(|event| event.note).collect();
    for code in ["a", "b"] {
        let named = format!("stay as they were: {code}.");
        let tells = notes.iter().any(|note| note.contains(&named));
        assert!(tells, "{code}: {notes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_leaves_the_links_of_stacks_in_other_namespaces_alone() {
    let server = FakeApiServer::default();
    server.add_kind::<ShortLink>();
    let elsewhere = json!({"stackRef": {"name": "acme", "namespace": "elsewhere"}});
    let mut theirs = link("theirs", elsewhere.clone());
    theirs.metadata.finalizers = Some(vec![SHORT_LINK_FINALIZER.to_owned()]);
    theirs.status = serde_json::from_value(json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Serving", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}))
    .unwrap();
    server.create(&theirs);
    server.create(&link("new", elsewhere));
    let world = World::start_in(Some(NAMESPACE), server);
    world.pass(MINUTE).await;
    assert_eq!(state(&world, "theirs"), is("True", "Serving"));
    assert_eq!(state(&world, "new"), is("False", "StackNotFound"));
    let message = ready_in(&world, NAMESPACE, "new").message;
    assert!(message.contains("watchNamespaces"), "{message}");
    world.server.delete::<ShortLink>(NAMESPACE, "theirs");
    world
        .server
        .reshape::<ShortLink>(NAMESPACE, "theirs", |link| {
            link["metadata"]["deletionTimestamp"] = jiff::Timestamp::now().to_string().into();
        });
    world.pass(10 * MINUTE).await;
    assert!(is_held(&world, "theirs"));
}

#[tokio::test(start_paused = true)]
async fn a_link_with_values_that_are_unknown_here_is_refused_and_its_deletion_ends() {
    let world = with_link(json!({})).await;
    world.server.reshape::<ShortLink>(NAMESPACE, "a", |link| {
        link["spec"]["expiresAt"] = "9999-12-31T23:59:59Z".into();
        link["spec"]["deletionPolicy"] = "Newer".into();
    });
    world.pass(MINUTE).await;
    world.server.delete::<ShortLink>(NAMESPACE, "a");
    world.pass(Duration::from_secs(5)).await;
    assert!(get(&world, "a").is_none());
    assert_eq!(world.management.row("a").unwrap()["enabled"], false);
}

#[tokio::test(start_paused = true)]
async fn a_link_of_a_stopped_stack_that_starts_in_time_is_released() {
    let world = with_link(json!({})).await;
    world.edit_spec("acme", |spec| spec["stopped"] = true.into());
    world.settle().await;
    world.server.delete::<ShortLink>(NAMESPACE, "a");
    world.settle().await;
    assert!(get(&world, "a").is_some());
    world.edit_spec("acme", |spec| spec["stopped"] = false.into());
    world.pass(Duration::from_secs(5)).await;
    assert!(get(&world, "a").is_none());
    assert_eq!(world.management.row("a").unwrap()["owner"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_link_deleted_between_the_claim_and_the_finalizer_is_released() {
    let world = running(json!({})).await;
    let server = world.server.clone();
    world
        .management
        .after_apply(move || server.delete::<ShortLink>(NAMESPACE, "a"));
    world.server.create(&link("a", json!({})));
    world.pass(Duration::from_secs(2)).await;
    assert!(get(&world, "a").is_none());
    assert_eq!(paths(&world), [APPLY, RELEASE]);
    let row = world.management.row("a").unwrap();
    assert_eq!(
        (&row["owner"], &row["enabled"]),
        (&Value::Null, &json!(false))
    );
}

#[tokio::test(start_paused = true)]
async fn a_link_that_was_claimed_without_an_answer_is_released_if_it_is_deleted() {
    let world = running(json!({})).await;
    let lost = StatusCode::SERVICE_UNAVAILABLE;
    world.management.fail_after_apply(Some(lost));
    world.server.create(&link("a", json!({})));
    world.settle().await;
    assert!(!is_held(&world, "a"));
    assert!(world.management.row("a").is_some());
    world.server.delete::<ShortLink>(NAMESPACE, "a");
    world.management.fail_after_apply(None);
    world.pass(MINUTE).await;
    let row = world.management.row("a").unwrap();
    assert_eq!(
        (&row["owner"], &row["enabled"]),
        (&Value::Null, &json!(false))
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_link_ends_after_five_minutes_although_others_can_be_read() {
    let world = with_link(json!({})).await;
    world.server.create(&link("b", json!({})));
    world.settle().await;
    let refused = StatusCode::SERVICE_UNAVAILABLE;
    world.management.fail_releases(Some(refused));
    delete_since(&world, "a", 0);
    world.pass(3 * MINUTE).await;
    assert!(get(&world, "a").is_some());
    delete_since(&world, "a", 6);
    world.pass(4 * MINUTE).await;
    assert!(get(&world, "a").is_none());
    assert!(left(&world));
    assert_eq!(state(&world, "b"), is("True", "Serving"));
    world.management.fail_releases(None);
    world.pass(2 * MINUTE).await;
    assert_eq!(world.management.row("a").unwrap()["owner"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_link_ends_although_the_namespace_of_its_stack_cannot_be_listed() {
    let server = FakeApiServer::default();
    server.add_kind::<ShortLink>();
    let mut left = link_in("team", "a", json!({}));
    left.metadata.finalizers = Some(vec![SHORT_LINK_FINALIZER.to_owned()]);
    server.create(&left);
    server.fail_reads::<ShortenerStack>(Some(Fault::Refuse(403)));
    server.delete::<ShortLink>("team", "a");
    server.reshape::<ShortLink>("team", "a", |link| {
        let ago = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(6);
        link["metadata"]["deletionTimestamp"] = ago.to_string().into();
    });
    let world = World::start(server);
    world.pass(3 * MINUTE).await;
    assert!(world.server.get::<ShortLink>("team", "a").is_some());
    world.pass(4 * MINUTE).await;
    assert!(world.server.get::<ShortLink>("team", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn another_pod_of_the_app_may_have_another_database_so_every_link_is_compared() {
    let world = with_link(json!({})).await;
    world
        .management
        .edit("a", |row| row["enabled"] = false.into());
    world.server.edit::<Pod>(NAMESPACE, "acme-app-0", |pod| {
        pod["status"]["podIP"] = "10.1.0.2".into();
    });
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.management.row("a").unwrap()["enabled"], true);
}

#[tokio::test(start_paused = true)]
async fn a_link_whose_finalizer_was_refused_is_retried_and_released_if_it_is_deleted() {
    let world = running(json!({})).await;
    world
        .server
        .fail_kind::<ShortLink>(Some(Fault::Refuse(500)));
    world.server.create(&link("a", json!({})));
    world.server.create(&link("b", json!({})));
    world.settle().await;
    assert!(!is_held(&world, "a"));
    world.server.delete::<ShortLink>(NAMESPACE, "a");
    world.server.fail_kind::<ShortLink>(None);
    world.pass(2 * MINUTE).await;
    assert_eq!(world.management.row("a").unwrap()["owner"], Value::Null);
    assert_eq!(state(&world, "b"), is("True", "Serving"));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_does_not_exist_is_told_until_it_does() {
    let server = FakeApiServer::default();
    server.add_kind::<ShortLink>();
    server.create(&link("a", json!({})));
    let world = World::start(server);
    world.settle().await;
    assert_eq!(state(&world, "a"), is("False", "StackNotFound"));
    world.server.create(&stored_stack(json!({})));
    create_pod(&world.server);
    world.settle().await;
    assert_eq!(state(&world, "a"), is("True", "Serving"));
}

#[tokio::test(start_paused = true)]
async fn other_namespaces_have_links_only_as_the_stack_allows() {
    let world = running(json!({})).await;
    world.server.create(&link_in("team", "t-a", json!({})));
    world.server.create(&link_in("team", "b", json!({})));
    world.settle().await;
    let state = |name| ready_in(&world, "team", name).reason;
    assert_eq!(
        [state("t-a"), state("b")],
        ["NamespaceNotAllowed", "NamespaceNotAllowed"]
    );
    assert_eq!(paths(&world), [] as [String; 0]);
    world.edit_spec("acme", |spec| {
        let allowed = json!([{"name": "team", "codePrefixes": ["t-"]}]);
        spec["links"] = json!({"allowedNamespaces": allowed});
    });
    world.pass(Duration::from_secs(5)).await;
    assert_eq!([state("t-a"), state("b")], ["Serving", "CodeNotAllowed"]);
    let message = ready_in(&world, "team", "b").message;
    assert!(message.contains("t-"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn many_links_go_in_few_requests_deletions_first() {
    let world = with_link(json!({})).await;
    world.server.hold_watches();
    for number in 0..250 {
        world.server.create(&link(&format!("n{number}"), json!({})));
    }
    world.server.delete::<ShortLink>(NAMESPACE, "a");
    world.server.release_watches();
    world.settle().await;
    let asked = world.management.asked();
    let asked: Vec<(&str, usize)> = asked
        .iter()
        .map(|(path, codes)| (path.as_str(), codes.len()))
        .collect();
    assert_eq!(
        asked,
        [(RELEASE, 1), (APPLY, 100), (APPLY, 100), (APPLY, 50)]
    );
    // The finalizer and the status of each, and the finalizer of the deleted one.
    assert_eq!(writes(&world).len(), 501);
    world.server.forget_writes();
    world.pass(10 * MINUTE).await;
    assert_eq!(world.server.writes(), []);
}
