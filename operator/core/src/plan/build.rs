//! Third step: from a validated stack to its child objects. Pure: no client, clock, environment or random source.
//!
//! One line per child object. The file of the same name builds it. A child that this stack does not have is `None`. The
//! children of the stores come from their table.

pub mod app;
pub mod backup;
pub mod cron_job;
pub mod database_move;
pub mod disruption_budget;
pub mod gateway;
pub mod network_policy;
pub mod otel;
pub mod purge;
pub mod secret;
pub mod service_account;
pub mod webhooks;
pub mod worker;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, PodTemplateSpec, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    monitoring,
    stores::{self, DATABASE_CLIENTS, Definition, common, postgres, rabbitmq},
};
use crate::model::{
    desired::{
        BrokerObjects, Children, DatabaseObjects, Desired, GatewayObjects, MonitoringObjects,
    },
    metadata::{Component, component_name, component_of},
    stack::{App, AppScaling, ValidatedStack},
};

/// Returns every child object that the stack should have, without those of the components that are held.
pub fn build(stack: &ValidatedStack) -> Desired {
    let held = stack.held.keys().copied();
    let held: BTreeSet<Component> = held.filter(|held| is_whole(stack, *held)).collect();
    let mut children = children(stack);
    children.remove(&held);
    keep_pods(stack, &mut children);
    let database = stack.has_cluster_kinds.then(|| DatabaseObjects {
        clusters: all([postgres::cluster::build(stack)]).collect(),
        poolers: all([postgres::pooler::build(stack)]).collect(),
    });
    let broker = stack.has_broker_kinds.then(|| BrokerObjects {
        rabbitmq_clusters: all([rabbitmq::cluster::build(stack)]).collect(),
    });
    let mut gateway = stack.has_gateway_kinds.then(|| GatewayObjects {
        reference_grants: all([gateway::reference_grant(stack)]).collect(),
        http_routes: all([gateway::http_route(stack), gateway::console_route(stack)]).collect(),
    });
    if let Some(gateway) = &mut gateway {
        gateway.remove(&held);
    }
    let monitored = stack.has_monitoring_kinds && !stack.is_held(Component::Stack);
    Desired {
        children,
        database,
        broker,
        gateway,
        monitoring: monitored.then(|| MonitoringObjects {
            service_monitors: all([monitoring::service_monitor(stack)]).collect(),
            prometheus_rules: all([monitoring::prometheus_rule(stack)]).collect(),
        }),
        discarded: discarded(stack),
        released: released(stack),
        // The gateway is rendered from the address of the app's Service. Until that is known, the gateway must not be
        // pruned.
        prunable: !stack.gateway.routing.lacks_upstream(),
        spared: spared(stack),
        held: undeleted(stack),
    }
}

/// Returns the clients of the broker whose pods are removed last, if workers are to be removed.
fn spared(stack: &ValidatedStack) -> Option<BTreeSet<String>> {
    let queue = stack.queue.as_ref()?;
    queue.workers.count()?.spared.clone()
}

/// Returns the pod template of each component, as the operator itself would have it or with the user's changes.
pub(super) fn pod_templates(stack: &ValidatedStack) -> BTreeMap<Component, PodTemplateSpec> {
    let Children {
        deployments,
        stateful_sets,
        ..
    } = children(stack);
    let deployments = deployments
        .into_iter()
        .filter_map(|child| Some((component_of(&child.metadata), child.spec?.template)));
    let stateful_sets = stateful_sets
        .into_iter()
        .filter_map(|child| Some((component_of(&child.metadata), child.spec?.template)));
    deployments.chain(stateful_sets).collect()
}

/// Returns true when every object of a component that is held stays as it is.
fn is_whole(stack: &ValidatedStack, component: Component) -> bool {
    // The policy of a cluster does not wait for what another operator makes.
    let has_cluster = match component {
        Component::Postgres => stack.cluster.is_some(),
        Component::Rabbitmq => stack.broker_cluster.is_some(),
        _ => false,
    };
    !has_cluster
        && !matches!(component, Component::App | Component::Stack)
        && !stack.refused_templates.contains(&component)
}

