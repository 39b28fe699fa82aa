//! The live state of the children after an apply, for the status.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    batch::v1::CronJob,
    core::v1::{PersistentVolumeClaim, Pod},
    networking::v1::Ingress,
};
use shortener_operator_core::model::{
    cloud_native_pg::{self, Cluster},
    entry_point::EntryPoint,
    gateway_api::HttpRoute,
    live::{Live, Workload},
    metadata::{Component, StackIdentity},
    pod_uses::HasPods,
    pooler::{self, Pooler},
    rabbitmq_cluster::{self, RabbitmqCluster},
};

use crate::{kubernetes::inventory::Child, reconcile::context::Scope};

/// Time for which the address of an Ingress is waited for. Controllers report one within a minute, or never.
pub const ADDRESS_PATIENCE: Duration = Duration::from_secs(120);

/// Reads the live state without writing anything.
pub fn observe(scope: &Scope, identity: &StackIdentity) -> Live {
    let inventory = &scope.inventory;
    let (namespace, stack) = (identity.namespace.as_str(), identity.name.as_str());
    let ingresses = inventory.of_stack::<Ingress>(namespace, stack);
    let mut live = Live {
        at: jiff::Timestamp::now(),
        address_overdue: !ingresses.is_empty() && ingresses.iter().all(|ingress| is_old(ingress)),
        ingresses,
        cluster: inventory.kept::<Cluster>(namespace, &cloud_native_pg::name(stack)),
        pooler: inventory.kept::<Pooler>(namespace, &pooler::name(stack)),
        broker_cluster: inventory
            .kept::<RabbitmqCluster>(namespace, &rabbitmq_cluster::name(stack)),
        http_routes: http_routes(scope, identity),
        pods: inventory.of_stack::<Pod>(namespace, stack),
        queue: scope.context.queues.record(&identity.key()).seen().clone(),
        store_faults: scope
            .context
            .backends
            .known(&identity.key())
            .unwrap_or_default(),
        entry_points: entry_points(scope, identity),
        enforcement: scope.context.sole_entry.known(&identity.key()),
        end_to_end: scope.context.end_to_end.known(&identity.key()),
        ..Live::default()
    };
    for component in Component::WITH_PODS {
        let found = workload(scope, identity, component, Workload::of_deployment)
            .or_else(|| workload(scope, identity, component, Workload::of_stateful_set));
        live.workloads
            .extend(found.map(|workload| (component, workload)));
        let claim = scope.child::<PersistentVolumeClaim>(identity, component);
        live.claims.extend(claim.map(|claim| (component, claim)));
        let cron_job = scope.child::<CronJob>(identity, component);
        live.cron_jobs
            .extend(cron_job.map(|cron_job| (component, cron_job)));
    }
    live
}

/// Returns the objects that let connections from outside into the stack's namespace, those of the stack included.
fn entry_points(scope: &Scope, identity: &StackIdentity) -> Option<Vec<EntryPoint>> {
    let (namespace, stack) = (identity.namespace.as_str(), identity.name.as_str());
    let of_others = scope.entry_points.of_namespace(namespace)?;
    let deployments = scope.inventory.of_stack::<Deployment>(namespace, stack);
    let deployments = deployments
        .iter()
        .filter_map(|live| EntryPoint::of_template("Deployment", &live.metadata, live.template()?));
    let stateful_sets = scope.inventory.of_stack::<StatefulSet>(namespace, stack);
    let stateful_sets = stateful_sets.iter().filter_map(|live| {
        EntryPoint::of_template("StatefulSet", &live.metadata, live.template()?)
    });
    let all = of_others
        .into_iter()
        .chain(deployments)
        .chain(stateful_sets);
    Some(all.collect())
}

/// Returns true when an Ingress has existed for longer than an address is waited for.
fn is_old(ingress: &Ingress) -> bool {
    let created = ingress.metadata.creation_timestamp.as_ref();
    created.is_some_and(|created| {
        let age = jiff::Timestamp::now().duration_since(created.0);
        Duration::try_from(age).is_ok_and(|age| age > ADDRESS_PATIENCE)
    })
}

/// Returns the routes, except those that the watch has not yet seen as they were written last: the status of the earlier
/// generation would be taken for that of the new one.
fn http_routes(scope: &Scope, identity: &StackIdentity) -> Vec<Arc<HttpRoute>> {
    let (namespace, stack) = (&identity.namespace, &identity.name);
    let mut routes = scope.inventory.of_stack::<HttpRoute>(namespace, stack);
    let writes = &scope.context.writes;
    routes.retain(|route| {
        let written = writes.generation::<HttpRoute>(&route.metadata);
        route.metadata.generation >= Some(written)
    });
    routes
}

/// Returns the state of the workload of a kind that a component has.
fn workload<K: Child<Kept = K>>(
    scope: &Scope,
    identity: &StackIdentity,
    component: Component,
    of: fn(&K, i64) -> Workload,
) -> Option<Workload> {
    let live = scope.child::<K>(identity, component)?;
    let written = scope.context.writes.generation::<K>(live.meta());
    Some(of(&live, written))
}
