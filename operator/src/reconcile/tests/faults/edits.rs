//! A sample of edits of a live stack (fault F14). `operator/core/src/plan/tests.rs` mutates every field, where nothing
//! is written; here the children are, and what the earlier spec left in them shows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::testing::{
    rehearsal::{assert_same, holds_data},
    world::World,
};

/// Kinds of which no object is replaced by any of the edits.
const LASTING: [&str; 5] = [
    "deployments/",
    "persistentvolumeclaims/",
    "secrets/",
    "services/",
    "statefulsets/",
];

/// Returns specs of which each sets another section.
fn edits() -> Vec<Value> {
    let pod = json!({
        "resources": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}},
        "podTemplate": {"spec": {
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "important",
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        }},
    });
    let mut app = pod.clone();
    app["replicas"] = json!(1);
    vec![
        json!({"app": app}),
        json!({"gateway": pod}),
        json!({"gateway": {
            "hosts": ["go.example.com"],
            "annotations": {"example.com/note": "ü"},
            "service": {"annotations": {"example.com/note": "b"}},
            "auth": {"secretRef": {"name": "keys"}, "protect": ["jobs", "docs"]},
            "trustedHops": 0,
        }}),
        json!({"database": {"managed": pod}}),
        json!({"profiles": ["caching"], "cache": {"ttlSeconds": 1, "managed": {"maxMemory": "64Mi"}}}),
        json!({"profiles": ["observability"]}),
        json!({"profiles": ["vector"], "vector": {"collection": "pages"}}),
        json!({"rateLimits": {"shortenPerMinute": 0}, "links": {"forwardQuery": true}}),
        json!({"workers": {"purge": {"retentionDays": 1, "schedule": "5 4 * * *"}}}),
        json!({"imagePullSecrets": [{"name": "registry"}], "publicUrl": "https://go.example.com"}),
        json!({"stopped": true}),
        json!({"deletionPolicy": "Delete"}),
    ]
}

fn children(world: &World) -> BTreeMap<String, Value> {
    let mut children = world.server.objects();
    children.retain(|name, _| !name.starts_with("shortenerstacks/"));
    children
}

/// Asserts that the children are these, beside data that an earlier spec left.
fn assert_children(world: &World, expected: &BTreeMap<String, Value>, case: &str) {
    let mut found = children(world);
    found.retain(|name, _| expected.contains_key(name) || !holds_data(name));
    assert_same(expected, &found, case, "object");
}

#[tokio::test(start_paused = true)]
async fn an_edit_gives_the_children_of_a_new_stack_and_its_reversal_the_earlier_ones() {
    let world = World::with_stack(json!({})).await;
    let before = children(&world);
    let mut lasting = world.server.uids();
    lasting.retain(|name, _| LASTING.iter().any(|kind| name.starts_with(kind)));
    for spec in edits() {
        world.edit_spec("acme", |old| *old = spec.clone());
        world.settle().await;
        let fresh = World::with_stack(spec.clone()).await;
        assert_children(&world, &children(&fresh), &format!("edit to {spec}"));
        world.edit_spec("acme", |old| *old = json!({}));
        world.settle().await;
        let case = format!("back from {spec}");
        assert_children(&world, &before, &case);
        let mut uids = world.server.uids();
        uids.retain(|name, _| lasting.contains_key(name));
        assert_same(&lasting, &uids, &case, "uid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_does_not_parse_keeps_the_rest_of_its_status() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    let status = || world.server.objects()["shortenerstacks/acme"]["status"].clone();
    let before = status();
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["unheard"]));
    world.settle().await;
    let after = status();
    for field in ["volumes", "url", "profiles", "workers", "app"] {
        assert!(!before[field].is_null(), "{field}");
        assert_eq!(after[field], before[field], "{field}");
    }
    let conditions = after["conditions"].as_array().cloned().unwrap_or_default();
    let reason = |type_: &str| {
        let mut found = conditions
            .iter()
            .filter(|condition| condition["type"] == type_);
        found.next().map(|condition| condition["reason"].clone())
    };
    assert_eq!(reason("Degraded"), Some(json!("InvalidSpec")));
    assert_eq!(reason("QueueReady"), Some(json!("Pending")));
}
