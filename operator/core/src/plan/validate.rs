//! Second step: from the spec and the gathered facts to a stack that can be built, as far as nothing is missing. Pure.
//!
//! The schema and its CEL rules refuse at admission whatever they can. The checks here depend on other objects of the
//! cluster.

mod auth;
mod backup;
mod contents;
mod end_to_end;
mod gateway;
mod held;
mod links;
mod monitoring;
mod observability;
mod own_keys;
mod pod_templates;
mod requests;
mod scaling;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::apps::v1::Deployment;

use super::{
    app_resources, build,
    drain::drain,
    error::ValidateError,
    pod_settings::pod,
    stores::{
        cache,
        common::{StoreContext, credential},
        postgres, qdrant, rabbitmq,
    },
};
use crate::{
    api::{DeletionPolicy, Profile, ShortenerStack, ShortenerStackSpec},
    model::{
        checksum::CHECKSUM_KEY,
        credentials,
        defaults::Defaults,
        facts::{
            BrokerFact, ClusterFact, CredentialState, Facts, GatewayFacts, MissingKeys, MoveFacts,
            QueueFacts, Referenced, StoreFacts,
        },
        metadata::Component,
        stack::{
            App, Autoscaled, BrokerCluster, Cache, Credential, DatabaseMove, Gateway, MoveStep,
            Purge, Queue, Store, StoreCluster, ValidatedStack, Vector, Workers,
        },
        worker_demand::WorkerCount,
    },
};
use held::HeldComponents;
use own_keys::OwnKeys;

/// Base URL of the short links if the spec contains neither an address nor a host.
const LOCAL_URL: &str = "http://localhost:8080";
/// Times of the removal of expired data if the spec contains none.
const PURGE_SCHEDULE: &str = "17 3 * * *";
/// Number of days for which finished jobs stay if the spec contains none.
const RETENTION_DAYS: i32 = 30;

/// Resolves every default and checks the spec against its surroundings. A component that does not pass is held.
///
/// # Errors
/// [`ValidateError`] with the remedy if an annotation asks for something unknown, or a key is missing from which the
/// operator makes every checksum and identifier. The stack's objects stay unchanged until it is followed.
pub fn validate(
    stack: &ShortenerStack,
    facts: Facts,
    defaults: &Defaults,
) -> Result<ValidatedStack, ValidateError> {
    let (spec, identity, mut optional) = (&stack.spec, facts.identity, facts.optional);
    let checksum_key = own_key(facts.checksum_key, &identity.name)?;
    let near = StoreContext::new(stack, &checksum_key, defaults);
    let keys = OwnKeys::of(&near, facts.job_ids, facts.management)?;
    let (gateway, mut held) = check(stack, defaults, &identity.namespace, facts.gateway)?;
    let (found, programs) = (facts.database_move, &facts.programs);
    let asked = (facts.database, &facts.cluster);
    let data = database(&near, asked, (found, programs), &mut held);
    let cache = self::cache(&near, &mut optional, &mut held);
    let workers = workers(spec, defaults, scaling::workers(spec, &facts.queue));
    let queue = (optional.remove(&Component::Rabbitmq), &facts.broker_cluster);
    let (queue, broker_cluster) = self::queue(&near, queue, (workers, &facts.queue), &mut held);
    let vector = self::vector(&near, &mut optional, facts.vector_key, &mut held);
    let own_backend = optional.remove(&Component::Telemetry);
    let collector = observability::collector(&near, own_backend, facts.headers, &mut held);
    let monitoring = monitoring::monitoring(&spec.monitoring, collector.is_some());
    let app = app(spec, defaults, &gateway, facts.missing_keys, keys);
    let live = facts.programs.get(&Component::App).map(|live| &**live);
    let mut validated = ValidatedStack {
        public_url: public_url(spec, &gateway.hosts),
        stopped: spec.stopped,
        delete_data: spec.deletion_policy == DeletionPolicy::Delete,
        image_pull_secrets: spec.image_pull_secrets.clone(),
        app: scaling::app(app, stack, live, facts.rival),
        gateway,
        backup: backup::backup(&near, &identity, data.store.as_ref(), facts.backup_claim),
        database: data.store,
        cluster: data.cluster,
        takes_no_writes: data.takes_no_writes,
        database_move: data.moving,
        pooler: postgres::pooler::wanted(stack),
        pooler_in_use: facts.pooler_in_use,
        broker_cluster,
        cache,
        queue,
        purge: purge(spec),
        webhooks: webhooks::webhooks(&spec.links, &facts.missing_webhook_secrets),
        restore_from: backup::restore(&near, &identity, facts.restore_claim_usable, &mut held),
        collector,
        monitoring: held.part(Component::Stack, monitoring).flatten(),
        has_monitoring_kinds: facts.has_monitoring_kinds,
        has_gateway_kinds: facts.has_gateway_kinds,
        has_cluster_kinds: facts.cluster != ClusterFact::Unserved,
        has_broker_kinds: facts.broker_cluster.state != ClusterFact::Unserved,
        vector,
        user_checksums: contents::checksums(&near, &facts.contents, &mut held),
        checksum_key,
        scrape_from: spec.observability.scrape_from.clone(),
        operator: defaults.operator.clone(),
        identity,
        held: BTreeMap::new(),
        kept_templates: BTreeMap::new(),
        pod_templates: BTreeMap::new(),
        refused_templates: BTreeSet::new(),
        drill: facts.drill,
        pending: Vec::new(),
    };
    pod_templates::add(spec, defaults, &facts.contents, &mut validated, &mut held);
    held.note(&mut validated, &facts.programs);
    Ok(validated)
}

