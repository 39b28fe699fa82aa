//! The kinds of child objects, in one table.
//!
//! [`child_kinds!`](crate::child_kinds) passes the table to a macro. The lists in [`desired`](super::desired), the order
//! of pruning, the check of the chart's rules, and the tests of drift are made from it. A new kind is one line here. The
//! crates then compile only with its objects in `build`, its watch and its writing, and a test fails until the chart has
//! its rule.

use kube_core::{ApiResource, Resource};

use super::{
    cloud_native_pg,
    metadata::{Component, component_name},
    rabbitmq_cluster,
};

/// Passes the table of child kinds to the macro `$callback`, after `$arguments`.
///
/// Groups, and the kinds of a group, are in the order in which they are written. A group has the name of its struct in
/// [`desired`](crate::model::desired) and its [`Presence`]. The columns of a kind are:
///
/// 1. its field in that struct, its type and, after `as`, the type of the items if that is another one;
/// 2. its [`Deletion`].
#[macro_export]
macro_rules! child_kinds {
    ($callback:ident $($arguments:tt)*) => {
        $callback! { $($arguments)*
            /// The objects that the stack depends on. They are pruned in reverse order.
            Children: Always {
                // The policies come before the pods that they protect.
                /// Rules about connections between pods.
                network_policies: ::k8s_openapi::api::networking::v1::NetworkPolicy, Pruned;
                // Objects that pods refer to come before the pods.
                /// ServiceAccounts of the pods.
                service_accounts: ::k8s_openapi::api::core::v1::ServiceAccount, Pruned;
                /// Secrets that the operator generates.
                secrets: ::k8s_openapi::api::core::v1::Secret as DesiredSecret, Retained;
                /// Rendered configuration.
                config_maps: ::k8s_openapi::api::core::v1::ConfigMap, Pruned;
                // A volume outlives its StatefulSet, so it is an object of its own. It never comes before its password.
                /// Volumes.
                claims: ::k8s_openapi::api::core::v1::PersistentVolumeClaim, Retained;
                // Names must resolve before a client looks them up.
                /// Stable addresses of the components.
                services: ::k8s_openapi::api::core::v1::Service, Pruned;
                // Stores come before their clients.
                /// Stores.
                stateful_sets: ::k8s_openapi::api::apps::v1::StatefulSet, Pruned;
                /// Stateless components.
                deployments: ::k8s_openapi::api::apps::v1::Deployment, Pruned;
                /// Work at times, which a pod does and ends.
                cron_jobs: ::k8s_openapi::api::batch::v1::CronJob, Pruned;
                /// Autoscalers of stateless components.
                autoscalers: ::k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler, Pruned;
                /// Limits on the pods that a node drain may evict at once.
                disruption_budgets: ::k8s_openapi::api::policy::v1::PodDisruptionBudget, Pruned;
                // Public routes come last.
                /// Public routes.
                ingresses: ::k8s_openapi::api::networking::v1::Ingress, Pruned;
            }
            /// Objects of CloudNativePG. They are written before the children that wait for them.
            DatabaseObjects: Optional {
                /// PostgreSQL clusters.
                clusters: $crate::model::cloud_native_pg::Cluster, Retained;
                /// Poolers before them.
                poolers: $crate::model::pooler::Pooler, Pruned;
            }
            /// Objects of RabbitMQ's operator. They are written before the children that wait for them.
            BrokerObjects: Optional {
                /// Brokers of several members.
                rabbitmq_clusters: $crate::model::rabbitmq_cluster::RabbitmqCluster, Retained;
            }
            /// Objects of the Gateway API, with the gateway provider `GatewayAPI`. Requests depend on them, so their
            /// failure fails the stack. They are written after the children and deleted before them.
            GatewayObjects: Optional {
                // A Gateway may use the certificate before its listener gets the route.
                /// Permissions of a Gateway of another namespace to use a certificate of the stack's.
                reference_grants: $crate::model::gateway_api::ReferenceGrant, Pruned;
                /// Public routes by a Gateway.
                http_routes: $crate::model::gateway_api::HttpRoute, Pruned;
            }
            /// Objects of the Prometheus operator. The stack does not depend on them, so they never delay it, and
            /// their failure does not fail it.
            MonitoringObjects: Optional {
                /// Services whose metrics are scraped.
                service_monitors: $crate::model::prometheus::ServiceMonitor, Pruned;
                /// Alerting rules on these metrics.
                prometheus_rules: $crate::model::prometheus::PrometheusRule, Pruned;
            }
        }
    };
}

/// The availability of a kind in clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Part of Kubernetes, so every cluster has it.
    Always,
    /// Optional: a cluster may lack it, or get it while the operator runs.
    Optional,
}

/// The treatment of objects that are no longer desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The operator deletes them.
    Pruned,
    /// The operator never deletes them, because they hold data or credentials.
    Retained,
}

/// A kind of child object.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Group, version, name and plural.
    pub resource: ApiResource,
    /// Availability in clusters.
    pub presence: Presence,
    /// Treatment of objects that are no longer desired.
    pub deletion: Deletion,
}

impl Kind {
    fn of<K: Resource<DynamicType = ()>>(presence: Presence, deletion: Deletion) -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            presence,
            deletion,
        }
    }
}

/// Returns the name of the object of a retained kind that has data of a store; `None` if the kind has none of it.
pub fn data_name(kind: &str, stack: &str, store: Component) -> Option<String> {
    let of_cluster = [
        (
            cloud_native_pg::RUNNER,
            Component::Postgres,
            cloud_native_pg::name(stack),
        ),
        (
            rabbitmq_cluster::RUNNER,
            Component::Rabbitmq,
            rabbitmq_cluster::name(stack),
        ),
    ];
    let mut of_cluster = of_cluster.into_iter();
    match of_cluster.find(|(runner, ..)| runner.kind == kind) {
        Some((_, of, name)) => (of == store).then_some(name),
        None => Some(component_name(stack, store)),
    }
}

macro_rules! list {
    ($(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $deletion:ident;)*
        }
    )*) => {
        /// Returns every kind, in the order of the table.
        pub fn kinds() -> Vec<Kind> {
            vec![$($(Kind::of::<$kind>(Presence::$presence, Deletion::$deletion)),*),*]
        }
    };
}

crate::child_kinds!(list);
