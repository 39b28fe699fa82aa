//! The facts about a stack's surroundings that the operator reads before it decides.

mod claim;
mod cluster;
mod gateway;
mod host_conflict;
mod pod_contents;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::Secret,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    access::{self, Access, Part},
    drill::ActiveDrill,
    external::{ExternalReference, TlsFile},
    failure::StepFailure,
    kinds::Deletion,
    metadata::{Component, StackIdentity},
    ownership::{Ownership, ownership},
    queue_record::QueueRecord,
    record::PodRecord,
    stack::Rival,
};
use crate::api::{ApiKeyRef, SecretKeyRef};

pub use claim::ClaimFact;
pub use cluster::{BrokerFact, ClusterFact, LiveBroker};
pub use gateway::{GatewayFacts, parents};
pub use host_conflict::{HOST_CONFLICT, HostClaim, host_conflict, waits_for_host};
pub use pod_contents::{PodContents, ReadSecret, ReadSecrets};

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

#[derive(Clone, Debug)]
pub enum StoreFacts {
    /// A store that the operator runs.
    Managed {
        /// The Secret `<stack>-<component>`.
        credentials: CredentialState,
        /// The server that runs on its volume, if there is one.
        running: Option<RunningServer>,
        /// Its PersistentVolumeClaim, if that exists.
        claim: Option<ClaimFact>,
    },
    /// A store that the operator does not run.
    External {
        /// Reference to the Secret with the address and the credentials.
        reference: SecretKeyRef,
        /// Address and credentials, if the Secret and its keys exist.
        found: Option<ExternalAccess>,
        /// Certificates and keys of its clients, if the spec asks for TLS.
        tls: Option<Vec<TlsEntry>>,
    },
    /// A store whose Secrets or volume claim could not be read.
    Unread(StepFailure),
}

/// The server of a store that the operator runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    pub image: String,
    /// True when a pod of this image is ready, so that it reads the data.
    pub is_ready: bool,
}

impl RunningServer {
    /// Returns the server of a StatefulSet with one pod.
    pub fn of(live: &StatefulSet) -> Option<Self> {
        let spec = live.spec.as_ref()?;
        let container = spec.template.spec.as_ref()?.containers.first()?;
        let is_ready = live.status.as_ref().is_some_and(|status| {
            let has_pod = status.updated_replicas > Some(0) && status.ready_replicas > Some(0);
            has_pod && status.observed_generation >= live.metadata.generation
        });
        Some(Self {
            image: container.image.clone()?,
            is_ready,
        })
    }
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

/// Facts about the queue. The drain of a queue whose profile is off depends on them, and the number of workers if it
/// follows the queue.
#[derive(Clone, Debug, Default)]
pub struct QueueFacts {
    /// The objects of the queue that exist.
    pub parts: QueueParts,
    /// True when no client can publish jobs any more.
    pub closed: bool,
    /// Number of workers that the cluster has, if their Deployment exists.
    pub workers: Option<i32>,
    /// The known state of the queue.
    pub record: QueueRecord,
}

impl QueueFacts {
    /// Returns true when the queue may still hold jobs: its objects tell so, or all of them vanished in mid drain.
    pub fn may_hold_jobs(&self) -> bool {
        self.parts.may_hold_jobs() || self.record.is_draining()
    }
}

/// The objects of a queue that exist and belong to the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueParts {
    /// True when the workers' Deployment exists.
    pub workers: bool,
    /// True when the broker's StatefulSet exists, or its RabbitmqCluster has members.
    pub broker: bool,
    /// True when the broker's Service exists. A broker that the operator does not run has none.
    pub service: bool,
}

impl QueueParts {
    /// Returns true when the queue may still hold jobs. A person may have deleted either the workers or the broker, whose
    /// jobs are in its volume, so neither of them alone ends a drain. The workers and a Service without a broker tell
    /// such a deletion from workers of an external broker.
    fn may_hold_jobs(self) -> bool {
        self.broker || (self.workers && self.service)
    }
}

/// Address and credentials of an external server.
#[derive(Clone)]
pub struct ExternalAccess {
    /// The keys of the Secret that contain them.
    pub access: Access,
    /// The values of these keys.
    pub entries: BTreeMap<String, ByteString>,
}

impl ExternalAccess {
    /// Finds address and credentials of a server, of which clients accept these parts, in the data of a Secret; `None`
    /// if they are missing.
    pub fn find(
        parts: &[Part],
        reference: &ExternalReference,
        mut data: BTreeMap<String, ByteString>,
    ) -> Option<Self> {
        let access = match reference.by_parts {
            true => access::find_parts(parts, &data),
            false => access::find(parts, reference.secret.key.as_deref(), &data),
        }?;
        // A change of any other key is no reason to restart a pod.
        data.retain(|key, _| access.keys().contains(&key.as_str()));
        Some(Self {
            access,
            entries: data,
        })
    }
}

impl std::fmt::Debug for ExternalAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.access.fmt(formatter)
    }
}

