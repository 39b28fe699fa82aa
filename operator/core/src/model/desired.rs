//! The output of `build` and input of `apply`: every child object of a stack, by kind.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
    networking::v1::{Ingress, NetworkPolicy},
    policy::v1::PodDisruptionBudget,
};

use crate::model::{
    metadata::Component,
    prometheus::{PrometheusRule, ServiceMonitor},
};

/// Every child object of a stack. `apply` destructures it without `..`, so that a forgotten kind does not compile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// ServiceAccounts of the pods.
    pub service_accounts: Vec<ServiceAccount>,
    /// Secrets that the operator generates.
    pub secrets: Vec<DesiredSecret>,
    /// Rendered configuration.
    pub config_maps: Vec<ConfigMap>,
    /// Volumes. They are never pruned like the other kinds.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Rules about connections between pods.
    pub network_policies: Vec<NetworkPolicy>,
    /// Stable addresses of the components.
    pub services: Vec<Service>,
    /// Stores.
    pub stateful_sets: Vec<StatefulSet>,
    /// Stateless components.
    pub deployments: Vec<Deployment>,
    /// Limits on the pods that a node drain may evict at once.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// Public routes.
    pub ingresses: Vec<Ingress>,
    /// Monitoring objects; `None` if the cluster does not serve these kinds.
    pub monitoring: Option<Monitoring>,
    /// Stores whose volumes and Secrets are to be deleted.
    pub discarded: Vec<Component>,
    /// True when the lists are complete, so that an object outside them may be deleted. False while an address that a
    /// child is rendered from is unknown.
    pub prunable: bool,
}

/// Objects of the Prometheus operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitoring {
    /// Services whose metrics are scraped.
    pub service_monitors: Vec<ServiceMonitor>,
    /// Alerting rules on these metrics.
    pub rules: Vec<PrometheusRule>,
}

/// A Secret whose data is written only on creation.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredSecret {
    /// Metadata and type without data, applied like any other child.
    pub secret: Secret,
    /// The Secret with its data, if it has yet to be created.
    pub create: Option<Secret>,
}
