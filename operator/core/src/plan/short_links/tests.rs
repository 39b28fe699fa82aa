//! Tests of the decisions about one ShortLink.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::api::LinksSpec;

const GENERATION: i64 = 3;

fn now() -> Timestamp {
    "2026-11-29T12:00:00Z".parse().unwrap()
}

fn link(metadata: Value, spec: Value) -> ShortLink {
    let mut link = json!({
        "metadata": {"name": "promo", "namespace": "team", "uid": "1", "generation": GENERATION},
        "spec": {"stackRef": {"name": "acme", "namespace": "links"}, "code": "t-a", "url": "https://example.com"},
    });
    for (part, changes) in [("metadata", metadata), ("spec", spec)] {
        let changes = changes.as_object().unwrap().clone();
        link[part].as_object_mut().unwrap().extend(changes);
    }
    serde_json::from_value(link).unwrap()
}

/// Returns a ShortLink that is told.
fn told(status: &str, generation: i64) -> ShortLink {
    let ready = json!({
        "type": "Ready", "status": status, "reason": "Because", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut link = link(json!({}), json!({}));
    let status = json!({"conditions": [ready], "observedGeneration": generation, "shortURL": "https://go/t-a"});
    link.status = serde_json::from_value(status).unwrap();
    link
}

fn deleted(minutes: i64, finalizers: &[&str]) -> ShortLink {
    let at = now() - k8s_openapi::jiff::SignedDuration::from_mins(minutes);
    let metadata = json!({"deletionTimestamp": at.to_string(), "finalizers": finalizers});
    link(metadata, json!({}))
}

fn links() -> LinksSpec {
    let allowed = json!([{"name": "team", "codePrefixes": ["t-", "x"]}]);
    serde_json::from_value(json!({"allowedNamespaces": allowed})).unwrap()
}

fn unreachable(links: &LinksSpec, minutes: u64) -> StackState<'_> {
    StackState::Unreachable {
        links: Some(links),
        why: "it is stopped",
        since: Duration::from_secs(60 * minutes),
    }
}

fn reason(step: Step) -> &'static str {
    match step {
        Step::Report(verdict) => verdict.reason,
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_deleted_link_ends_whatever_the_state_of_its_stack_is() {
    let links = links();
    let held = [SHORT_LINK_FINALIZER];
    for (minutes, stack, expected) in [
        (0, StackState::Reachable(&links), Step::Release),
        (0, StackState::Missing, Step::Forget),
        (0, StackState::Deleted, Step::Forget),
        (59, StackState::Foreign, Step::Wait),
        (60, StackState::Foreign, Step::Leave),
        (59, StackState::Unwatched, Step::Wait),
        (60, StackState::Unwatched, Step::Leave),
        (4, unreachable(&links, 60), Step::Wait),
        (5, unreachable(&links, 60), Step::Leave),
        // The operator was away, or the app was there until now.
        (60, unreachable(&links, 4), Step::Wait),
        (60, unreachable(&links, 5), Step::Leave),
    ] {
        let found = step(&deleted(minutes, &held), stack, now());
        assert_eq!(found, expected, "{minutes} {stack:?}");
        let found = step(&deleted(minutes, &["other"]), stack, now());
        assert_eq!(found, Step::Rest, "nothing was claimed");
    }
}

#[test]
fn the_own_namespace_may_have_every_code_and_another_only_what_is_allowed() {
    let (some, none) = (links(), LinksSpec::default());
    let own = link(
        json!({"namespace": "links"}),
        json!({"stackRef": {"name": "acme"}}),
    );
    assert_eq!(step(&own, StackState::Reachable(&none), now()), Step::Apply);
    let allowed = link(json!({}), json!({}));
    assert_eq!(
        step(&allowed, StackState::Reachable(&some), now()),
        Step::Apply
    );
    let refused = |link: &ShortLink, links| reason(step(link, StackState::Reachable(links), now()));
    assert_eq!(refused(&allowed, &none), "NamespaceNotAllowed");
    let other = link(json!({}), json!({"code": "T-a"}));
    assert_eq!(refused(&other, &some), "CodeNotAllowed");
    // Both are known without the app.
    assert_eq!(
        reason(step(&other, unreachable(&some, 0), now())),
        "CodeNotAllowed"
    );
}

#[test]
fn what_is_known_of_a_link_stays_while_the_app_is_away() {
    let links = links();
    for (status, generation, expected) in [
        ("True", GENERATION, None),
        ("False", GENERATION, None),
        ("Unknown", GENERATION, None),
        ("True", GENERATION - 1, Some("StackNotReachable")),
        ("Unknown", GENERATION - 1, Some("StackNotReachable")),
    ] {
        let found = step(&told(status, generation), unreachable(&links, 60), now());
        match expected {
            None => assert_eq!(found, Step::Wait, "{status} {generation}"),
            Some(expected) => assert_eq!(reason(found), expected, "{status} {generation}"),
        }
    }
    let fresh = link(json!({}), json!({}));
    assert_eq!(step(&fresh, unreachable(&links, 0), now()), Step::Wait);
    let Step::Report(verdict) = step(&fresh, unreachable(&links, 1), now()) else {
        panic!("it is not told");
    };
    assert_eq!(verdict.ready, "Unknown");
    assert!(
        verdict
            .message
            .contains("links/acme cannot be reached: it is stopped")
    );
}

#[test]
fn a_link_without_a_stack_has_no_url_and_one_of_another_operator_is_left_alone() {
    let some = links();
    let of_reason = |reason: &str| {
        let mut link = told("True", GENERATION);
        link.status.as_mut().unwrap().conditions[0].reason = reason.to_owned();
        link
    };
    for (link, stack, expected) in [
        (
            of_reason("Serving"),
            StackState::Missing,
            Some("does not exist"),
        ),
        (
            of_reason("Serving"),
            StackState::Deleted,
            Some("is being deleted"),
        ),
        (of_reason("Serving"), StackState::Foreign, None),
        (of_reason("Serving"), StackState::Unwatched, None),
        (of_reason("StackNotFound"), StackState::Unwatched, None),
        (
            of_reason("StackNotFound"),
            unreachable(&some, 60),
            Some("cannot be reached"),
        ),
        (
            of_reason("CodeNotAllowed"),
            unreachable(&some, 60),
            Some("cannot be reached"),
        ),
        (
            link(json!({}), json!({})),
            StackState::Unwatched,
            Some("watchNamespaces"),
        ),
    ] {
        match (step(&link, stack, now()), expected) {
            (Step::Report(verdict), Some(expected)) => {
                let is_missing = verdict.reason == "StackNotFound";
                assert_eq!(verdict.short_url.is_none(), is_missing);
                assert!(verdict.message.contains(expected), "{}", verdict.message);
            }
            (found, _) => assert_eq!((found, expected), (Step::Rest, None)),
        }
    }
}

fn answer(fields: Value) -> AppliedLink {
    let body = json!({"results": [fields]}).to_string();
    read(body.as_bytes(), &["t-a"]).unwrap().remove(0)
}

#[test]
fn each_answer_has_a_reason() {
    for (result, ready, reason) in [
        ("created", "True", "Serving"),
        ("changed", "True", "Serving"),
        ("unchanged", "True", "Serving"),
        ("taken-down", "False", "TakenDown"),
        ("taken", "False", "CodeTaken"),
        ("expired", "False", "LinkExpired"),
        ("deleted", "False", "LinkDeleted"),
        ("invalid", "False", "InvalidLink"),
    ] {
        let answer = answer(json!({"code": "t-a", "result": result, "message": "because"}));
        let verdict = answered(&link(json!({}), json!({})), &answer, now());
        assert_eq!((verdict.ready, verdict.reason), (ready, reason));
        let explained = ["taken", "invalid"].contains(&result);
        assert_eq!(verdict.message.contains("because"), explained, "{result}");
    }
    let disabled = link(json!({}), json!({"enabled": false}));
    let kept = answer(json!({"code": "t-a", "result": "unchanged"}));
    assert_eq!(answered(&disabled, &kept, now()).reason, "LinkDisabled");
    // The end that was asked for.
    let over = json!({"expiresAt": "2026-11-29T12:00:00Z"});
    let ended = link(json!({"finalizers": [SHORT_LINK_FINALIZER]}), over.clone());
    let expired = answer(json!({"code": "t-a", "result": "expired"}));
    assert_eq!(answered(&ended, &expired, now()).ready, "True");
    let never = link(json!({}), over);
    assert_eq!(answered(&never, &expired, now()).ready, "False");
}

#[test]
fn a_status_is_written_only_if_it_says_something_else() {
    let link = told("True", GENERATION);
    let at = Time(now());
    let mut verdict = LinkVerdict {
        ready: "True",
        reason: "Because",
        message: String::new(),
        short_url: Some("https://go/t-a".to_owned()),
    };
    assert_eq!(status(&link, &verdict, &at), None);
    verdict.message = "else".to_owned();
    let since = |status: Option<crate::api::ShortLinkStatus>| {
        status.unwrap().conditions[0]
            .last_transition_time
            .0
            .to_string()
    };
    assert_eq!(since(status(&link, &verdict, &at)), "2026-01-01T00:00:00Z");
    verdict.ready = "False";
    assert_eq!(since(status(&link, &verdict, &at)), now().to_string());
    assert!(status(&told("True", GENERATION - 1), &verdict, &at).is_some());
}

#[test]
fn a_request_has_at_most_a_hundred_links_and_128_kibibytes() {
    let many = vec![link(json!({}), json!({})); 250];
    let (body, count) = batch(many.iter().map(LinkToApply::of)).unwrap();
    assert_eq!(count, MAX_LINKS);
    let parsed: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(parsed["links"].as_array().map(Vec::len), Some(count));
    let expected = json!({
        "code": "t-a", "url": "https://example.com", "title": null, "tags": [], "enabled": true, "expires_at": null,
        "adopt": "Never", "owner": {"uid": "1", "namespace": "team", "name": "promo"},
    });
    assert_eq!(parsed["links"][0], expected);

    let long = link(
        json!({}),
        json!({"url": format!("https://{}", "a".repeat(2000))}),
    );
    let (body, count) = batch(vec![LinkToApply::of(&long); 100]).unwrap();
    assert!((55..MAX_LINKS).contains(&count), "{count}");
    assert!(
        body.len() <= MAX_BODY && body.len() > MAX_BODY - 2300,
        "{}",
        body.len()
    );
    let (_, count) = batch(["a".repeat(MAX_BODY), String::new()]).unwrap();
    assert_eq!(count, 1);
    // What the app takes.
    use shortener_app::routes;
    assert_eq!(MAX_LINKS, routes::admin::links::MAX_LINKS);
    assert_eq!(MAX_BODY, routes::short_links::MAX_BODY);
}

#[test]
fn answers_about_other_links_are_not_believed() {
    let results = |codes: &[&str]| {
        let results = codes
            .iter()
            .map(|code| json!({"code": code, "result": "released"}));
        json!({"results": results.collect::<Vec<_>>()}).to_string()
    };
    let read = |body: String| read::<Released>(body.as_bytes(), &["a", "b"]);
    assert!(read(results(&["a", "b"])).is_some());
    for body in [
        results(&["b", "a"]),
        results(&["a"]),
        results(&["a", "b", "c"]),
        "{}".to_owned(),
    ] {
        assert_eq!(read(body.clone()), None, "{body}");
    }
}

#[test]
fn an_event_names_a_few_codes() {
    let codes: Vec<String> = (0..300).map(|number| format!("{number:064}")).collect();
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    let text = left(&codes);
    assert!(text.contains(" and 290 more."), "{text}");
    assert!(text.len() <= 1024, "{}", text.len());
    assert!(left(&codes[..1]).contains(&format!("{}. ", codes[0])));
}
