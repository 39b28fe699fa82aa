//! Tests of what is tried with a stack: connections past its gateway, and an end-to-end probe through it.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret, Service},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::metadata::{Component, USABLE_BY_STACKS, labels},
};

use crate::testing::{
    api_server::Fault,
    world::{NAMESPACE, World},
};

const SHORTEN: &str = "POST /api/shorten";

/// Creates the ready pods of the app and of the database.
async fn create_pods(world: &World) {
    for (component, last) in [(Component::App, 1), (Component::Postgres, 2)] {
        let pod = json!({
            "metadata": {
                "name": format!("acme-{}-0", component.as_str()),
                "namespace": NAMESPACE,
                "labels": labels("acme", component),
            },
            "status": {
                "podIP": format!("10.1.0.{last}"),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        world.server.create(&pod);
    }
    world.settle().await;
}

/// Starts a stack with running pods.
async fn running(spec: Value) -> World {
    let world = World::with_stack(spec).await;
    create_pods(&world).await;
    world.server.forget_writes();
    world
}

/// Starts a stack whose gateway is tried.
async fn probed(end_to_end: Value) -> World {
    let gateway = json!({"provider": "Standalone", "endToEndProbe": end_to_end});
    running(json!({"gateway": gateway})).await
}

fn has(world: &World, type_: &str) -> bool {
    let status = world.stack("acme").status.unwrap_or_default();
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.type_ == type_)
}

fn create_door(world: &World, component: &str) {
    let door = json!({
        "metadata": {"name": "door", "namespace": NAMESPACE},
        "spec": {"type": "NodePort", "selector": {
            "app.kubernetes.io/instance": "acme",
            "app.kubernetes.io/component": component,
        }},
    });
    let door: Service = serde_json::from_value(door).unwrap();
    world.server.create(&door);
}

#[tokio::test(start_paused = true)]
async fn a_network_without_policies_is_told_once_and_so_is_one_that_enforces_them() {
    let world = running(json!({})).await;
    assert_eq!(world.verdict("SoleEntry"), "True GatewayOnly");
    let dialled = world.network.dialled();
    let forbidden = ["10.1.0.1:3000", "10.1.0.2:5432"].map(|address| address.parse().unwrap());
    assert!(forbidden.iter().all(|address| dialled.contains(address)));

    world.network.ignores_policies(true);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.verdict("SoleEntry"), "False NotEnforced");
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    let events = world.server.writes().into_iter();
    let mut events = events.filter(|write| write.path.contains("/events"));
    assert!(events.next().is_some(), "an Event tells it");
    let page = world.metrics();
    let series = "shortener_stack_network_policies_enforced{namespace=\"links\",stack=\"acme\"} 0";
    assert!(page.contains(series), "{page}");

    world.network.ignores_policies(false);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.verdict("SoleEntry"), "True GatewayOnly");
}

#[tokio::test(start_paused = true)]
async fn a_network_without_policies_is_exported_until_the_stack_allows_no_attempt() {
    let world = running(json!({})).await;
    world.network.ignores_policies(true);
    world.pass(Duration::from_secs(600)).await;
    let series = "shortener_stack_network_policies_enforced{namespace=\"links\",stack=\"acme\"}";
    assert!(world.metrics().contains(series));
    world.server.delete::<Pod>(NAMESPACE, "acme-app-0");
    world.settle().await;
    assert!(world.metrics().contains(series), "the network is the same");
    world.edit_spec("acme", |spec| spec["stopped"] = true.into());
    world.settle().await;
    assert!(!world.metrics().contains(series));
}

