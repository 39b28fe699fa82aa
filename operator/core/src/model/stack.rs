//! The data that passes between the steps of a reconcile before anything is written.
//!
//! [`ValidatedStack`] is the only input of the builders. It is complete, consistent and free of clients, clocks and
//! random sources.

mod auth;
mod backup;
mod conflict;
mod database_move;
mod end_to_end;
mod gateway;
mod monitoring;
mod observability;
mod own_key;
mod parent;
mod purge;
mod queue;
mod scaling;
mod store;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::{LocalObjectReference, PodTemplateSpec, ResourceRequirements},
        networking::v1::NetworkPolicyPeer,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    api::{ClientAddress, ConsoleSpec, LinksSpec, PendingChange, Profile, RateLimits},
    model::{
        drill::ActiveDrill,
        failure::StepFailure,
        metadata::{Component, StackIdentity},
        pod_patch::PodPatch,
    },
};

pub use auth::{Auth, AuthProxy};
pub use backup::{Backup, BackupPlace, Bucket, Restore, RestorePlace, Verification};
pub use conflict::{Entry, Exposure, HostConflict, Hosts};
pub use database_move::{DatabaseMove, MoveCopy, MoveStep};
pub use end_to_end::{EndToEnd, EndToEndTarget, ProbeKey};
pub use gateway::{ConsoleRoute, Gateway, Routing};
pub use monitoring::Monitoring;
pub use observability::{Backend, Collector, Headers, ResolvedBackend, ResolvedCollector};
pub use own_key::OwnKey;
pub use parent::Parent;
pub use purge::Purge;
pub use queue::{Autoscaled, BrokerOperator, Drain, Draining, Queue, Workers};
pub use scaling::{AppScaling, Rival};
pub use store::{
    BrokerCluster, Cache, Credential, ManagedStore, Store, StoreCluster, StorePooler, StoreTls,
    StoreVolume, Vector,
};
pub use webhook::Webhook;

/// A stack that was checked against its spec and its surroundings.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedStack {
    /// Name, namespace and owner reference.
    pub identity: StackIdentity,
    /// Base URL of the short links, without a trailing slash.
    pub public_url: String,
    /// True when every component is scaled to zero.
    pub stopped: bool,
    /// True when volumes and credentials are deleted with the stack.
    pub delete_data: bool,
    pub image_pull_secrets: Vec<LocalObjectReference>,
    pub app: App,
    pub gateway: Gateway,
    /// The database for the links; `None` while it is held.
    pub database: Option<Store>,
    /// The Cluster of CloudNativePG that holds the database, if the stack has one.
    pub cluster: Option<StoreCluster>,
    /// The pooler before that database, if the stack has one.
    pub pooler: Option<StorePooler>,
    /// True when the stack has a pooler to which a pod of its programs may still connect.
    pub pooler_in_use: bool,
    /// The move of the links from a managed database to the Cluster, while it lasts.
    pub database_move: Option<DatabaseMove>,
    /// True while the programs have a database that takes no writes: its links move to a Cluster, or an error has interrupted
    /// their move.
    pub takes_no_writes: bool,
    /// The RabbitmqCluster that holds the queue, if the stack has one.
    pub broker_cluster: Option<BrokerCluster>,
    /// The cache for copies of links.
    pub cache: Option<Cache>,
    /// The job queue and its workers.
    pub queue: Option<Queue>,
    /// The removal of expired data.
    pub purge: Purge,
    /// The receivers of webhooks.
    pub webhooks: Vec<Webhook>,
    /// The backups of the database; `None` without any, and while the database is held.
    pub backup: Option<Backup>,
    /// The backup with which the database begins.
    pub restore_from: Option<Restore>,
    /// The collector of traces and logs.
    pub collector: Option<Collector>,
    /// Settings of the monitoring objects for Prometheus and Grafana, if they are enabled.
    pub monitoring: Option<Monitoring>,
    /// True when the cluster serves the kinds of the Prometheus operator.
    pub has_monitoring_kinds: bool,
    /// True when the cluster serves the kinds of the Gateway API.
    pub has_gateway_kinds: bool,
    /// True when the cluster serves the kinds of CloudNativePG.
    pub has_cluster_kinds: bool,
    /// True when the cluster serves the kind of RabbitMQ's operator.
    pub has_broker_kinds: bool,
    /// The store that finds documents by their vectors.
    pub vector: Option<Vector>,
    /// Checksum of the Secrets that the pods of a component read because the user's settings name them.
    pub user_checksums: BTreeMap<Component, String>,
    /// The stack's own key for checksums; see [`crate::model::checksum`].
    pub checksum_key: Credential,
    /// Peers that may scrape the internal port.
    pub scrape_from: Vec<NetworkPolicyPeer>,
    /// Peer that selects the operator's own pods.
    pub operator: NetworkPolicyPeer,
    /// The components whose objects stay as they are, with the reason: something that they need is missing or invalid.
    /// `Stack` stands for the monitoring objects, and of the app it is the pod template.
    pub held: BTreeMap<Component, StepFailure>,
    /// The live pod templates of those programs that exist, and that read a part that is held or whose own pods are held.
    pub kept_templates: BTreeMap<Component, PodTemplateSpec>,
    /// The user's changes of the pod templates, except those that are refused.
    pub pod_templates: BTreeMap<Component, PodPatch>,
    /// The components that are held because the changes of their pod template are refused, or because a Secret that only
    /// those or `env` name could not be read. Of them, only the pods stay as they are.
    pub refused_templates: BTreeSet<Component>,
    /// The drill that takes a store away now.
    pub drill: Option<ActiveDrill>,
    /// The changes of pods that wait for an edit of the spec. Known once the children are built.
    pub pending: Vec<PendingChange>,
}

