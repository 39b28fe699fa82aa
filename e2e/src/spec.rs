//! Specs that tests start from.

use serde_json::{Value, json};

use crate::{Provider, Space};

/// A small stack of the real app without rate limits: one pod of each component, reached by the namespace's host. No
/// profile is on; the pods of those that are switched on are small too, the collector's apart.
pub fn base_spec(space: &Space, provider: Provider) -> Value {
    let mut spec = json!({
        "publicUrl": format!("http://{}", space.host()),
        "gateway": {"provider": provider.as_str(), "host": space.host(), "replicas": 1, "resources": small()},
        "limits": {"shortenPerMinute": 0, "shortenBurst": 0, "requestsPerSecond": 0, "requestsBurst": 0},
        "app": {"replicas": 1, "resources": small()},
        "database": {"managed": {"storage": "64Mi", "resources": small()}},
        "cache": {"managed": {"resources": small()}},
        "queue": {"managed": {"storage": "512Mi", "resources": small()}},
        "workers": {"resources": small()},
        "vector": {"managed": {"resources": small()}},
        "deletionPolicy": "Delete",
    });
    if provider == Provider::Standalone {
        merge(&mut spec, json!({"gateway": {"serviceType": "NodePort"}}));
    }
    spec
}

/// A stack whose app only echoes. Its database is an external one that nobody asks; the Secret is `unused-database`.
pub fn echo_spec(space: &Space, provider: Provider) -> Value {
    let mut spec = base_spec(space, provider);
    merge(
        &mut spec,
        json!({
            "app": {"image": space.settings.echo_image},
            "database": {"managed": null, "external": {"secretRef": {"name": "unused-database"}}},
        }),
    );
    spec
}

/// Lays `patch` over `target` as a JSON merge patch: null removes.
pub fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    if let Some(target) = target.as_object_mut() {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(&key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

/// Requests so small that two dozen stacks fit on a node of two cores; the limits stay the operator's.
pub(crate) fn small() -> Value {
    json!({"requests": {"cpu": "5m", "memory": "16Mi"}})
}
