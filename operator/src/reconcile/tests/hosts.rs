//! Tests of stacks that want one host: the first that serves it keeps it.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    networking::v1::{Ingress, IngressSpec},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::gateway_api::{HttpRoute, HttpRouteSpec},
};

use super::gateway_api::run_gateway;
use crate::testing::{
    api_server::FakeApiServer,
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Shorter than the interval at which a stack with a conflict checks again by itself.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Returns the older stack `acme` on `old.test` and its younger tenant `bolt` on `tenant.test`.
async fn neighbours() -> World {
    neighbours_of(
        json!({"hosts": ["old.test"]}),
        json!({"hosts": ["tenant.test"]}),
    )
    .await
}

/// Returns the older stack `acme` and its younger tenant `bolt`, with these gateways.
async fn neighbours_of(older: Value, younger: Value) -> World {
    let world = World::with_optional_kinds(json!({"gateway": older})).await;
    let mut tenant = stored_stack(json!({"gateway": younger}));
    tenant.metadata.name = Some("bolt".to_owned());
    world.server.create(&tenant);
    world.settle().await;
    world
}

/// Returns the reason of a stack's `GatewayReady`.
fn reason(world: &World, stack: &str) -> String {
    world.condition(stack, "GatewayReady").reason
}

fn move_to(world: &World, stack: &str, host: &str) {
    world.edit_spec(stack, |spec| spec["gateway"]["hosts"] = json!([host]));
}

/// Returns the host of both Ingresses of a stack; `None` if it has none.
fn served(world: &World, stack: &str) -> Option<String> {
    let host = |name: &str| {
        let ingress = world.server.get::<Ingress>(NAMESPACE, name)?;
        ingress.spec?.rules?.remove(0).host
    };
    let served = host(&format!("{stack}-gateway"));
    assert_eq!(served, host(&format!("{stack}-gateway-api")), "{stack}");
    served
}

/// Returns the hosts that the app of a stack takes for its own.
fn own_hosts(world: &World, stack: &str) -> Vec<Option<String>> {
    let app = world
        .server
        .get::<Deployment>(NAMESPACE, &format!("{stack}-app"));
    let pod = app.and_then(|app| app.spec?.template.spec).unwrap();
    let env = pod.containers[0].env.iter().flatten();
    let value = |name: &str| {
        let mut named = env.clone().filter(|variable| variable.name == name);
        named.next()?.value.clone()
    };
    ["PUBLIC_URL", "GATEWAY_HOSTS"].map(value).to_vec()
}

/// Checks that `acme` waits for the host of `bolt`, which serves it, and goes on with its own.
fn check_that_the_tenant_stays(world: &World, when: &str) {
    let hosts = ["acme", "bolt"].map(|stack| served(world, stack).unwrap_or_default());
    assert_eq!(hosts, ["old.test", "tenant.test"], "{when}");
    let url = world.stack("acme").status.unwrap_or_default().url;
    assert_eq!(url.as_deref(), Some("http://old.test"), "{when}");
    let own = ["http://old.test", "old.test"].map(|own| Some(own.to_owned()));
    assert_eq!(own_hosts(world, "acme"), own, "{when}");
    let conflict = world.condition("acme", "GatewayReady");
    assert_eq!(conflict.reason, "HostConflict", "{when}");
    for part in ["links/bolt", "tenant.test", "gateway.hosts", "old.test"] {
        let message = &conflict.message;
        assert!(message.contains(part), "{when}: {message}");
    }
    let tenant = world.condition("bolt", "GatewayReady");
    assert_ne!(tenant.reason, "HostConflict", "{when}");
}

#[tokio::test(start_paused = true)]
async fn an_older_stack_that_moves_to_the_host_of_a_tenant_waits_and_keeps_its_own() {
    let world = neighbours().await;
    let routes = ["bolt-gateway", "bolt-gateway-api"].map(|name| world.uid::<Ingress>(name));
    move_to(&world, "acme", "tenant.test");
    world.settle().await;
    check_that_the_tenant_stays(&world, "after the edit");
    let world = world.restart().await;
    world.settle().await;
    check_that_the_tenant_stays(&world, "after a restart");
    for stack in ["acme", "bolt"] {
        world
            .server
            .edit::<ShortenerStack>(NAMESPACE, stack, |stack| {
                stack.as_object_mut().unwrap().remove("status");
            });
    }
    let world = world.restart().await;
    world.settle().await;
    check_that_the_tenant_stays(&world, "after a restart without any status");
    let now = ["bolt-gateway", "bolt-gateway-api"].map(|name| world.uid::<Ingress>(name));
    assert_eq!(now, routes, "the tenant never lost its routes");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_serves_every_host_keeps_them_from_an_older_stack_and_through_an_edit() {
    let world = neighbours_of(json!({"provider": "Standalone"}), json!({})).await;
    let routes = ["bolt-gateway", "bolt-gateway-api"].map(|name| world.uid::<Ingress>(name));
    assert!(routes.iter().all(Option::is_some));
    let check = |world: &World, waits: &str, when: &str| {
        let now = ["bolt-gateway", "bolt-gateway-api"].map(|name| world.uid::<Ingress>(name));
        assert_eq!(now, routes, "{when}");
        assert_eq!(served(world, "bolt"), None, "{when}");
        for stack in ["acme", "bolt"] {
            let conflict = reason(world, stack) == "HostConflict";
            assert_eq!(conflict, stack == waits, "{when}: {stack}");
        }
    };
    world.edit_spec("acme", |spec| {
        spec["gateway"]["provider"] = json!("IngressNginx");
    });
    world.settle().await;
    assert_eq!(world.uid::<Ingress>("acme-gateway"), None);
    check(&world, "acme", "an older stack wants every host");
    move_to(&world, "acme", "old.test");
    world.settle().await;
    move_to(&world, "bolt", "old.test");
    world.settle().await;
    check(&world, "bolt", "it wants the host of another stack");
}

/// Returns what the routes of `acme` say.
fn routes(world: &World) -> (Option<IngressSpec>, Option<HttpRouteSpec>) {
    let ingress = world.server.get::<Ingress>(NAMESPACE, "acme-gateway");
    let route = world.server.get::<HttpRoute>(NAMESPACE, "acme");
    (
        ingress.and_then(|ingress| ingress.spec),
        route.map(|route| route.spec),
    )
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_class_or_of_the_gateways_keeps_the_routes_until_the_host_is_free() {
    let class = |name: &str| json!({"hosts": ["go.test"], "ingressClassName": name});
    let gateways = |names: &[&str]| {
        let parents: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"provider": "GatewayAPI", "hosts": ["go.test"], "parentRefs": parents})
    };
    for (before, tenant, after, place) in [
        (class("one"), class("two"), class("two"), "IngressClass two"),
        (
            gateways(&["public"]),
            gateways(&["private"]),
            gateways(&["public", "private"]),
            "Gateway links/private",
        ),
        (
            class("one"),
            gateways(&["public"]),
            gateways(&["public"]),
            "Gateway links/public",
        ),
    ] {
        let world = neighbours_of(before, tenant).await;
        let served = routes(&world);
        world.edit_spec("acme", |spec| spec["gateway"] = after);
        world.settle().await;
        let conflict = world.condition("acme", "GatewayReady");
        assert_eq!(conflict.reason, "HostConflict", "{place}");
        assert!(conflict.message.contains(place), "{}", conflict.message);
        assert_eq!(routes(&world), served, "{place}");
        world.server.delete::<ShortenerStack>(NAMESPACE, "bolt");
        world.pass(AT_ONCE).await;
        assert_ne!(routes(&world), served, "{place}");
        assert_ne!(reason(&world, "acme"), "HostConflict", "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn routes_of_a_tenant_that_are_deleted_by_mistake_do_not_give_its_host_away() {
    let world = neighbours().await;
    move_to(&world, "acme", "tenant.test");
    world.settle().await;
    let delete_routes = |world: &World| {
        for name in ["bolt-gateway", "bolt-gateway-api"] {
            world.server.delete::<Ingress>(NAMESPACE, name);
        }
    };
    delete_routes(&world);
    world.settle().await;
    check_that_the_tenant_stays(&world, "while the operator runs");
    delete_routes(&world);
    let world = world.restart().await;
    world.settle().await;
    check_that_the_tenant_stays(&world, "while it restarts");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_released_or_whose_stack_is_deleted_wakes_the_one_that_waits() {
    for deleted in [true, false] {
        let world = neighbours().await;
        move_to(&world, "acme", "tenant.test");
        world.settle().await;
        if deleted {
            world.server.delete::<ShortenerStack>(NAMESPACE, "bolt");
        } else {
            move_to(&world, "bolt", "elsewhere.test");
        }
        world.pass(AT_ONCE).await;
        assert_eq!(served(&world, "acme").as_deref(), Some("tenant.test"));
        let taken = world.condition("acme", "GatewayReady");
        assert_ne!(taken.reason, "HostConflict", "{}", taken.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_does_not_exist_is_named_for_as_long_as_no_ingress_has_an_address() {
    let world = World::start(FakeApiServer::default());
    let gateway = json!({"ingressClassName": "absent"});
    world
        .server
        .create(&stored_stack(json!({"gateway": gateway})));
    world.settle().await;
    run_gateway(&world);
    // Longer than the patience with a controller that reports no address.
    world.pass(Duration::from_secs(600)).await;
    let condition = world.condition("acme", "GatewayReady");
    assert_eq!(condition.reason, "IngressClassNotFound");
    let command = r#"kubectl patch sst acme -n links --type merge -p '{"spec":{"gateway":{"provider":"Standalone"}}}'"#;
    assert!(condition.message.contains(command), "{}", condition.message);
}
