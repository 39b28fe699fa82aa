//! The settings of the operator that a stack is resolved with, as plain data.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;

/// The settings of the operator that a stack is resolved with.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Images of the components whose image a stack does not set.
    pub images: Images,
    /// Peers that may connect to a gateway behind an ingress controller, if the stack names none.
    pub gateway_allow_from: Vec<NetworkPolicyPeer>,
    /// Peer that selects the operator's own pods.
    pub operator: NetworkPolicyPeer,
    pub pod_template_policy: PodTemplatePolicy,
    /// Hosts besides the stack's own to which the operator sends end-to-end probes; `*.` stands for any subdomain, and `*`
    /// for any host.
    pub probe_hosts: Vec<String>,
}

impl Defaults {
    /// Returns true when users who edit a stack may use only those Secrets that are labelled for it.
    pub fn is_restricted(&self) -> bool {
        self.pod_template_policy == PodTemplatePolicy::Restricted
    }
}

/// What users who edit a stack can do with its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodTemplatePolicy {
    /// They run programs with no more rights than the operator's own, and read Secrets that have the label
    /// [`USABLE_BY_STACKS`](crate::model::metadata::USABLE_BY_STACKS).
    Restricted,
    /// They run any program, with every ServiceAccount and Secret of the namespace.
    Unrestricted,
}

/// Images of the components whose image a stack does not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    pub app: String,
    pub gateway: String,
    /// Image of a managed database whose volume is new or was created by PostgreSQL 18.
    pub postgres: String,
    /// Image of a managed database whose volume was created by PostgreSQL 17.
    pub postgres_17: String,
    /// Image of the managed cache.
    pub cache: String,
    /// Image of the managed broker.
    pub rabbitmq: String,
    pub worker: String,
    /// Image of the managed collector of traces and logs.
    pub otel: String,
    /// Image of the managed backend of traces, logs and metrics.
    pub telemetry: String,
    /// Image of the managed vector store.
    pub qdrant: String,
    /// Image of rclone, which copies backups to and from an object store.
    pub rclone: String,
}
