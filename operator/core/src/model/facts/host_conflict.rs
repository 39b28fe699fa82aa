//! Detection of an older stack that claims the same host.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;

use crate::api::{GatewayProvider, ShortenerStack};

/// Returns the oldest stack that claims the same class and host and is older than `stack`. The oldest stack keeps the
/// host.
pub fn host_conflict(stack: &ShortenerStack, others: &[ShortenerStack]) -> Option<String> {
    fn route(stack: &ShortenerStack) -> Option<(&str, &str)> {
        let gateway = &stack.spec.gateway;
        (gateway.provider == GatewayProvider::IngressNginx)
            .then_some((gateway.ingress_class_name.as_str(), gateway.host.as_str()))
    }
    fn age(stack: &ShortenerStack) -> (Option<Time>, Option<String>, String) {
        (
            stack.creation_timestamp(),
            stack.namespace(),
            stack.name_any(),
        )
    }
    let wanted = route(stack)?;
    let older = others
        .iter()
        .filter(|other| other.uid() != stack.uid() && other.metadata.deletion_timestamp.is_none())
        .filter(|other| route(other) == Some(wanted) && age(other) < age(stack))
        .min_by_key(|other| age(other))?;
    Some(format!(
        "{}/{}",
        older.namespace().unwrap_or_default(),
        older.name_any()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stack(name: &str, created: &str, host: &str) -> ShortenerStack {
        serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortenerStack",
            "metadata": {"name": name, "namespace": "links", "uid": name, "creationTimestamp": created},
            "spec": {"gateway": {"host": host}},
        }))
        .unwrap()
    }

    #[test]
    fn the_older_of_two_stacks_on_one_host_keeps_it() {
        let (older, younger) = (
            stack("b", "2026-01-01T00:00:00Z", "x"),
            stack("a", "2026-01-02T00:00:00Z", "x"),
        );
        let all = [
            older.clone(),
            younger.clone(),
            stack("c", "2025-01-01T00:00:00Z", "y"),
        ];
        assert_eq!(host_conflict(&younger, &all).as_deref(), Some("links/b"));
        assert_eq!(host_conflict(&older, &all), None);
    }
}
