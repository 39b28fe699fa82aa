//! Annotations that the user adds to the gateway's objects.

use kube_core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Annotations of Ingresses that the user cannot set: the operator sets them, or a field replaces them.
pub const RESERVED_ANNOTATIONS: [&str; 12] = [
    "kubernetes.io/ingress.class",
    "nginx.ingress.kubernetes.io/from-to-www-redirect",
    "nginx.ingress.kubernetes.io/proxy-body-size",
    "nginx.ingress.kubernetes.io/proxy-buffer-size",
    "nginx.ingress.kubernetes.io/proxy-busy-buffers-size",
    "nginx.ingress.kubernetes.io/proxy-connect-timeout",
    "nginx.ingress.kubernetes.io/proxy-read-timeout",
    "nginx.ingress.kubernetes.io/proxy-send-timeout",
    "nginx.ingress.kubernetes.io/rewrite-target",
    "nginx.ingress.kubernetes.io/server-alias",
    "nginx.ingress.kubernetes.io/ssl-redirect",
    "nginx.ingress.kubernetes.io/use-regex",
];

/// Returns the schema of a map of annotations. The operator validates the keys, because a structural schema cannot.
pub(super) fn map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {"type": "string", "maxLength": 2048},
    })
}

/// Returns the rule that a field has no annotation of the operator.
pub(super) fn not_of_the_operator(field: &str) -> Rule {
    Rule::new("self.all(key, !key.startsWith('shortener.dev/'))").message(
        format!(
            "{field} has an annotation that begins with shortener.dev/, which only the operator sets: remove it"
        )
        .as_str(),
    )
}

/// Returns the rule that no annotation changes the routes that the operator writes.
pub(super) fn not_of_the_routes(field: &str) -> Rule {
    let reserved = RESERVED_ANNOTATIONS.map(|name| format!("'{name}'"));
    Rule::new(format!(
        "[{}].all(key, !(key in self))",
        reserved.join(", ")
    ))
    .message(
        format!(
            "{field} has an annotation that is set by the operator or replaced by a field: remove {}",
            RESERVED_ANNOTATIONS.join(", ")
        )
        .as_str(),
    )
}

/// Returns the rule that no annotation adds configuration to the ingress controller. All stacks of a cluster share the
/// controller, so a snippet would have the rights of the controller and not those of the stack's user.
pub(super) fn no_snippets(field: &str) -> Rule {
    Rule::new("self.all(key, !key.endsWith('-snippet') && !key.endsWith('-snippets'))").message(
        format!(
            "{field} has a snippet, which is configuration of the whole ingress controller: remove it"
        )
        .as_str(),
    )
}
