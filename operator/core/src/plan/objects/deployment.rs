//! Deployments of stateless components.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::pod;
use crate::model::{
    metadata::{Component, component_name, selector},
    stack::ValidatedStack,
};

/// Returns the Deployment `<stack>-<component>`. In a rollout, a new pod is ready before an old one stops.
pub(in crate::plan) fn rolling(
    stack: &ValidatedStack,
    component: Component,
    replicas: i32,
    template: PodTemplateSpec,
) -> Deployment {
    let identity = &stack.identity;
    Deployment {
        metadata: identity.child(component_name(&identity.name, component), component),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: selector(&identity.name, component),
            revision_history_limit: Some(pod::REVISION_HISTORY),
            paused: Some(false),
            min_ready_seconds: Some(0),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_unavailable: Some(IntOrString::Int(0)),
                    max_surge: Some(IntOrString::Int(1)),
                }),
            }),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// Returns a Deployment like [`rolling`] for pods that receive requests through a Service. Every node must route to
/// a new pod before an old one stops.
pub(in crate::plan) fn serving(
    stack: &ValidatedStack,
    component: Component,
    replicas: i32,
    template: PodTemplateSpec,
) -> Deployment {
    let mut deployment = rolling(stack, component, replicas, template);
    if let Some(spec) = &mut deployment.spec {
        spec.min_ready_seconds = Some(2);
    }
    deployment
}