#[tokio::test(start_paused = true)]
async fn probes_with_the_same_result_write_nothing_not_even_after_a_restart() {
    let world = probed(json!({"intervalSeconds": 30})).await;
    assert_eq!(world.verdict("EndToEnd"), "True Passed");
    let before = world.stack("acme").status;
    world.server.forget_writes();
    world.gateway.seen();
    world.pass(Duration::from_secs(3600)).await;
    assert!(world.gateway.seen().len() > 100, "it was tried meanwhile");
    assert_eq!(world.server.writes(), []);
    let world = world.restart().await;
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.server.writes(), []);
    assert_eq!(world.stack("acme").status, before);
}

#[tokio::test(start_paused = true)]
async fn a_service_of_another_owner_that_opens_a_store_is_named_while_it_exists() {
    let world = running(json!({})).await;
    create_door(&world, "gateway");
    world.settle().await;
    assert_eq!(world.verdict("SoleEntry"), "True GatewayOnly");
    world.server.delete::<Service>(NAMESPACE, "door");
    create_door(&world, "postgres");
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.verdict("SoleEntry"), "False Exposed");
    let message = world.condition("acme", "SoleEntry").message;
    assert!(
        message.contains("links/door leads to acme-postgres"),
        "{message}"
    );
    world.server.delete::<Service>(NAMESPACE, "door");
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.verdict("SoleEntry"), "True GatewayOnly");
}

#[tokio::test(start_paused = true)]
async fn an_address_that_stays_on_the_stacks_own_service_is_found() {
    let world = running(json!({})).await;
    world.server.mutate::<Service>(|service| {
        service["spec"]["externalIPs"] = json!(["192.0.2.1"]);
    });
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-postgres", |_| {});
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.verdict("SoleEntry"), "False Exposed");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_fails_is_told_with_the_trace_and_takes_nothing_else() {
    let world = probed(json!({})).await;
    let passed = world.condition("acme", "EndToEnd");
    world
        .gateway
        .answers(SHORTEN, StatusCode::SERVICE_UNAVAILABLE, json!({}));
    world.pass(Duration::from_secs(900)).await;
    let failed = world.condition("acme", "EndToEnd");
    assert_eq!(
        (failed.status.as_str(), failed.reason.as_str()),
        ("False", "ShortenFailed")
    );
    let traces: Vec<String> = world
        .gateway
        .seen()
        .into_iter()
        .filter_map(|seen| Some(seen.traceparent.split('-').nth(1)?.to_owned()))
        .collect();
    assert!(traces.iter().any(|trace| failed.message.contains(trace)));
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    world.gateway.recovers();
    world.pass(Duration::from_secs(600)).await;
    let again = world.condition("acme", "EndToEnd");
    assert_eq!(again.status, "True");
    assert_ne!(
        again.message, passed.message,
        "it has the trace of this end-to-end probe"
    );
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_answers_and_a_single_failure_say_nothing() {
    let world = probed(json!({})).await;
    for status in [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ] {
        world.server.forget_writes();
        world.gateway.seen();
        world.gateway.answers(SHORTEN, status, json!({}));
        while world.gateway.seen().is_empty() {
            world.pass(Duration::from_secs(1)).await;
        }
        world.gateway.recovers();
        world.pass(Duration::from_secs(900)).await;
        assert_eq!(world.server.writes(), [], "{status}");
    }
}

/// Creates the Secret with the key for the end-to-end probe.
fn create_key(world: &World, key: &str) {
    let secret = json!({"metadata": {
        "name": "probe", "namespace": NAMESPACE, "labels": {USABLE_BY_STACKS: "true"},
    }});
    let mut secret: Secret = serde_json::from_value(secret).unwrap();
    let data = k8s_openapi::ByteString(format!("{key}\n").into_bytes());
    secret.data = Some([("api-key".to_owned(), data)].into());
    world.server.create(&secret);
}

#[tokio::test(start_paused = true)]
async fn the_passage_has_the_key_of_the_secret_that_the_spec_names() {
    let key = "k".repeat(32);
    let world = probed(json!({"keySecretRef": {"name": "probe"}})).await;
    assert_eq!(world.verdict("EndToEnd"), "False KeyMissing");
    assert_eq!(
        world.gateway.seen().len(),
        0,
        "no request is sent without it"
    );
    create_key(&world, &key);
    world.settle().await;
    assert_eq!(world.verdict("EndToEnd"), "True Passed");
    let seen = world.gateway.seen();
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.key.as_ref() == Some(&key)));
}