/// Leaves out the workloads of components whose pods stay as they are. Those of the programs that exist have the live pod
/// template already.
fn keep_pods(stack: &ValidatedStack, children: &mut Children) {
    let stays = |metadata: &ObjectMeta| {
        let component = component_of(metadata);
        stack.refused_templates.contains(&component)
            && !stack.kept_templates.contains_key(&component)
    };
    children.deployments.retain(|child| !stays(&child.metadata));
    children
        .stateful_sets
        .retain(|child| !stays(&child.metadata));
}

/// Returns the components of which objects may be missing among the desired ones.
fn undeleted(stack: &ValidatedStack) -> BTreeSet<Component> {
    let mut held: BTreeSet<Component> = stack.held.keys().copied().collect();
    if stack.database.is_none() {
        held.extend(DATABASE_CLIENTS);
        held.insert(Component::Verify);
    }
    if stack.database_move.is_some() {
        held.extend([Component::Postgres, Component::Move]);
    }
    // A pooler that the stack no longer asks for goes after the last pod that knows only its address.
    if stack.pooler.is_none() && stack.pooler_in_use {
        held.insert(Component::Postgres);
    }
    held
}

/// Returns the Deployment of one of the stack's own programs. While a part that it reads is held, it keeps its pod template.
/// A new one is made without that part, or not at all if that part is the database or itself.
fn program(
    stack: &ValidatedStack,
    component: Component,
    mut built: Deployment,
) -> Option<Deployment> {
    if let Some(template) = stack.kept_templates.get(&component) {
        if let Some(spec) = &mut built.spec {
            spec.template = template.clone();
            // What they do would fail while the database takes no writes.
            if component != Component::App && stack.takes_no_writes {
                spec.replicas = Some(0);
            }
        }
        return Some(built);
    }
    (stack.database.is_some() && !stack.is_held(component)).then_some(built)
}

fn children(stack: &ValidatedStack) -> Children {
    let managed = stores::managed(stack);
    let managed = || managed.iter().copied();
    Children {
        network_policies: network_policies(stack),
        service_accounts: service_accounts(stack),
        secrets: secret::own(stack)
            .into_iter()
            .chain(managed().map(|(store, managed)| secret::store(stack, store, managed)))
            .collect(),
        config_maps: Component::WITH_PODS
            .into_iter()
            .filter_map(|component| config_map(stack, component))
            .chain(monitoring::config_map(stack))
            .collect(),
        claims: managed()
            .filter_map(|(store, managed)| common::claim(stack, store.component, managed))
            .chain(backup::claim(stack))
            .collect(),
        services: services(stack),
        stateful_sets: managed()
            .map(|(store, managed)| common::stateful_set(stack, store, managed))
            .chain(postgres::moving::stateful_set(stack))
            .collect(),
        deployments: all([
            // Before the components that send to it.
            otel::deployment(stack),
            program(stack, Component::App, app::deployment(stack)),
            worker::deployment(stack)
                .and_then(|workers| program(stack, Component::Worker, workers)),
            webhooks::deployment(stack)
                .and_then(|webhooks| program(stack, Component::Webhooks, webhooks)),
            database_move::deployment(stack),
            gateway::deployment(stack),
        ])
        .collect(),
        cron_jobs: all([
            purge::cron_job(stack),
            backup::cron_job(stack),
            backup::verify(stack),
        ])
        .collect(),
        autoscalers: all([app::autoscaler(stack)]).collect(),
        disruption_budgets: disruption_budgets(stack),
        ingresses: all([
            gateway::api_ingress(stack),
            gateway::ingress(stack),
            gateway::console_ingress(stack),
        ])
        .collect(),
    }
}

/// Returns the ConfigMap `<stack>-<component>` with the configuration of a component, if it has one.
pub(super) fn config_map(stack: &ValidatedStack, component: Component) -> Option<ConfigMap> {
    let files = match component {
        Component::Gateway => gateway::files(stack),
        Component::Otel => otel::files(stack),
        Component::Backup => backup::files(stack),
        _ => (stores::of(component)?.files)(stack),
    };
    let identity = &stack.identity;
    Some(ConfigMap {
        metadata: identity.child(component_name(&identity.name, component), component),
        data: Some(files?),
        ..ConfigMap::default()
    })
}

