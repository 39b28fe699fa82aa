//! First step: reads the objects that a stack depends on. It writes nothing.
//!
//! All random values are generated here, so that the later steps are pure. A credential is generated only when
//! neither its Secret nor the volume that needs it exists. Both are read live, because a stale answer would lock the
//! stack out of its database for good. What is still being deleted exists, but nothing may rely on it.

mod contents;
mod database_move;
mod gateway;
mod observability;
mod queue;
mod recorded;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Pod, Secret},
};
use kube::Api;
use shortener_operator_core::{
    api::{ShortenerStack, ShortenerStackSpec},
    model::{
        autoscaler,
        checksum::CHECKSUM_KEY,
        cloud_native_pg::{self, Cluster, OPERATOR_VERSION},
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY, checksum_name, job_ids_name, management_name},
        facts::{
            BrokerFact, ClaimFact, ClusterFact, CredentialState, Facts, MissingKeys, StoreFacts,
        },
        failure::StepFailure,
        kinds::Deletion,
        metadata::{Component, StackIdentity, is_for_backups, is_usable_by_stacks},
        ownership::is_ours,
        pooler::{self, Pooler},
        rabbitmq_cluster::{self, RabbitmqCluster},
    },
    plan::{
        drain,
        references::{self, StoreReference},
    },
};

use super::context::Scope;
use crate::kubernetes::refusal;

/// Reads everything that the later steps need.
///
/// # Errors
/// Fails if the API server refuses a read that concerns the whole stack, or does not answer it.
pub async fn gather(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: StackIdentity,
) -> Result<Facts, kube::Error> {
    let database = references::database(&stack.spec, &identity.name);
    let database = store_facts(scope, &identity, database).await;
    let queue = queue::facts(scope, stack, &identity);
    let drains = drain(stack, &queue).draining().is_some();
    let mut optional = optional_stores(scope, stack, &identity, drains).await;
    // Losing one of these keys does little harm. New checksums restart the pods once, a job that waits for a worker is
    // unknown until one has it, and the operator manages links with another key.
    let checksum_secret = checksum_name(&identity.name);
    let checksum_key = own_key(scope, &identity, &checksum_secret, CHECKSUM_KEY).await?;
    let job_ids_secret = job_ids_name(&identity.name);
    let job_ids = own_key(scope, &identity, &job_ids_secret, JOB_IDS_KEY).await?;
    let management_secret = management_name(&identity.name);
    let management = own_key(scope, &identity, &management_secret, MANAGEMENT_KEY).await?;
    let mut vector_key = None;
    if let Some(reference) = references::vector_key(&stack.spec) {
        match store::entry(scope, &identity, reference).await {
            Ok(entry) => vector_key = Some(entry),
            Err(error) => {
                optional.insert(Component::Qdrant, StoreFacts::Unread(unread(&error)));
            }
        }
    }
    let programs = programs(scope, &identity);
    Ok(Facts {
        backup_claim: backup_claim(scope, &identity, &stack.spec).await?,
        restore_claim_usable: restore_claim_usable(scope, &identity, &stack.spec).await,
        checksum_key,
        job_ids,
        management,
        vector_key,
        database,
        optional,
        queue,
        headers: observability::headers(scope, &identity, &stack.spec).await,
        contents: contents::contents(scope, &identity, &stack.spec, drains).await,
        has_monitoring_kinds: scope.inventory.serves_monitoring(),
        has_gateway_kinds: scope.inventory.serves_routes(),
        cluster: cluster(scope, stack, &identity),
        pooler_in_use: pooler_in_use(scope, &identity, &programs),
        database_move: database_move::facts(scope, stack, &identity).await?,
        broker_cluster: broker_cluster(scope, &identity),
        missing_keys: missing_keys(scope, stack, &identity),
        missing_webhook_secrets: missing_webhook_secrets(scope, stack, &identity),
        gateway: gateway::facts(scope, stack, &identity).await,
        drill: scope.context.drills.active(stack, (scope.context.clock)()),
        rival: autoscaler::rival(
            &scope
                .inventory
                .of_namespace::<HorizontalPodAutoscaler>(&identity.namespace),
            &identity,
        ),
        programs,
        recorded: recorded::records(scope, stack, &identity),
        identity,
    })
}

/// Reads the facts about the stores of the profiles that are on, and about a broker that drains.
async fn optional_stores(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
    drains: bool,
) -> BTreeMap<Component, StoreFacts> {
    let mut stores = references::optional(&stack.spec, &identity.name);
    stores.extend(drains.then(|| references::drained(&stack.spec, &identity.name)));
    let mut optional = BTreeMap::new();
    for reference in stores {
        let component = reference.0;
        let facts = store_facts(scope, identity, reference).await;
        optional.insert(component, facts);
    }
    optional
}

/// Reads the volume claim of the backups, if the stack keeps them in a volume.
async fn backup_claim(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
) -> Result<Option<ClaimFact>, kube::Error> {
    match &spec.database.backup {
        Some(backup) if backup.s3.is_none() => {
            store::claim(scope, identity, Component::Backup).await
        }
        _ => Ok(None),
    }
}