#[tokio::test(start_paused = true)]
async fn no_key_is_sent_of_a_secret_that_lost_its_label_and_nothing_to_other_addresses() {
    let world = probed(json!({"keySecretRef": {"name": "probe"}})).await;
    create_key(&world, "k");
    world.settle().await;
    world.server.edit::<Secret>(NAMESPACE, "probe", |secret| {
        secret["metadata"]["labels"] = json!({});
    });
    world.settle().await;
    let refused = world.condition("acme", "EndToEnd");
    assert_eq!(refused.reason, "SecretNotUsable", "{}", refused.message);
    let probe = |probe: Value| {
        world.edit_spec("acme", |spec| spec["gateway"]["endToEndProbe"] = probe);
    };
    probe(json!({"probeUrl": "http://10.0.0.1:6443"}));
    world.settle().await;
    world.gateway.seen();
    world.pass(Duration::from_secs(900)).await;
    assert_eq!(world.verdict("EndToEnd"), "False AddressNotAllowed");
    assert_eq!(world.gateway.seen().len(), 0);
    probe(json!({"probeUrl": "http://controller.ingress-nginx.svc"}));
    world.settle().await;
    assert_eq!(world.verdict("EndToEnd"), "True Passed");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_read_holds_up_the_probe_alone() {
    for (status, reason) in [(403, "Forbidden"), (500, "ReadFailed")] {
        let world = probed(json!({"keySecretRef": {"name": "probe"}})).await;
        create_key(&world, "k");
        world.settle().await;
        assert_eq!(world.verdict("EndToEnd"), "True Passed");
        let fault = Some(Fault::Refuse(status));
        world.server.fail_reads_of("probe", fault);
        world.edit_spec("acme", |spec| spec["app"] = json!({"replicas": 5}));
        world.settle().await;
        let named = world.condition("acme", "EndToEnd");
        let found = (named.status.as_str(), named.reason.as_str());
        assert_eq!(found, ("False", reason), "{}", named.message);
        let sentence = "gateway.endToEndProbe.keySecretRef: cannot read Secret probe: ";
        assert!(named.message.starts_with(sentence), "{}", named.message);
        // Everything else goes on, and nothing is tried without the key.
        let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
        assert_eq!(app.unwrap().spec.unwrap().replicas, Some(5));
        assert_eq!(world.condition("acme", "Degraded").status, "False");
        world.gateway.seen();
        world.server.forget_writes();
        world.pass(Duration::from_secs(900)).await;
        assert_eq!(world.gateway.seen().len(), 0);
        assert_eq!(world.server.writes(), []);
        // It is read again soon, without a change that would wake the stack.
        world.server.fail_reads_of("probe", None);
        world.settle().await;
        assert_eq!(world.verdict("EndToEnd"), "True Passed");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_of_a_stack_that_does_not_ask_is_stopped_or_is_gone() {
    let world = running(json!({})).await;
    assert!(!has(&world, "EndToEnd"));
    assert_eq!(world.gateway.seen().len(), 0);

    let world = probed(json!({})).await;
    world.edit_spec("acme", |spec| spec["stopped"] = true.into());
    world.settle().await;
    let tried = || world.gateway.seen().len() + world.network.dialled().len();
    tried();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(tried(), 0);
    assert!(!has(&world, "EndToEnd") && !has(&world, "SoleEntry"));

    world.edit_spec("acme", |spec| spec["stopped"] = false.into());
    world.settle().await;
    assert!(has(&world, "EndToEnd") && has(&world, "SoleEntry"));
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    tried();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(tried(), 0);
}
