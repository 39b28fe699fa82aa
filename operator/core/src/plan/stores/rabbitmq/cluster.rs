//! The broker that RabbitMQ's operator runs: its RabbitmqCluster, and the verdict on it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_core::ResourceExt;
use serde_json::{Map, Value, json};

use super::{config_map, resolve::RULE, server};
use crate::{
    api::{DEFAULT_STORAGE, Profile, ShortenerStack, UpgradePolicy},
    model::{
        defaults::Defaults,
        facts::{BrokerFact, ClusterFact, LiveBroker},
        metadata::{Component, NAME_LABEL},
        rabbitmq_cluster::{RUNNER, RabbitmqCluster, RabbitmqClusterSpec, name},
        stack::{BrokerCluster, StoreCluster, ValidatedStack},
    },
    plan::{
        error::ValidateError,
        stores::common::{self, Template, merged},
        verdict::{Verdict, View},
    },
};

/// Seconds for which a member that stops waits for the queues to work without it. RabbitMQ's operator waits a week if it is
/// not told otherwise, also for the last member of a broker that stops.
const GRACE: i32 = 120;

const TEMPLATE: Template = Template {
    field: RUNNER.field,
    admitted: &[
        "affinity",
        "autoEnableAllFeatureFlags",
        "delayStartSeconds",
        "image",
        "persistence.storage",
        "persistence.storageClassName",
        "resources",
        "skipPostDeploySteps",
        "terminationGracePeriodSeconds",
        "tolerations",
    ],
    never: &[
        (
            "replicas",
            "stands beside the template: set queue.rabbitmqCluster.replicas",
        ),
        (
            "override.statefulSet.spec.replicas",
            "stands beside the template: set queue.rabbitmqCluster.replicas",
        ),
        (
            "secretBackend",
            "would keep RabbitMQ's operator from making the Secret that the stack reads: remove it",
        ),
        (
            "tls",
            "is not supported, because the stack's programs connect to it without TLS: remove it, or run the broker yourself and name it in queue.external",
        ),
    ],
};

/// Returns the RabbitmqCluster that a stack asks for, if it asks for one. `draining` tells that a queue whose profile is off
/// still has jobs. A queue that is off keeps what exists without members, because its volumes may have jobs.
///
/// # Errors
/// The operator does not take a field of the template.
pub(in crate::plan) fn wanted(
    stack: &ShortenerStack,
    fact: &BrokerFact,
    draining: bool,
    defaults: &Defaults,
) -> Result<Option<BrokerCluster>, ValidateError> {
    let Some(wanted) = stack.spec.queue.rabbitmq_cluster.as_deref() else {
        return Ok(None);
    };
    let is_on = draining || stack.spec.profiles.contains(&Profile::Queue);
    let live = fact.live.as_ref();
    if !is_on && live.is_none() {
        return Ok(None);
    }
    let template = wanted.template.clone().unwrap_or_default();
    TEMPLATE.check(&template, defaults.is_restricted())?;
    let storage = wanted.storage.as_deref().unwrap_or(DEFAULT_STORAGE);
    let restarts_with = live.and_then(|live| live.restarts_with);
    Ok(Some(BrokerCluster {
        running: match is_on && !stack.spec.stopped {
            true => restarts_with.unwrap_or(wanted.replicas),
            false => 0,
        },
        image: image(stack, live, &defaults.images.rabbitmq).to_owned(),
        servers: StoreCluster {
            members: wanted.replicas,
            storage: Quantity(storage.to_owned()),
            storage_class: wanted.storage_class_name.clone(),
            template,
        },
    }))
}

/// Returns the image of the members: the default one, if the step to it is allowed and no release is held back.
fn image<'a>(stack: &ShortenerStack, live: Option<&'a LiveBroker>, default: &'a str) -> &'a str {
    let live = live.and_then(|live| live.image.as_deref());
    let holds = stack.spec.upgrade_policy == UpgradePolicy::OnSpecChange;
    match live {
        Some(live) if holds || !RULE.leads(live, default) => live,
        _ => default,
    }
}

/// Checks that every member was ready once. Before, nothing else of the stack needs the Secret.
///
/// # Errors
/// The cluster lacks the kind, or the broker is still being made.
pub(super) fn check(stack: &ShortenerStack, fact: &ClusterFact) -> Result<(), ValidateError> {
    match stack.spec.queue.rabbitmq_cluster {
        Some(_) => common::check_started(&RUNNER, name(&stack.name_any()), fact),
        None => Ok(()),
    }
}

