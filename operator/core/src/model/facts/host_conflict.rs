//! Detection of an older stack that claims the same host.

use std::borrow::Borrow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;

use super::gateway::parent;
use crate::api::{GatewayProvider, ShortenerStack};

/// Returns the oldest stack that claims the same host on the same IngressClass or Gateway and is older than `stack`. The
/// oldest stack keeps the host.
pub fn host_conflict(
    stack: &ShortenerStack,
    others: &[impl Borrow<ShortenerStack>],
) -> Option<String> {
    fn age(stack: &ShortenerStack) -> (Option<Time>, Option<String>, String) {
        (
            stack.creation_timestamp(),
            stack.namespace(),
            stack.name_any(),
        )
    }
    let wanted = Place::of(stack)?;
    let claims_it = |other: &ShortenerStack| Place::of(other).is_some_and(|it| it.meets(&wanted));
    let older = others
        .iter()
        .map(Borrow::<ShortenerStack>::borrow)
        .filter(|other| other.uid() != stack.uid() && other.metadata.deletion_timestamp.is_none())
        .filter(|other| claims_it(other) && age(other) < age(stack))
        .min_by_key(|other| age(other))?;
    Some(format!(
        "{}/{}",
        older.namespace().unwrap_or_default(),
        older.name_any()
    ))
}

/// The place at which others route requests to a stack.
struct Place<'a> {
    entry: Entry<'a>,
    host: &'a str,
}

/// The part of the cluster that routes requests to stacks.
#[derive(PartialEq)]
enum Entry<'a> {
    /// The controller of an IngressClass.
    Class(&'a str),
    /// A Gateway, by namespace and name, and one of its listeners.
    Gateway((&'a str, &'a str), Option<&'a str>),
}

impl<'a> Place<'a> {
    /// Returns the place of a stack; `None` if it has an entry of its own.
    fn of(stack: &'a ShortenerStack) -> Option<Self> {
        let gateway = &stack.spec.gateway;
        let entry = match gateway.provider {
            GatewayProvider::IngressNginx => Entry::Class(&gateway.ingress_class_name),
            GatewayProvider::GatewayApi => {
                let section = gateway.parent_ref.as_ref()?.section_name.as_deref();
                Entry::Gateway(parent(stack)?, section)
            }
            GatewayProvider::Standalone => return None,
        };
        Some(Self {
            entry,
            host: &gateway.host,
        })
    }

    /// Returns true when a request can be for either of two places.
    fn meets(&self, other: &Self) -> bool {
        let entries = match (&self.entry, &other.entry) {
            // A route without a listener is attached to all of them.
            (Entry::Gateway(one, None), Entry::Gateway(two, _))
            | (Entry::Gateway(one, _), Entry::Gateway(two, None)) => one == two,
            (one, two) => one == two,
        };
        entries && self.host == other.host
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with(name: &str, created: &str, gateway: Value) -> ShortenerStack {
        serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortenerStack",
            "metadata": {"name": name, "namespace": "links", "uid": name, "creationTimestamp": created},
            "spec": {"gateway": gateway},
        }))
        .unwrap()
    }

    fn stack(name: &str, created: &str, host: &str) -> ShortenerStack {
        with(name, created, json!({"host": host}))
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

    #[test]
    fn stacks_on_one_gateway_share_its_hosts_and_may_have_listeners_of_their_own() {
        let on = |name: &str, created: &str, parent: Value| {
            let gateway = json!({"provider": "GatewayApi", "host": "x", "parentRef": parent});
            with(name, created, gateway)
        };
        let ours = json!({"name": "public", "sectionName": "https"});
        let younger = on("a", "2026-01-02T00:00:00Z", ours.clone());
        for (theirs, conflicts) in [
            (ours, true),
            (json!({"name": "public"}), true),
            (json!({"name": "public", "namespace": "links"}), true),
            (json!({"name": "public", "sectionName": "http"}), false),
            (json!({"name": "public", "namespace": "infra"}), false),
            (json!({"name": "private"}), false),
        ] {
            let older = on("b", "2026-01-01T00:00:00Z", theirs.clone());
            let found = host_conflict(&younger, &[older]);
            assert_eq!(found.is_some(), conflicts, "{theirs}");
        }
        let ingress = stack("b", "2026-01-01T00:00:00Z", "x");
        assert_eq!(host_conflict(&younger, &[ingress]), None);
    }
}
