//! What `build` hands to `apply`: every child object of a stack, by kind.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
    networking::v1::{Ingress, NetworkPolicy},
    policy::v1::PodDisruptionBudget,
};

use crate::{
    metadata::Component,
    monitoring::{PrometheusRule, ServiceMonitor},
};

/// Every child object of a stack. `apply` destructures it without `..`, so a forgotten kind does not compile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Identities of the pods.
    pub service_accounts: Vec<ServiceAccount>,
    /// Secrets that the operator mints.
    pub secrets: Vec<DesiredSecret>,
    /// Rendered configuration.
    pub config_maps: Vec<ConfigMap>,
    /// Volumes; never pruned with the others.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Who may connect to whom.
    pub network_policies: Vec<NetworkPolicy>,
    /// Stable addresses.
    pub services: Vec<Service>,
    /// Stores.
    pub stateful_sets: Vec<StatefulSet>,
    /// Stateless components.
    pub deployments: Vec<Deployment>,
    /// How many pods a drain may take at once.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// Public routes.
    pub ingresses: Vec<Ingress>,
    /// What a Prometheus finds; none where the cluster lacks these kinds.
    pub monitoring: Option<Monitoring>,
    /// Stores whose volumes and Secrets are to be deleted.
    pub discarded: Vec<Component>,
    /// Everything that is wanted is listed, so what is not listed may be deleted. False while an address that a child
    /// is rendered from is not known yet.
    pub prunable: bool,
}

/// Objects of the Prometheus operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitoring {
    /// Whose metrics are read.
    pub service_monitors: Vec<ServiceMonitor>,
    /// Which alerts they raise.
    pub rules: Vec<PrometheusRule>,
}

/// A Secret whose data is written when it is created and never again.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredSecret {
    /// Metadata and type, applied like any child, without data.
    pub secret: Secret,
    /// The Secret with its data, if it has yet to be created.
    pub create: Option<Secret>,
}
