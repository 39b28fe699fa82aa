//! Tests of the verdict on a stack behind a Gateway, with the states that controllers were seen to leave.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    model::{
        live::{Live, Workload},
        metadata::Component,
        stack::Routing,
    },
    plan::conditions::gateway_ready,
    testing::stack::minimal_stack,
};

/// Generation of the route.
const GENERATION: i64 = 3;

fn condition(type_: &str, status: &str, reason: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "why",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Returns the entry of a route's status about the Gateway of the tests, or about another one.
fn entry(parent: Value, accepted: (&str, &str), resolved: (&str, &str), generation: i64) -> Value {
    json!({
        "controllerName": "example.com/controller",
        "parentRef": parent,
        // Controllers differ in the order of the conditions.
        "conditions": [
            condition("ResolvedRefs", resolved.0, resolved.1, generation),
            condition("Accepted", accepted.0, accepted.1, generation),
        ],
    })
}

const GOOD: ((&str, &str), (&str, &str)) = (("True", "Accepted"), ("True", "ResolvedRefs"));

/// Returns our reference as an API server completes it.
fn ours() -> Value {
    json!({"group": GROUP, "kind": GATEWAY, "namespace": "infra", "name": "public"})
}

fn good() -> Value {
    entry(ours(), GOOD.0, GOOD.1, GENERATION)
}

fn gateway(programmed: &str, certificates: Value) -> LiveGateway {
    let gateway = json!({
        "metadata": {"name": "public", "namespace": "infra", "generation": 7},
        "spec": {"listeners": [
            {"name": "http"},
            {"name": "https", "tls": {"certificateRefs": certificates}},
        ]},
        "status": {"conditions": [condition("Programmed", programmed, "Because", 7)]},
    });
    LiveGateway::Found(Arc::new(serde_json::from_value(gateway).unwrap()))
}

fn settled() -> Workload {
    Workload {
        wanted: 2,
        existing: 2,
        ready: 2,
        updated: 2,
        observed: true,
        failure: None,
        overdue: false,
    }
}

/// Returns the live state with a route of these entries.
fn live(entries: Value) -> Live {
    let route = json!({
        "metadata": {"name": "acme", "namespace": "links", "generation": GENERATION},
        "spec": {},
        "status": {"parents": entries},
    });
    Live {
        workloads: [(Component::Gateway, settled())].into(),
        http_routes: vec![Arc::new(serde_json::from_value(route).unwrap())],
        ..Live::default()
    }
}

fn attached(facts: LiveGateway) -> ValidatedStack {
    let mut stack = minimal_stack().gateway_api().host("go.test");
    if let Routing::GatewayApi { parents, .. } = &mut stack.gateway.routing {
        parents[0].live = facts;
    }
    stack
}

fn section(mut stack: ValidatedStack, name: &str) -> ValidatedStack {
    if let Routing::GatewayApi { parents, .. } = &mut stack.gateway.routing {
        parents[0].section = Some(name.to_owned());
    }
    stack
}

fn verdict(stack: &ValidatedStack, live: &Live) -> Verdict {
    gateway_ready(View { stack, live })
}

fn reason(stack: &ValidatedStack, live: &Live) -> &'static str {
    verdict(stack, live).reason
}

#[test]
fn a_stack_is_reached_when_its_gateway_is_programmed_and_its_route_is_accepted() {
    for facts in [gateway("True", json!([])), LiveGateway::Unknown] {
        let found = verdict(&attached(facts), &live(json!([good()])));
        assert!(found.holds && found.reason == "PodsReady", "{found:?}");
    }
}

