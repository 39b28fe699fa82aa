//! The facts about a stack's surroundings that the operator reads before it decides.

mod claim;
mod cluster;
mod credential;
mod database_move;
mod gateway;
mod host_conflict;
mod pod_contents;
mod queue;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{ByteString, api::apps::v1::Deployment};

use super::{
    drill::ActiveDrill,
    failure::StepFailure,
    metadata::{Component, StackIdentity},
    record::PodRecord,
    stack::Rival,
};
use crate::api::ApiKeyRef;

pub use claim::ClaimFact;
pub use cluster::{BrokerFact, ClusterFact, LiveBroker};
pub use credential::CredentialState;
pub use database_move::{CLUSTER_UID, MoveFacts, READ_ONLY, SERVER, is_frozen, is_stopped};
pub use gateway::{GatewayFacts, parents};
pub use host_conflict::{HOST_CONFLICT, HostClaim, host_conflict, waits_for_host};
pub use pod_contents::{PodContents, ReadSecret, ReadSecrets};
pub use queue::{QueueFacts, QueueParts};
pub use store::{ExternalAccess, RunningServer, StoreFacts, TlsEntry};

/// The facts that were read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name, namespace and owner reference.
    pub identity: StackIdentity,
    /// The stack's own key for checksums.
    pub checksum_key: CredentialState,
    /// The key that marks the identifiers of jobs.
    pub job_ids: CredentialState,
    /// The key with which the operator manages links.
    pub management: CredentialState,
    pub database: StoreFacts,
    /// Facts about each store of a profile that is on.
    pub optional: BTreeMap<Component, StoreFacts>,
    pub queue: QueueFacts,
    /// The headers for a backend of traces and logs, if the spec refers to any.
    pub headers: Option<HeaderFacts>,
    /// True when the cluster serves the kinds of the Prometheus operator.
    pub has_monitoring_kinds: bool,
    /// True when the cluster serves the kinds of the Gateway API.
    pub has_gateway_kinds: bool,
    /// The Cluster of CloudNativePG, if the stack has one.
    pub cluster: ClusterFact,
    /// True when the stack has a pooler to which a pod of its programs may still connect.
    pub pooler_in_use: bool,
    /// The objects of a move of the links to a Cluster, or back.
    pub database_move: MoveFacts,
    /// The RabbitmqCluster, if the stack has one.
    pub broker_cluster: BrokerFact,
    /// The volume claim of the backups, if the spec has one and it exists.
    pub backup_claim: Option<ClaimFact>,
    /// True when the volume claim of `database.restoreFrom` exists, and either the operator made it for backups or its label
    /// admits it.
    pub restore_claim_usable: Result<bool, StepFailure>,
    /// The API key of an external vector store, if the spec refers to one.
    pub vector_key: Option<Referenced>,
    pub missing_keys: MissingKeys,
    /// The Secrets of receivers of webhooks that do not exist.
    pub missing_webhook_secrets: BTreeSet<String>,
    /// Facts about the surroundings of the gateway.
    pub gateway: GatewayFacts,
    /// The drill that is active now.
    pub drill: Option<ActiveDrill>,
    /// An autoscaler of the app that the operator did not make.
    pub rival: Option<Rival>,
    /// The Deployments of the stack's own programs that exist.
    pub programs: BTreeMap<Component, Arc<Deployment>>,
    /// The records of the workloads of a stack that holds back the changes of a release.
    pub recorded: BTreeMap<Component, PodRecord>,
    /// The content of the Secrets that the pods of a component read because the user's settings name them, or the failure
    /// to read one.
    pub contents: BTreeMap<Component, Result<PodContents, StepFailure>>,
}

/// The Secrets with keys that do not exist although the spec refers to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingKeys {
    /// That with the keys of clients.
    pub of_clients: bool,
    /// That of the proxy that signs people in.
    pub of_proxy: bool,
}

impl Facts {
    /// Returns true when the facts about a component or its pods, or the key for the end-to-end probe, could not be read.
    pub fn is_incomplete(&self) -> bool {
        let mut stores = std::iter::once(&self.database).chain(self.optional.values());
        let headers = self.headers.as_ref();
        stores.any(|store| matches!(store, StoreFacts::Unread(_)))
            || headers.is_some_and(|headers| headers.data.is_err())
            || matches!(self.gateway.probe_key, Some(Err(_)))
            || self.restore_claim_usable.is_err()
            || self.contents.values().any(Result::is_err)
    }
}

/// An entry of a Secret that the spec refers to.
#[derive(Clone)]
pub struct Referenced {
    /// Reference to the entry.
    pub reference: ApiKeyRef,
    /// Its value, if the Secret and its key exist.
    pub value: Option<ByteString>,
    /// True when the label of the Secret admits it.
    pub usable: bool,
}

crate::debug_only!(Referenced: reference, usable);

/// The headers for an external backend.
#[derive(Clone)]
pub struct HeaderFacts {
    pub secret: String,
    /// Its data, if it exists and could be read.
    pub data: Result<Option<BTreeMap<String, ByteString>>, StepFailure>,
    /// True when its label admits it.
    pub usable: bool,
}

crate::debug_only!(HeaderFacts: secret, usable);