/// The database of a stack.
#[derive(Default)]
struct Database {
    /// `None` while it is held.
    store: Option<Store>,
    /// The Cluster that holds it, if the stack asks for one.
    cluster: Option<StoreCluster>,
    /// The move of the links to the Cluster, while it lasts and has no error.
    moving: Option<DatabaseMove>,
    takes_no_writes: bool,
}

/// Returns the database. Until the links have moved to a Cluster, the programs keep the managed database, so it is held.
fn database(
    near: &StoreContext<'_>,
    facts: (StoreFacts, &ClusterFact),
    (found, programs): (MoveFacts, &BTreeMap<Component, Arc<Deployment>>),
    held: &mut HeldComponents,
) -> Database {
    // An error on the way changes nothing about it.
    let is_frozen = postgres::moving::takes_no_writes(near, &found, programs);
    let database = resolved(near, facts, (found, programs), held).unwrap_or_default();
    Database {
        takes_no_writes: database.store.is_none() && (is_frozen || database.moving.is_some()),
        ..database
    }
}

/// Returns the database as far as nothing holds it.
fn resolved(
    near: &StoreContext<'_>,
    (facts, fact): (StoreFacts, &ClusterFact),
    (found, programs): (MoveFacts, &BTreeMap<Component, Arc<Deployment>>),
    held: &mut HeldComponents,
) -> Option<Database> {
    let cluster = postgres::cluster::wanted(near.stack, near.defaults);
    let cluster = held.part(Component::Postgres, cluster)?;
    let moving = postgres::moving::of(near, found, (&facts, fact), programs, cluster.as_ref());
    let moving = held.part(Component::Postgres, moving)?;
    let store = match &moving {
        Some(moving) if moving.step < MoveStep::Switching => {
            Err(postgres::moving::waits(near, moving.step, fact))
        }
        _ => postgres::resolve(near, facts, fact),
    };
    Some(Database {
        store: held.part(Component::Postgres, store),
        cluster,
        moving,
        takes_no_writes: false,
    })
}

/// Returns the cache, if there are facts about it.
fn cache(
    near: &StoreContext<'_>,
    optional: &mut BTreeMap<Component, StoreFacts>,
    held: &mut HeldComponents,
) -> Option<Cache> {
    let facts = optional.remove(&Component::Cache)?;
    held.part(Component::Cache, cache::resolve(near, facts))
}

/// Returns the vector store, if there are facts about it.
fn vector(
    near: &StoreContext<'_>,
    optional: &mut BTreeMap<Component, StoreFacts>,
    key: Option<Referenced>,
    held: &mut HeldComponents,
) -> Option<Vector> {
    let facts = optional.remove(&Component::Qdrant)?;
    held.part(Component::Qdrant, qdrant::resolve(near, facts, key))
}