#[test]
fn the_first_obstacle_of_several_is_named() {
    let mut stack = attached(LiveGateway::Missing);
    let mut nothing = Live::default();
    let taken = stack.clone().conflict("links/older");
    let found = verdict(&taken, &nothing);
    assert_eq!(found.reason, "HostConflict");
    assert!(found.message.contains("Gateway infra/public"), "{found:?}");

    stack.has_gateway_kinds = false;
    assert_eq!(reason(&stack, &nothing), "GatewayAPIMissing");
    assert!(verdict(&stack, &nothing).fault);
    stack.has_gateway_kinds = true;
    nothing.gateway_kinds_gone = true;
    assert_eq!(reason(&stack, &nothing), "GatewayAPIMissing");
    nothing.gateway_kinds_gone = false;

    stack = stack.tls("go-tls");
    stack.gateway.missing_certificate = Some("go-tls".to_owned());
    assert_eq!(reason(&stack, &nothing), "SecretNotFound");
    stack.gateway.missing_certificate = None;

    assert_eq!(reason(&stack, &nothing), "Pending");
    nothing.workloads = [(Component::Gateway, settled())].into();
    assert_eq!(reason(&stack, &nothing), "GatewayNotFound");
}

#[test]
fn a_gateway_that_takes_no_requests_is_named_whatever_its_route_says() {
    let accepted = live(json!([good()]));
    let table = [
        (LiveGateway::Missing, "GatewayNotFound", "infra/public"),
        (
            gateway("False", json!([])),
            "GatewayNotProgrammed",
            "Programmed: Because, why",
        ),
        (
            gateway("Unknown", json!([])),
            "GatewayNotProgrammed",
            "Programmed: Because, why",
        ),
        (
            LiveGateway::Found(Arc::new(Gateway::new("public", Default::default()))),
            "GatewayNotProgrammed",
            "it has no condition Programmed",
        ),
    ];
    for (facts, expected, part) in table {
        let found = verdict(&attached(facts), &accepted);
        assert_eq!(found.reason, expected);
        assert!(found.message.contains(part), "{found:?}");
        // Whoever owns the Gateway may be about to act.
        assert!(!found.holds && !found.fault, "{found:?}");
    }
}

#[test]
fn an_entry_counts_only_for_our_gateway_and_our_last_change() {
    let stack = attached(gateway("True", json!([])));
    let other = |changes: Value| {
        let mut parent = ours();
        let changed = parent.as_object_mut().unwrap();
        changed.extend(changes.as_object().unwrap().clone());
        entry(parent, GOOD.0, GOOD.1, GENERATION)
    };
    let stale = entry(ours(), GOOD.0, GOOD.1, GENERATION - 1);
    for entries in [
        json!([]),
        json!([stale]),
        json!([other(json!({"name": "earlier"}))]),
        json!([other(json!({"namespace": "links"}))]),
        json!([other(json!({"sectionName": "https"}))]),
        json!([other(json!({"kind": "Service", "group": ""}))]),
        json!([{"parentRef": ours(), "conditions": []}]),
    ] {
        assert_eq!(
            reason(&stack, &live(entries.clone())),
            "RoutePending",
            "{entries}"
        );
    }
    // The conditions of others may be older.
    let mut annotated = good();
    let others = annotated["conditions"].as_array_mut().unwrap();
    others.push(condition("example.com/Audited", "False", "Pending", 1));
    assert_eq!(reason(&stack, &live(json!([annotated]))), "PodsReady");
    // A controller that has not written at all.
    let mut unseen = live(json!([]));
    unseen.http_routes.clear();
    assert_eq!(reason(&stack, &unseen), "RoutePending");
    // Each route has to be served.
    let mut two = live(json!([good()]));
    two.http_routes.extend(live(json!([])).http_routes);
    assert_eq!(reason(&stack, &two), "RoutePending");
    // Entries of others beside ours change nothing, in any order.
    let refused = entry(
        json!({"name": "other"}),
        ("False", "NotAllowedByListeners"),
        GOOD.1,
        GENERATION,
    );
    for entries in [json!([refused, good()]), json!([good(), refused])] {
        assert_eq!(reason(&stack, &live(entries)), "PodsReady");
    }
}

#[test]
fn a_listener_that_is_named_has_an_entry_of_its_own() {
    let stack = section(attached(gateway("True", json!([]))), "https");
    assert_eq!(reason(&stack, &live(json!([good()]))), "RoutePending");
    let mut parent = ours();
    parent["sectionName"] = "https".into();
    let named = entry(parent, GOOD.0, GOOD.1, GENERATION);
    assert_eq!(reason(&stack, &live(json!([named]))), "PodsReady");
}