/// Returns true when the spec names a volume claim to begin with that stacks may use. Nothing but the database waits for it.
async fn restore_claim_usable(
    scope: &Scope,
    identity: &StackIdentity,
    spec: &ShortenerStackSpec,
) -> Result<bool, StepFailure> {
    let from = spec.database.restore_from.as_ref();
    let Some(name) = from.and_then(|from| from.claim_name.as_deref()) else {
        return Ok(false);
    };
    let claim = store::named_claim(scope, identity, name).await;
    let claim = claim.map_err(|error| unread(&error))?;
    Ok(claim.is_some_and(|claim| {
        is_usable_by_stacks(&claim.metadata) || is_for_backups(&claim.metadata)
    }))
}

/// Returns what is known about the Cluster of a stack.
fn cluster(scope: &Scope, stack: &ShortenerStack, identity: &StackIdentity) -> ClusterFact {
    let (inventory, namespace) = (&scope.inventory, &identity.namespace);
    if !inventory.serves_clusters() {
        return ClusterFact::Unserved;
    }
    let live = inventory.kept::<Cluster>(namespace, &cloud_native_pg::name(&identity.name));
    let (_, reference) = references::database(&stack.spec, &identity.name);
    let secret = reference.map(|reference| reference.secret.name);
    let secret = secret.and_then(|name| inventory.kept::<Secret>(namespace, &name));
    let annotations = secret
        .as_ref()
        .and_then(|secret| secret.metadata.annotations.as_ref());
    let version = annotations.and_then(|found| found.get(OPERATOR_VERSION));
    ClusterFact::of(live.as_deref(), version.map(String::as_str), identity)
}

/// Returns true when the stack has a pooler to which a pod of its programs may still connect.
fn pooler_in_use(
    scope: &Scope,
    identity: &StackIdentity,
    programs: &BTreeMap<Component, Arc<Deployment>>,
) -> bool {
    let (inventory, namespace) = (&scope.inventory, &identity.namespace);
    let live = inventory.kept::<Pooler>(namespace, &pooler::name(&identity.name));
    let pods = inventory.of_stack::<Pod>(namespace, &identity.name);
    pooler::is_in_use(live.as_deref(), identity, programs, &pods)
}

/// Returns what is known about the RabbitmqCluster of a stack.
fn broker_cluster(scope: &Scope, identity: &StackIdentity) -> BrokerFact {
    let inventory = &scope.inventory;
    if !inventory.serves_brokers() {
        return BrokerFact::default();
    }
    let name = rabbitmq_cluster::name(&identity.name);
    let live = inventory.kept::<RabbitmqCluster>(&identity.namespace, &name);
    BrokerFact::of(live.as_deref(), identity)
}

/// Reads the facts about a store. A read that fails concerns that store alone.
async fn store_facts(
    scope: &Scope,
    identity: &StackIdentity,
    (component, external): StoreReference,
) -> StoreFacts {
    let facts = store::facts(scope, identity, component, external).await;
    facts.unwrap_or_else(|error| StoreFacts::Unread(unread(&error)))
}

/// Returns the failure to read the facts about a component.
fn unread(error: &kube::Error) -> StepFailure {
    StepFailure {
        reason: refusal::reason(error, "ReadFailed"),
        message: format!(
            "cannot read a Secret or the volume claim of the component: {}",
            refusal::sentence(error)
        ),
        needs_an_edit: false,
        waits: false,
    }
}

/// Reads a Secret of the stack's own with one key, or generates its data.
async fn own_key(
    scope: &Scope,
    identity: &StackIdentity,
    secret: &str,
    key: &str,
) -> Result<CredentialState, kube::Error> {
    Ok(match read_secret(scope, identity, secret).await? {
        Some(secret) => CredentialState::of(secret, identity),
        None => CredentialState::Generated(store::generated(&[key])),
    })
}

/// Returns the Deployments of the stack's own programs that exist.
fn programs(scope: &Scope, identity: &StackIdentity) -> BTreeMap<Component, Arc<Deployment>> {
    let live = [Component::App, Component::Worker, Component::Webhooks].map(|component| {
        let live = scope.child::<Deployment>(identity, component)?;
        let ours = is_ours(&live.metadata, identity, Deletion::Pruned);
        ours.then_some((component, live))
    });
    live.into_iter().flatten().collect()
}

/// Returns which Secrets with keys do not exist although the spec refers to them. Their content stays unread: only the app
/// needs the keys.
fn missing_keys(scope: &Scope, stack: &ShortenerStack, identity: &StackIdentity) -> MissingKeys {
    let is_missing = |name: &str| {
        !scope
            .inventory
            .contains::<Secret>(&identity.namespace, name)
    };
    MissingKeys {
        of_clients: references::keys_secret(&stack.spec).is_some_and(is_missing),
        of_proxy: references::auth_proxy_secret(&stack.spec).is_some_and(is_missing),
    }
}

/// Returns the Secrets of receivers of webhooks that do not exist. Their content stays unread: only the delivery needs it.
fn missing_webhook_secrets(
    scope: &Scope,
    stack: &ShortenerStack,
    identity: &StackIdentity,
) -> BTreeSet<String> {
    let secrets = references::webhook_secrets(&stack.spec);
    let missing = secrets.filter(|name| {
        !scope
            .inventory
            .contains::<Secret>(&identity.namespace, name)
    });
    missing.map(str::to_owned).collect()
}

async fn read_secret(
    scope: &Scope,
    identity: &StackIdentity,
    name: &str,
) -> Result<Option<Secret>, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(scope.context.client.clone(), &identity.namespace);
    secrets.get_opt(name).await
}