/// Returns the queue, if there are facts about its broker, and the RabbitmqCluster that holds it, if the stack asks for one.
fn queue(
    near: &StoreContext<'_>,
    (facts, fact): (Option<StoreFacts>, &BrokerFact),
    (workers, known): (Workers, &QueueFacts),
    held: &mut HeldComponents,
) -> (Option<Queue>, Option<BrokerCluster>) {
    let draining = drain(near.stack, known).draining();
    let cluster = rabbitmq::cluster::wanted(near.stack, fact, draining.is_some(), near.defaults);
    let Some(cluster) = held.part(Component::Rabbitmq, cluster) else {
        return (None, None);
    };
    let queue = facts.map(|facts| rabbitmq::resolve(near, (facts, &fact.state), workers, draining));
    let queue = queue.and_then(|queue| held.part(Component::Rabbitmq, queue));
    (queue, cluster)
}

/// Checks the requests in annotations, and the components that are resolved in any case. Returns the gateway, and the
/// components that are held.
fn check(
    stack: &ShortenerStack,
    defaults: &Defaults,
    namespace: &str,
    facts: GatewayFacts,
) -> Result<(Gateway, HeldComponents), ValidateError> {
    requests::check(stack)?;
    let spec = &stack.spec;
    let gateway = gateway::gateway(spec, defaults, namespace, facts);
    let mut held = HeldComponents::default();
    held.part(Component::Gateway, gateway::check(spec));
    let public_url = public_url(spec, &gateway.hosts);
    let links = links::check(&spec.links, &public_url, &gateway.hosts);
    held.part(Component::App, links);
    Ok((gateway, held))
}

/// Returns the base URL of the short links, without a trailing slash. `hosts` are those that the stack serves.
pub fn public_url(spec: &ShortenerStackSpec, hosts: &[String]) -> String {
    if let Some(url) = &spec.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    match hosts.first() {
        Some(host) if spec.gateway.tls.is_some() => format!("https://{host}"),
        Some(host) => format!("http://{host}"),
        None => LOCAL_URL.to_owned(),
    }
}

/// Returns the stack's own key for checksums.
fn own_key(state: CredentialState, stack: &str) -> Result<Credential, ValidateError> {
    let secret = credentials::checksum_name(stack);
    credential(state, &secret, stack, &[CHECKSUM_KEY])
}

fn app(
    spec: &ShortenerStackSpec,
    defaults: &Defaults,
    gateway: &Gateway,
    missing_keys: MissingKeys,
    keys: OwnKeys,
) -> App {
    let cors = spec.gateway.cors.clone();
    let documents = spec.profiles.contains(&Profile::Vector);
    let mut console = spec.console.clone().unwrap_or_default();
    if let Some(route) = &gateway.console {
        console.host = Some(route.host.clone());
    }
    App {
        replicas: if spec.stopped { 0 } else { spec.app.replicas },
        scaling: None,
        pod: pod(
            &spec.app.pod,
            &defaults.images.app,
            app_resources::default_resources(documents),
        ),
        limits: spec.rate_limits.clone(),
        trusted_hops: spec.gateway.trusted_hops,
        trust_incoming_trace: spec.gateway.trust_incoming_trace,
        client_address: spec.logs.clone().unwrap_or_default().client_address,
        expose_metrics: spec.gateway.expose_metrics,
        auth: auth::auth(spec, missing_keys),
        job_ids: keys.job_ids,
        management: keys.management,
        links: spec.links.clone(),
        console,
        cors: cors.map(|cors| cors.allow_origins).unwrap_or_default(),
    }
}

fn workers(
    spec: &ShortenerStackSpec,
    defaults: &Defaults,
    autoscaling: Option<Autoscaled>,
) -> Workers {
    let count = autoscaling.as_ref().map(|autoscaled| &autoscaled.count);
    Workers {
        replicas: match count {
            Some(WorkerCount { replicas, .. }) => *replicas,
            None if spec.stopped => 0,
            None => spec.workers.replicas,
        },
        autoscaling,
        pod: pod(
            &spec.workers.pod,
            &defaults.images.worker,
            build::worker::default_resources(),
        ),
    }
}

fn purge(spec: &ShortenerStackSpec) -> Purge {
    let purge = spec.workers.purge.clone().unwrap_or_default();
    let schedule = purge.schedule.unwrap_or_else(|| PURGE_SCHEDULE.to_owned());
    Purge {
        schedule: Some(schedule).filter(|schedule| !schedule.is_empty()),
        retention_days: purge.retention_days.unwrap_or(RETENTION_DAYS),
        audit_days: purge.audit_days,
        document_days: purge.document_days,
        click_days: spec.links.clicks.and_then(|clicks| clicks.retention_days),
    }
}

#[cfg(test)]
mod tests;