#[test]
fn a_gateway_of_the_same_namespace_may_be_named_without_it() {
    let mut stack = attached(LiveGateway::Unknown);
    if let Routing::GatewayApi { parents, .. } = &mut stack.gateway.routing {
        parents[0].namespace = "links".to_owned();
    }
    let short = entry(json!({"name": "public"}), GOOD.0, GOOD.1, GENERATION);
    assert_eq!(reason(&stack, &live(json!([short]))), "PodsReady");
}

#[test]
fn every_gateway_of_several_has_to_accept_the_route() {
    let mut stack = attached(gateway("True", json!([])));
    if let Routing::GatewayApi { parents, .. } = &mut stack.gateway.routing {
        let second = Parent {
            name: "internal".to_owned(),
            ..parents[0].clone()
        };
        parents.push(second);
    }
    let mut second = ours();
    second["name"] = "internal".into();
    let second = entry(second, GOOD.0, GOOD.1, GENERATION);
    assert_eq!(reason(&stack, &live(json!([good(), second]))), "PodsReady");
    let pending = verdict(&stack, &live(json!([good()])));
    assert_eq!(pending.reason, "RoutePending");
    assert!(
        pending.message.contains("infra/internal"),
        "{}",
        pending.message
    );
}

#[test]
fn a_route_that_is_refused_is_named_with_the_reason_of_the_controller() {
    let stack = attached(gateway("True", json!([])));
    for refused in [
        "NoMatchingParent",
        "NotAllowedByListeners",
        "RuleMatchConflict",
    ] {
        let entries = json!([entry(ours(), ("False", refused), GOOD.1, GENERATION)]);
        let found = verdict(&stack, &live(entries));
        assert_eq!(found.reason, "RouteNotAccepted");
        let part = format!("(Accepted: {refused}, why)");
        assert!(found.fault && found.message.contains(&part), "{found:?}");
    }
    let entries = json!([entry(
        ours(),
        GOOD.0,
        ("False", "BackendNotFound"),
        GENERATION
    )]);
    let found = verdict(&stack, &live(entries));
    assert_eq!(found.reason, "RouteRefsUnresolved");
    assert!(
        !found.fault && found.message.contains("BackendNotFound"),
        "{found:?}"
    );
}

#[test]
fn a_certificate_must_be_that_of_a_listener() {
    let secret = json!({"name": "go-tls", "namespace": "links"});
    let accepted = live(json!([good()]));
    for (certificates, expected) in [
        (json!([secret]), "PodsReady"),
        (json!([{"name": "other"}, secret]), "PodsReady"),
        (json!([]), "CertificateNotUsed"),
        // A Secret of that name in the namespace of the Gateway.
        (json!([{"name": "go-tls"}]), "CertificateNotUsed"),
        (
            json!([{"name": "go-tls", "namespace": "links", "kind": "ConfigMap"}]),
            "CertificateNotUsed",
        ),
    ] {
        let stack = attached(gateway("True", certificates.clone())).tls("go-tls");
        assert_eq!(reason(&stack, &accepted), expected, "{certificates}");
    }
    // Nothing is known about the listeners of a Gateway that is not watched.
    let unknown = attached(LiveGateway::Unknown).tls("go-tls");
    assert_eq!(reason(&unknown, &accepted), "PodsReady");

    // Only the listener that the stack names counts.
    let mut parent = ours();
    parent["sectionName"] = "http".into();
    let named = live(json!([entry(parent, GOOD.0, GOOD.1, GENERATION)]));
    let stack = attached(gateway("True", json!([secret]))).tls("go-tls");
    let found = verdict(&section(stack, "http"), &named);
    assert_eq!(found.reason, "CertificateNotUsed");
    let part = "listener http of Gateway infra/public does not name Secret links/go-tls";
    assert!(found.fault && found.message.contains(part), "{found:?}");
}