impl ValidatedStack {
    /// Returns the optional parts that are on, those that are held included.
    pub fn profiles(&self) -> Vec<Profile> {
        let on = |exists: bool, component| exists || self.is_held(component);
        let all = [
            (on(self.cache.is_some(), Component::Cache), Profile::Caching),
            // A queue that is being drained still has its objects.
            (
                on(self.queue.is_some(), Component::Rabbitmq),
                Profile::Queue,
            ),
            (self.collector.is_some(), Profile::Observability),
            (
                on(self.vector.is_some(), Component::Qdrant),
                Profile::Vector,
            ),
        ];
        let on = all.into_iter().filter(|(on, _)| *on);
        on.map(|(_, profile)| profile).collect()
    }

    /// Returns true when the objects of a component stay as they are.
    pub fn is_held(&self, component: Component) -> bool {
        self.held.contains_key(&component)
    }

    /// Returns the drill that takes a store away now.
    pub fn drill_of(&self, store: Component) -> Option<&ActiveDrill> {
        self.drill.as_ref().filter(|drill| drill.store == store)
    }

    /// Returns true when the app publishes jobs. To a queue that is being drained it does not.
    pub fn publishes_jobs(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.draining.is_none())
    }

    /// Returns the collector that the operator runs.
    pub fn own_collector(&self) -> Option<&ResolvedCollector> {
        self.collector.as_ref()?.managed()
    }

    /// Returns the backend of traces, logs and metrics that the operator runs.
    pub fn own_backend(&self) -> Option<&Store> {
        self.own_collector()?.own_backend()
    }

    /// Returns true when the stack has a backend of its own, be it held.
    pub fn has_own_backend(&self) -> bool {
        let held = matches!(self.collector, Some(Collector::Held { own_backend: true }));
        held || self.own_backend().is_some()
    }

    /// Returns true when something reads the metrics and shows the dashboard: Prometheus and Grafana of the cluster,
    /// or the stack's own backend.
    pub fn has_metrics_consumer(&self) -> bool {
        self.monitoring.is_some() || self.is_held(Component::Stack) || self.has_own_backend()
    }

    /// Returns the metadata of a child that holds data. Such a child outlives the stack unless the deletion policy
    /// deletes the data.
    pub fn data_metadata(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        let owner = self.delete_data.then(|| vec![self.identity.owner.clone()]);
        ObjectMeta {
            owner_references: owner,
            ..self.identity.retained(name, component)
        }
    }
}

/// The app of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    /// Scaling by an autoscaler, if there is one.
    pub scaling: Option<AppScaling>,
    pub pod: Pod,
    pub limits: RateLimits,
    /// Proxies before the app that append to `X-Forwarded-For`.
    pub trusted_hops: i32,
    /// True when the trace of a request's `traceparent` is continued.
    pub trust_incoming_trace: bool,
    /// What log lines and spans show of the address of a client.
    pub client_address: ClientAddress,
    /// True when port 3000 serves `/metrics`.
    pub expose_metrics: bool,
    /// The keys of clients, if the stack has any.
    pub auth: Option<Auth>,
    /// The key that marks the identifiers of jobs. The app knows by it which identifiers it gave out.
    pub job_ids: OwnKey,
    /// The key by which the app knows the operator on the port for its requests.
    pub management: OwnKey,
    /// Answers to visitors.
    pub links: LinksSpec,
    pub console: ConsoleSpec,
    /// Origins whose scripts may use the API.
    pub cors: BTreeSet<String>,
}

/// Settings of the pods of one component, with every default resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub image: String,
    /// Requests and limits of the main container.
    pub resources: ResourceRequirements,
}