fn service_accounts(stack: &ValidatedStack) -> Vec<ServiceAccount> {
    all([
        Some(Component::App),
        Some(Component::Gateway),
        stack.queue.as_ref().map(|_| Component::Worker),
        stack.purge.schedule.as_ref().map(|_| Component::Purge),
        stack.webhooks.first().map(|_| Component::Webhooks),
        stack.backup.as_ref().map(|_| Component::Backup),
        backup::verification(stack).map(|_| Component::Verify),
        stack.own_collector().map(|_| Component::Otel),
        stack.database_move.as_ref().map(|_| Component::Move),
    ])
    .chain(managed_stores(stack).map(|store| store.component))
    .map(|component| service_account::build(stack, component))
    .collect()
}

fn network_policies(stack: &ValidatedStack) -> Vec<NetworkPolicy> {
    let stores = managed_stores(stack).map(|store| network_policy::store(stack, store));
    all([
        Some(network_policy::default_deny(stack)),
        Some(network_policy::app(stack)),
        Some(network_policy::gateway(stack)),
        stack.queue.as_ref().map(|_| network_policy::worker(stack)),
        network_policy::purge(stack),
        network_policy::webhooks(stack),
        network_policy::backup(stack),
        network_policy::verify(stack),
        stack.own_collector().map(|_| network_policy::otel(stack)),
    ])
    .chain(network_policy::cluster(stack))
    .chain(network_policy::database_move(stack))
    .chain(network_policy::broker_cluster(stack))
    .chain(stores)
    .collect()
}

fn services(stack: &ValidatedStack) -> Vec<Service> {
    let stores = managed_stores(stack).map(|store| common::service(stack, store));
    let (workers, receivers) = (stack.queue.as_ref(), stack.webhooks.first());
    all([
        Some(app::service(stack)),
        app::pods_service(stack),
        Some(gateway::service(stack)),
        otel::service(stack),
        monitoring::service(stack, Component::App),
        workers.and_then(|_| monitoring::service(stack, Component::Worker)),
        receivers.and_then(|_| monitoring::service(stack, Component::Webhooks)),
    ])
    .chain(stores)
    .collect()
}

fn disruption_budgets(stack: &ValidatedStack) -> Vec<PodDisruptionBudget> {
    all([
        Some((Component::App, most(&stack.app))),
        Some((Component::Gateway, stack.gateway.replicas)),
        stack
            .queue
            .as_ref()
            .map(|queue| (Component::Worker, queue.workers.most())),
    ])
    .filter_map(|(component, replicas)| disruption_budget::build(stack, component, replicas))
    .chain(disruption_budget::of_members(stack))
    .chain(disruption_budget::of_pooler(stack))
    .collect()
}

/// Returns the largest number of pods of the app without an edit of the spec.
fn most(app: &App) -> i32 {
    let limit = |scaling: &AppScaling| scaling.most().unwrap_or(i32::MAX);
    app.scaling.as_ref().map_or(app.replicas, limit)
}

/// Returns the stores that the operator runs.
fn managed_stores(stack: &ValidatedStack) -> impl Iterator<Item = &'static Definition> {
    let stores = stores::managed(stack).into_iter();
    stores.map(|(store, _)| store)
}

/// Returns the stores whose data is to be deleted: their part of the stack is off, and the deletion policy deletes
/// data.
fn discarded(stack: &ValidatedStack) -> Vec<Component> {
    if !stack.delete_data {
        return Vec::new();
    }
    let on = stack.profiles();
    // A RabbitmqCluster and its volumes go with the stack.
    let has_members = |store: &Definition| {
        store.component == Component::Rabbitmq && stack.broker_cluster.is_some()
    };
    let off = stores::all()
        .filter(|store| store.profile.is_some_and(|profile| !on.contains(&profile)))
        .filter(|store| !has_members(store));
    off.map(|store| store.component).collect()
}

/// Returns every store, if the deletion policy keeps data. One that is held, or that the spec no longer names, may have been
/// run under another policy, when its data got an owner.
fn released(stack: &ValidatedStack) -> Vec<Component> {
    if stack.delete_data {
        return Vec::new();
    }
    stores::all().map(|store| store.component).collect()
}

fn all<T, const N: usize>(children: [Option<T>; N]) -> impl Iterator<Item = T> {
    children.into_iter().flatten()
}

#[cfg(test)]
mod tests;
