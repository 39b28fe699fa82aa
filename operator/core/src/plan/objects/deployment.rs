//! Deployments of stateless components.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{PodTemplateSpec, Toleration},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::pod;
use crate::model::{
    metadata::{Component, component_name, selector},
    stack::ValidatedStack,
};

/// Taints of a node that does not answer. Kubernetes adds them to the node.
const SILENT: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
/// Effect of these taints on running pods: their deletion.
const NO_EXECUTE: &str = "NoExecute";
/// Time for which a pod stays on such a node, in seconds. Kubernetes' default of 300 is for pods that have data there.
const STAY: i64 = 30;

/// Returns the Deployment `<stack>-<component>`. In a rollout, a new pod is ready before an old one stops. When the node of
/// a pod does not answer, another pod soon takes its place.
///
/// The pods of a StatefulSet keep Kubernetes' default: their place stays taken until the node or an administrator
/// confirms their end, so an early deletion would only stop them on a node that comes back.
pub(in crate::plan) fn rolling(
    stack: &ValidatedStack,
    component: Component,
    replicas: i32,
    mut template: PodTemplateSpec,
) -> Deployment {
    if let Some(pod) = &mut template.spec {
        leave_early(pod.tolerations.get_or_insert_default());
    }
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

/// Adds tolerations of a node that does not answer, for a limited time. Those of the user come first, also one that fits
/// every taint, as in Kubernetes' own defaults.
pub(in crate::plan) fn leave_early(tolerations: &mut Vec<Toleration>) {
    let tolerates = |given: &Toleration, taint: &str| {
        let key = given.key.as_deref().unwrap_or_default();
        let effect = given.effect.as_deref().unwrap_or_default();
        [taint, ""].contains(&key) && [NO_EXECUTE, ""].contains(&effect)
    };
    for taint in SILENT {
        if tolerations.iter().any(|given| tolerates(given, taint)) {
            continue;
        }
        tolerations.push(Toleration {
            key: Some(taint.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(NO_EXECUTE.to_owned()),
            toleration_seconds: Some(STAY),
            ..Toleration::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_users_tolerations_come_before_those_of_a_silent_node() {
        let early = |taint: &str| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30});
        let both = SILENT.map(early);
        let dedicated = json!({"key": "team", "value": "links", "effect": "NoSchedule"});
        let patient = json!({"key": SILENT[1], "operator": "Exists", "tolerationSeconds": 300});
        let everything = json!({"operator": "Exists"});
        let never_placed = json!({"operator": "Exists", "effect": "NoSchedule"});
        for (given, expected) in [
            (json!([]), json!(both)),
            (json!([dedicated]), json!([dedicated, both[0], both[1]])),
            (json!([patient]), json!([patient, both[0]])),
            (json!([everything]), json!([everything])),
            (
                json!([never_placed]),
                json!([never_placed, both[0], both[1]]),
            ),
        ] {
            let mut tolerations: Vec<Toleration> = serde_json::from_value(given.clone()).unwrap();
            leave_early(&mut tolerations);
            assert_eq!(
                serde_json::to_value(tolerations).unwrap(),
                expected,
                "{given}"
            );
        }
    }
}
