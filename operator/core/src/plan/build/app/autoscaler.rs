//! The autoscaler of the app. It owns the number of pods as soon as it has changed it once.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};

use crate::model::{
    metadata::{Component, component_name},
    stack::ValidatedStack,
};

/// Returns the HorizontalPodAutoscaler `<stack>-app`, if the operator scales the app and nothing else does.
pub fn autoscaler(stack: &ValidatedStack) -> Option<HorizontalPodAutoscaler> {
    let scaling = stack.app.scaling.as_ref()?;
    let limits = scaling.limits.filter(|_| scaling.rival.is_none())?;
    let identity = &stack.identity;
    let name = component_name(&identity.name, Component::App);
    let usage = MetricTarget {
        type_: "Utilization".to_owned(),
        average_utilization: Some(limits.target_cpu_utilization_percentage),
        ..MetricTarget::default()
    };
    let cpu = MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: usage,
        }),
        ..MetricSpec::default()
    };
    Some(HorizontalPodAutoscaler {
        metadata: identity.child(name.clone(), Component::App),
        spec: Some(HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: "Deployment".to_owned(),
                name,
            },
            min_replicas: Some(limits.min_replicas),
            max_replicas: limits.max_replicas,
            metrics: Some(vec![cpu]),
            ..HorizontalPodAutoscalerSpec::default()
        }),
        ..HorizontalPodAutoscaler::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_autoscaler_of_the_app() {
        let stack = minimal_stack().scaled_by_load(None);
        golden(
            "horizontal-pod-autoscaler-app",
            &autoscaler(&stack).unwrap(),
        );
    }

    #[test]
    fn an_app_has_no_second_autoscaler() {
        assert_eq!(autoscaler(&minimal_stack()), None);
        let stack = minimal_stack().scaled_by_load(Some("mine"));
        assert_eq!(autoscaler(&stack), None);
    }
}
