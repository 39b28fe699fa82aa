//! Settings of a running operator, from the command line and the environment.

mod images;
mod registry;
mod values;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use clap::{ArgMatches, Args, builder::RangedU64ValueParser, parser::ValueSource};
use k8s_openapi::{
    api::networking::v1::NetworkPolicyPeer, apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use shortener_operator_core::model::defaults::{Defaults, PodTemplatePolicy};

pub use images::DefaultImages;
pub use registry::ImageRegistry;
pub use values::{Hosts, Labels, Namespaces, Peers, Share};

/// Label that Kubernetes sets on every namespace, with the namespace's name as its value.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Settings of a running operator, from flags or environment variables.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Default images, used for components whose image a stack does not set
    #[command(flatten)]
    pub images: DefaultImages,
    /// Registry (`host:port/path`) with copies of the default images under their full paths; not used for an image
    /// that its own flag or variable sets
    #[arg(long, env = "IMAGE_REGISTRY")]
    pub image_registry: Option<ImageRegistry>,
    /// Namespaces to watch, separated by commas; empty for all
    #[arg(long, env = "WATCH_NAMESPACES", default_value = "")]
    pub watch_namespaces: Namespaces,
    /// Class of the stacks to reconcile, as in their `spec.operatorClass`; empty for those without one
    #[arg(long, env = "OPERATOR_CLASS", default_value = "", value_parser = values::class)]
    pub operator_class: String,
    /// Peers that may connect to the stacks' gateways by default: a JSON list of NetworkPolicyPeer
    #[arg(long, env = "GATEWAY_ALLOW_FROM", default_value = INGRESS_NGINX)]
    pub gateway_allow_from: Peers,
    /// What users who edit stacks can do with podTemplate: `Restricted` or `Unrestricted`
    #[arg(long, env = "POD_TEMPLATE_POLICY", default_value = "Restricted", value_parser = values::pod_template_policy)]
    pub pod_template_policy: PodTemplatePolicy,
    /// Hosts besides a stack's own to which end-to-end probes may go, separated by commas; `*.` stands for any subdomain
    #[arg(
        long,
        env = "PROBE_HOSTS",
        default_value = "*.ingress-nginx.svc,*.ingress-nginx.svc.cluster.local"
    )]
    pub probe_hosts: Hosts,
    /// Address of /livez, /readyz and /metrics; `[::]` means every IPv6 and IPv4 address
    #[arg(long, env = "LISTEN", default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// Name of the operator's pod, its identity in the Lease
    #[arg(long, env = "POD_NAME")]
    pub pod_name: String,
    /// Namespace of the operator's pod and of the Lease
    #[arg(long, env = "POD_NAMESPACE")]
    pub pod_namespace: String,
    /// Labels that select the operator's pods, as key=value separated by commas
    #[arg(
        long,
        env = "OPERATOR_SELECTOR",
        default_value = "app.kubernetes.io/name=shortener-operator"
    )]
    pub operator_selector: Labels,
    /// Name of the Lease for leader election
    #[arg(long, env = "LEASE_NAME", default_value = "shortener-operator")]
    pub lease_name: String,
    /// Seconds without a renewal of the Lease after which another replica takes over
    #[arg(long, env = "LEASE_DURATION_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..=600))]
    pub lease_duration_seconds: u16,
    /// Maximum number of stacks that are reconciled at the same time
    #[arg(long, env = "MAX_CONCURRENT_RECONCILES", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub max_concurrent_reconciles: usize,
    /// Address of an OpenTelemetry collector that takes the traces of reconciles by OTLP over gRPC, such as
    /// `http://host:4317`; empty for no traces
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", default_value = "")]
    pub otlp_endpoint: String,
    /// Share of the reconciles that are traced, from 0 to 1
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG", default_value = "1")]
    pub trace_ratio: Share,
}

/// Peers that select the ingress-nginx controller by the labels of its own manifests.
const INGRESS_NGINX: &str = r#"[{
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}},
    "podSelector": {"matchLabels": {
        "app.kubernetes.io/name": "ingress-nginx",
        "app.kubernetes.io/component": "controller"
    }}
}]"#;

impl Settings {
    /// Replaces every default image with its copy in the configured registry, if there is one. An image that was set
    /// explicitly stays as it is.
    pub(super) fn follow_registry(&mut self, given: &ArgMatches) {
        if let Some(registry) = &self.image_registry {
            self.images.take_defaults_from(registry, |argument| {
                given.value_source(argument) == Some(ValueSource::DefaultValue)
            });
        }
    }

    /// Returns one entry per controller: a namespace each, or a single `None` for all namespaces.
    pub fn scopes(&self) -> Vec<Option<String>> {
        if self.watch_namespaces.0.is_empty() {
            return vec![None];
        }
        self.watch_namespaces.0.iter().cloned().map(Some).collect()
    }

    /// Returns the settings that stacks are resolved with.
    pub fn defaults(&self) -> Defaults {
        Defaults {
            images: self.images.clone().into(),
            gateway_allow_from: self.gateway_allow_from.0.clone(),
            operator: self.operator_peer(),
            pod_template_policy: self.pod_template_policy,
            probe_hosts: self.probe_hosts.0.clone(),
        }
    }

    /// Returns the operator's own pods as a peer of a NetworkPolicy.
    pub fn operator_peer(&self) -> NetworkPolicyPeer {
        let own_namespace =
            BTreeMap::from([(NAMESPACE_NAME_LABEL.to_owned(), self.pod_namespace.clone())]);
        NetworkPolicyPeer {
            namespace_selector: Some(match_labels(own_namespace)),
            pod_selector: Some(match_labels(self.operator_selector.0.clone())),
            ip_block: None,
        }
    }

    /// Returns the duration for which the Lease protects its holder.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration_seconds.into())
    }
}

fn match_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    }
}
