//! The Secrets and the volume claims that pods use.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::PodSpec,
};

/// A kind of object that runs pods.
pub trait HasPods {
    /// Returns the spec of its pods.
    fn pod_spec(&self) -> Option<&PodSpec>;
}

impl HasPods for Deployment {
    fn pod_spec(&self) -> Option<&PodSpec> {
        self.spec.as_ref()?.template.spec.as_ref()
    }
}

impl HasPods for StatefulSet {
    fn pod_spec(&self) -> Option<&PodSpec> {
        self.spec.as_ref()?.template.spec.as_ref()
    }
}

/// Returns the names of the Secrets that the variables and the volumes of a pod refer to. Projected volumes hold Secrets
/// of the user only.
pub fn secrets(pod: &PodSpec) -> impl Iterator<Item = &str> {
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    let of_variables = variables.filter_map(|variable| {
        let source = variable.value_from.as_ref()?;
        Some(source.secret_key_ref.as_ref()?.name.as_str())
    });
    let volumes = pod.volumes.iter().flatten();
    let of_volumes = volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
    of_variables.chain(of_volumes)
}

/// Returns the names of the volume claims that a pod refers to.
pub fn claims(pod: &PodSpec) -> impl Iterator<Item = &str> {
    let volumes = pod.volumes.iter().flatten();
    volumes.filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref()?;
        Some(claim.claim_name.as_str())
    })
}