/// A file that clients need for TLS.
#[derive(Clone)]
pub struct TlsEntry {
    /// Kind of the file, and its place.
    pub file: TlsFile,
    /// Its content, if the Secret and its key exist.
    pub value: Option<ByteString>,
}

impl std::fmt::Debug for TlsEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(formatter)
    }
}

/// An entry of a Secret that the spec refers to.
#[derive(Clone, Debug)]
pub struct Referenced {
    /// Reference to the entry.
    pub reference: ApiKeyRef,
    /// Its value, if the Secret and its key exist.
    pub value: Option<ByteString>,
    /// True when the label of the Secret admits it.
    pub usable: bool,
}

/// The headers for an external backend.
#[derive(Clone)]
pub struct HeaderFacts {
    pub secret: String,
    /// Its data, if it exists and could be read.
    pub data: Result<Option<BTreeMap<String, ByteString>>, StepFailure>,
    /// True when its label admits it.
    pub usable: bool,
}

impl std::fmt::Debug for HeaderFacts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HeaderFacts")
            .field("secret", &self.secret)
            .field("exists", &matches!(self.data, Ok(Some(_))))
            .finish()
    }
}

/// A Secret that the operator generates.
#[derive(Clone)]
pub enum CredentialState {
    Existing(BTreeMap<String, ByteString>),
    /// It does not exist yet and is to be created with this data.
    Generated(BTreeMap<String, ByteString>),
    /// It is missing although the volume that needs it exists.
    Missing,
    /// It is still being deleted, so nothing may rely on it.
    Terminating,
    /// It is missing, and the volume that needed it is still being deleted.
    ClaimTerminating,
    /// An object outside the stack has its name.
    NotOwned,
    /// It is missing, and a volume claim outside the stack has the name of its volume.
    ClaimNotOwned,
}

impl CredentialState {
    /// Returns the state of a Secret that exists.
    pub fn of(secret: Secret, identity: &StackIdentity) -> Self {
        let meta = &secret.metadata;
        match ownership(meta, identity, Deletion::Retained) {
            Ownership::Foreign => Self::NotOwned,
            Ownership::Ours if meta.deletion_timestamp.is_none() => {
                Self::Existing(secret.data.unwrap_or_default())
            }
            Ownership::Ours | Ownership::Previous => Self::Terminating,
        }
    }

    /// Returns the state of a Secret that does not exist, while a volume claim with the name of its volume does.
    pub fn absent_beside(claim: &ObjectMeta, identity: &StackIdentity) -> Self {
        match ownership(claim, identity, Deletion::Retained) {
            Ownership::Foreign => Self::ClaimNotOwned,
            Ownership::Ours if claim.deletion_timestamp.is_none() => Self::Missing,
            Ownership::Ours | Ownership::Previous => Self::ClaimTerminating,
        }
    }
}

impl std::fmt::Debug for CredentialState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Existing(_) => "Existing",
            Self::Generated(_) => "Generated",
            Self::Missing => "Missing",
            Self::Terminating => "Terminating",
            Self::ClaimTerminating => "ClaimTerminating",
            Self::NotOwned => "NotOwned",
            Self::ClaimNotOwned => "ClaimNotOwned",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::{model::ownership::ABSENT_OWNER_UID, testing::shared::stored_stack};

    /// Returns the state of the Secret with this metadata, and that of a lost Secret beside a claim with this metadata.
    fn states(metadata: serde_json::Value) -> [String; 2] {
        let identity = StackIdentity::of(&stored_stack(json!({}))).unwrap();
        let metadata: ObjectMeta = from_value(metadata).unwrap();
        let beside = CredentialState::absent_beside(&metadata, &identity);
        let secret = Secret {
            metadata,
            ..Secret::default()
        };
        [CredentialState::of(secret, &identity), beside].map(|state| format!("{state:?}"))
    }

    #[test]
    fn what_is_being_deleted_does_not_count_as_live() {
        let labels = json!({"app.kubernetes.io/instance": "acme"});
        assert_eq!(
            states(json!({"labels": labels.clone()})),
            ["Existing", "Missing"]
        );
        let going = ["Terminating", "ClaimTerminating"];
        let since = "2026-01-01T00:00:00Z";
        assert_eq!(
            states(json!({"labels": labels.clone(), "deletionTimestamp": since})),
            going
        );
        let owner = |kind: &str, uid: &str, controller: bool| {
            json!({"labels": labels.clone(), "ownerReferences": [{
                "apiVersion": "v1", "kind": kind, "name": "acme", "uid": uid, "controller": controller,
            }]})
        };
        assert_eq!(states(owner("ShortenerStack", "of-before", true)), going);
        assert_eq!(states(owner("StatefulSet", ABSENT_OWNER_UID, false)), going);
        let foreign = ["NotOwned", "ClaimNotOwned"];
        assert_eq!(states(owner("ExternalSecret", "theirs", true)), foreign);
        assert_eq!(states(json!({})), foreign);
    }
}
