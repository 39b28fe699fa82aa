//! Limits on the pods of a component that a node drain may evict at once.

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::network_policy::members_of;
use crate::model::{
    metadata::{Component, component_name, selector},
    pooler,
    stack::ValidatedStack,
};

/// Returns the PodDisruptionBudget `<stack>-<component>`, or `None` for a single pod, where it would only block a
/// drain.
pub fn build(
    stack: &ValidatedStack,
    component: Component,
    replicas: i32,
) -> Option<PodDisruptionBudget> {
    let identity = &stack.identity;
    (replicas > 1).then(|| PodDisruptionBudget {
        metadata: identity.child(component_name(&identity.name, component), component),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selector(&identity.name, component)),
            // A pod that is not ready must not block a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}

/// Returns the PodDisruptionBudget `<stack>-rabbitmq` for the members of a broker, for which RabbitMQ's operator makes none.
pub fn of_members(stack: &ValidatedStack) -> Option<PodDisruptionBudget> {
    let members = stack.broker_cluster.as_ref()?.servers.members;
    let mut budget = build(stack, Component::Rabbitmq, members)?;
    if let Some(spec) = &mut budget.spec {
        spec.selector = members_of(stack).pod_selector;
    }
    Some(budget)
}

/// Returns the PodDisruptionBudget of the pods of a pooler, for which CloudNativePG makes none.
pub fn of_pooler(stack: &ValidatedStack) -> Option<PodDisruptionBudget> {
    let instances = stack.pooler.as_ref()?.instances;
    let mut budget = build(stack, Component::Postgres, instances)?;
    budget.metadata.name = Some(pooler::name(&stack.identity.name));
    if let Some(spec) = &mut budget.spec {
        spec.selector = Some(pooler::selector(&stack.identity.name));
    }
    Some(budget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn a_drain_takes_one_pod_at_a_time() {
        golden(
            "disruption-budget-app",
            &build(&minimal_stack(), Component::App, 2),
        );
        golden(
            "disruption-budget-gateway",
            &build(&minimal_stack(), Component::Gateway, 2),
        );
    }

    #[test]
    fn a_single_pod_has_no_budget() {
        assert_eq!(build(&minimal_stack(), Component::App, 1), None);
        assert_eq!(build(&minimal_stack(), Component::App, 0), None);
    }
}