/// Returns the RabbitmqCluster of a stack. RabbitMQ's operator fills in everything that is not here.
pub(in crate::plan) fn build(stack: &ValidatedStack) -> Option<RabbitmqCluster> {
    let wanted = stack.broker_cluster.as_ref()?;
    let cluster = name(&stack.identity.name);
    let metadata = stack.data_metadata(cluster.clone(), Component::Rabbitmq);
    let mut spec = spec(&cluster, wanted);
    if !stack.image_pull_secrets.is_empty() {
        spec["imagePullSecrets"] = json!(stack.image_pull_secrets);
    }
    let mut template = wanted.servers.template.clone();
    follow(&spec, &mut template);
    Some(RabbitmqCluster {
        metadata,
        spec: RabbitmqClusterSpec {
            fields: merged(spec, template),
        },
        status: None,
    })
}

fn spec(cluster: &str, wanted: &BrokerCluster) -> Value {
    let BrokerCluster {
        servers,
        running,
        image,
    } = wanted;
    let mut spec = json!({
        "replicas": running,
        "image": image,
        "persistence": {"storage": servers.storage},
        "terminationGracePeriodSeconds": GRACE,
        "rabbitmq": {"additionalConfig": config_map::of_members(servers.members)},
        // RabbitMQ's operator spreads the members over zones only.
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {NAME_LABEL: cluster}},
            },
        }]}},
        "override": {"statefulSet": {"spec": {"template": {"spec": pod()}}}},
    });
    if let Some(class) = &servers.storage_class {
        spec["persistence"]["storageClassName"] = json!(class);
    }
    spec
}

/// Returns the changes of the members' pods, which Kubernetes merges by the names of the containers: pods that namespaces
/// with the Pod Security Standard `restricted` admit, and the settings of the Erlang VM.
fn pod() -> Value {
    let restricted = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
    });
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [{"name": "setup-container", "securityContext": restricted}],
        "containers": [{
            "name": "rabbitmq",
            "securityContext": restricted,
            "env": server::of_member(),
        }],
    })
}

/// Lets the configuration of a template follow that of a spec. RabbitMQ takes the last line for a setting.
fn follow(spec: &Value, template: &mut Map<String, Value>) {
    let own = spec.pointer("/rabbitmq/additionalConfig");
    let rabbitmq = template.get_mut("rabbitmq").and_then(Value::as_object_mut);
    let added = rabbitmq.and_then(|rabbitmq| rabbitmq.get_mut("additionalConfig"));
    if let (Some(Value::String(own)), Some(Value::String(added))) = (own, added) {
        added.insert_str(0, own);
    }
}

/// Returns the verdict on a broker that RabbitMQ's operator runs: what the stack's programs say, then the RabbitmqCluster's
/// own.
pub(super) fn verdict(view: View<'_>, wanted: &BrokerCluster, without: &str) -> Verdict {
    let cluster = name(&view.stack.identity.name);
    if view.stack.stopped {
        return Verdict::yes(
            "Stopped",
            format!("RabbitmqCluster {cluster} has no members"),
        );
    }
    let live = view.live.broker_cluster.as_deref();
    let members = i64::from(wanted.servers.members);
    let is_whole = live.is_some_and(|live| live.is_whole() && live.replicas() == Some(members));
    if let Some(verdict) = common::of_cluster(view, Component::Rabbitmq, &RUNNER, is_whole) {
        return verdict;
    }
    if is_whole {
        let message = format!("{members} members of RabbitmqCluster {cluster} are ready");
        return Verdict::yes(CLUSTER_READY, message);
    }
    let said = live.and_then(RabbitmqCluster::phase);
    let said = said.as_deref().unwrap_or("its operator is at work");
    let message = format!(
        "RabbitmqCluster {cluster} has not {members} members that are ready ({said}); {without}"
    );
    let verdict = match live.is_some_and(RabbitmqCluster::is_stuck) {
        true => Verdict::fault("ClusterStuck", message),
        false => Verdict::no("ClusterNotReady", message),
    };
    // RabbitMQ's operator does not say whether more than half are left, which jobs need. Links do not.
    verdict.serving(live.is_some_and(RabbitmqCluster::is_available))
}

/// Reason while every member is ready.
pub(super) const CLUSTER_READY: &str = "ClusterReady";

#[cfg(test)]
mod tests;
