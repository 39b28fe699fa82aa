//! The specs of the tests' stacks.

use serde_json::{Value, json};

use crate::{Provider, Space};

/// Returns the spec of a small stack of the real app without rate limits: one pod of each component, reached by the
/// namespace's host. No profile is on; if a test switches one on, its pods are small too, except the collector's.
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

/// Returns the spec of a stack with the stand-in app. Its external database is never used;
/// the Secret is `unused-database`.
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

/// Applies `patch` to `target` as a JSON merge patch: null removes a field.
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

/// Returns requests so small that two dozen stacks fit on a node of two cores; the limits stay the operator's.
pub(crate) fn small() -> Value {
    json!({"requests": {"cpu": "5m", "memory": "16Mi"}})
}
