//! The scenarios.

use serde_json::{Value, json};
use shortener_operator_core::{api::ShortenerStack, model::metadata::FORCE_DISABLE};

use super::Scenario;
use crate::testing::{
    shared::stored_stack,
    world::{NAMESPACE, World},
};

fn scenario(name: &'static str, before: Value, change: fn(&World)) -> Scenario {
    Scenario {
        name,
        before: Some(before),
        optional_kinds: false,
        change,
    }
}

fn create() -> Scenario {
    Scenario {
        name: "create",
        before: None,
        optional_kinds: false,
        change: |world| {
            world.server.create(&stored_stack(json!({})));
        },
    }
}

fn queue_off() -> Scenario {
    // Nothing drains the queue here.
    scenario("queue off", json!({"profiles": ["queue"]}), |world| {
        let server = &world.server;
        server.edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
            stack["spec"]["profiles"] = json!([]);
            stack["metadata"]["annotations"][FORCE_DISABLE] = "queue".into();
        });
    })
}

fn vector_off_with_its_data() -> Scenario {
    let before = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    scenario("vector off, without its data", before, |world| {
        set(world, "profiles", json!([]));
    })
}

fn scale() -> Scenario {
    scenario("scale", json!({"profiles": ["queue"]}), |world| {
        world.edit_spec("acme", |spec| {
            spec["app"]["replicas"] = 3.into();
            spec["workers"]["replicas"] = 3.into();
        });
    })
}

/// Returns the creation of a stack, its scaling, its deletion, and changes of its deletion policy.
pub fn life() -> Vec<Scenario> {
    let mut scenarios = vec![
        create(),
        scale(),
        scenario("let go of the data", policy("Retain"), |world| {
            set(world, "deletionPolicy", "Delete".into());
        }),
        scenario("keep the data", policy("Delete"), |world| {
            set(world, "deletionPolicy", "Retain".into());
        }),
    ];
    scenarios.extend(deletions());
    scenarios
}

/// Returns the deletion of a stack under each deletion policy. The stack is the first object that goes.
pub fn deletions() -> Vec<Scenario> {
    let delete = |world: &World| {
        world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    };
    vec![
        scenario("delete", policy("Retain"), delete),
        scenario("delete with the data", policy("Delete"), delete),
    ]
}

fn policy(policy: &str) -> Value {
    json!({"deletionPolicy": policy})
}

/// Returns each profile, switched on and off.
pub fn profiles() -> Vec<Scenario> {
    // The managed backend belongs to the profile.
    let observed = json!({"backend": {"managed": {}}});
    vec![
        scenario("caching on", json!({}), |world| {
            set(world, "profiles", json!(["caching"]));
        }),
        scenario("caching off", json!({"profiles": ["caching"]}), |world| {
            set(world, "profiles", json!([]));
        }),
        scenario("queue on", json!({}), |world| {
            set(world, "profiles", json!(["queue"]));
        }),
        queue_off(),
        scenario(
            "observability on",
            json!({"observability": observed}),
            |world| set(world, "profiles", json!(["observability"])),
        ),
        scenario(
            "observability off",
            json!({"profiles": ["observability"], "observability": observed}),
            |world| set(world, "profiles", json!([])),
        ),
        scenario("vector on", json!({}), |world| {
            set(world, "profiles", json!(["vector"]));
        }),
        scenario("vector off", json!({"profiles": ["vector"]}), |world| {
            set(world, "profiles", json!([]));
        }),
        vector_off_with_its_data(),
    ]
}

/// Returns changes of the gateway's provider.
pub fn gateways() -> Vec<Scenario> {
    vec![
        scenario("Standalone", json!({}), |world| {
            set(world, "gateway", json!({"provider": "Standalone"}));
        }),
        scenario(
            "IngressNginx",
            json!({"gateway": {"provider": "Standalone"}}),
            |world| set(world, "gateway", json!({"provider": "IngressNginx"})),
        ),
        Scenario {
            optional_kinds: true,
            ..scenario("GatewayAPI", json!({}), |world| {
                let gateway = json!({"provider": "GatewayAPI", "parentRefs": [{"name": "public"}]});
                set(world, "gateway", gateway);
            })
        },
    ]
}

/// Returns scenarios in which children are created, changed and deleted, data given up and data kept, and the deletions of
/// the stack.
pub fn some() -> Vec<Scenario> {
    let mut scenarios = vec![create(), scale(), queue_off(), vector_off_with_its_data()];
    scenarios.extend(deletions());
    scenarios
}

fn set(world: &World, field: &str, value: Value) {
    world.edit_spec("acme", |spec| spec[field] = value);
}
