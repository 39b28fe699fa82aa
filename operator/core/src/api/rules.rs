//! CEL rules that several fields share.
//!
//! A rule about a transition is on the spec and not on its field, because Kubernetes does not evaluate it on a field
//! that either side lacks.

use kube_core::Rule;

use super::{DEFAULT_BACKEND_STORAGE, DEFAULT_STORAGE};

/// The profile `vector` is off before or after the change.
const VECTOR_IS_OFF: &str = "!(has(self.profiles) && 'vector' in self.profiles && has(oldSelf.profiles) && 'vector' in oldSelf.profiles)";

/// The settings of the stack's own backend.
const BACKEND: &str = "observability.backend.managed";

/// Returns the rule that the operator runs a server or does not, but not both.
pub(super) fn managed_or_external(field: &str) -> Rule {
    rule(
        "!(has(self.managed) && has(self.external))".to_owned(),
        format!("{field}.managed and {field}.external exclude each other: remove one of them"),
    )
}

/// Returns the rule that a stack passes to another operator only while it is paused, so that two never write to it.
pub(super) fn keeps_its_operator() -> Rule {
    let class = |object| value(object, "operatorClass", "''");
    rule(
        format!(
            "(self.paused && oldSelf.paused) || ({}) == ({})",
            class("self"),
            class("oldSelf")
        ),
        "operatorClass can change only while the stack is paused: set paused to true, change operatorClass, then set paused to false"
            .to_owned(),
    )
}

/// Returns the rule that the volume of a store does not shrink.
pub(super) fn never_shrinks(store: &str, remedy: &str) -> Rule {
    let size = |object| {
        let default = format!("'{DEFAULT_STORAGE}'");
        value(object, &format!("{store}.managed.storage"), &default)
    };
    rule(
        format!(
            "{} || quantity({}) .compareTo(quantity({})) >= 0",
            is_external(store),
            size("self"),
            size("oldSelf")
        ),
        format!("{store}.managed.storage cannot shrink (absent means {DEFAULT_STORAGE}): {remedy}"),
    )
}

/// Returns the rule that the storage class of a store does not change.
pub(super) fn keeps_its_class(store: &str, remedy: &str) -> Rule {
    let class = |object| value(object, &format!("{store}.managed.storageClassName"), "''");
    rule(
        format!(
            "{} || ({}) == ({})",
            is_external(store),
            class("self"),
            class("oldSelf")
        ),
        format!("{store}.managed.storageClassName cannot change: {remedy}"),
    )
}

/// Returns the rule that a value of the vector store does not change while its profile is on.
pub(super) fn vector_keeps(name: &str, default: &str, remedy: &str) -> Rule {
    let kept = |object| value(object, &format!("vector.{name}"), default);
    rule(
        format!(
            "{VECTOR_IS_OFF} || ({}) == ({})",
            kept("self"),
            kept("oldSelf")
        ),
        format!(
            "vector.{name} cannot change while the profile is on: switch the profile off, {remedy}, and switch the profile on"
        ),
    )
}

/// Returns the rule that the volume of the stack's own backend does not shrink.
pub(super) fn backend_never_shrinks(remedy: &str) -> Rule {
    let size = |object| backend_value(object, "storage", &format!("'{DEFAULT_BACKEND_STORAGE}'"));
    rule(
        format!(
            "{} || quantity({}).compareTo(quantity({})) >= 0",
            has_no_backend(),
            size("self"),
            size("oldSelf")
        ),
        format!(
            "{BACKEND}.storage cannot shrink (absent means {DEFAULT_BACKEND_STORAGE}): {remedy}"
        ),
    )
}

/// Returns the rule that the storage class of the stack's own backend does not change.
pub(super) fn backend_keeps_its_class(remedy: &str) -> Rule {
    let class = |object| backend_value(object, "storageClassName", "''");
    rule(
        format!(
            "{} || ({}) == ({})",
            has_no_backend(),
            class("self"),
            class("oldSelf")
        ),
        format!("{BACKEND}.storageClassName cannot change: {remedy}"),
    )
}

/// Returns the rule that the workers follow the queue of a broker that the operator runs: it knows no other.
pub(super) fn scales_by_its_own_queue() -> Rule {
    let autoscaling = present("self", "workers.autoscaling");
    let external = present("self", "queue.external");
    rule(
        format!("!({autoscaling} && {external})"),
        "workers.autoscaling needs a queue that the operator manages, and queue.external is set: remove \
         workers.autoscaling, and let KEDA or a HorizontalPodAutoscaler scale the stack"
            .to_owned(),
    )
}

/// Limits a rule to changes while the profile `vector` is on.
pub(super) fn while_vector_is_on(rule: Rule) -> Rule {
    Rule {
        rule: format!("{VECTOR_IS_OFF} || {}", rule.rule),
        ..rule
    }
}

fn rule(expression: String, message: String) -> Rule {
    Rule::new(expression).message(message.as_str())
}

/// Returns the condition that a store is external before or after the change.
fn is_external(store: &str) -> String {
    let external = |object: &str| present(object, &format!("{store}.external"));
    format!("({}) || ({})", external("self"), external("oldSelf"))
}

/// Returns the condition that the stack has no backend of its own before or after the change.
fn has_no_backend() -> String {
    format!(
        "!({}) || !({})",
        present("self", BACKEND),
        present("oldSelf", BACKEND)
    )
}

/// Returns the expression for a setting of the stack's own backend, which exists, with a default.
fn backend_value(object: &str, name: &str, default: &str) -> String {
    let path = format!("{object}.{BACKEND}.{name}");
    format!("has({path}) ? {path} : {default}")
}

/// Returns the expression for the value at a path, with a default.
fn value(object: &str, path: &str, default: &str) -> String {
    format!("{} ? {object}.{path} : {default}", present(object, path))
}

/// Returns the condition that an object has each field of a path.
fn present(object: &str, path: &str) -> String {
    let mut field = object.to_owned();
    let checks = path.split('.').map(|name| {
        field = format!("{field}.{name}");
        format!("has({field})")
    });
    checks.collect::<Vec<_>>().join(" && ")
}
