//! Settings of a running operator, from the command line and the environment.

mod registry;
mod values;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use clap::{ArgMatches, Args, builder::RangedU64ValueParser, parser::ValueSource};
use k8s_openapi::{
    api::networking::v1::NetworkPolicyPeer, apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use shortener_operator_core::model::defaults::{Defaults, Images};

pub use registry::Registry;
pub use values::{Labels, Namespaces, Peers, SettingsError};

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
    pub image_registry: Option<Registry>,
    /// Namespaces to watch, separated by commas; empty for all
    #[arg(long, env = "WATCH_NAMESPACES", default_value = "")]
    pub watch_namespaces: Namespaces,
    /// Peers that may connect to the stacks' gateways by default: a JSON list of NetworkPolicyPeer
    #[arg(long, env = "GATEWAY_ALLOW_FROM", default_value = INGRESS_NGINX)]
    pub gateway_allow_from: Peers,
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
}

/// Default images, used for components whose image a stack does not set.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DefaultImages {
    /// Image of the app
    #[arg(id = "app_image", long = "app-image", env = "APP_IMAGE", default_value = APP_IMAGE)]
    pub app: String,
    /// Image of the gateway
    #[arg(
        id = "gateway_image",
        long = "gateway-image",
        env = "GATEWAY_IMAGE",
        default_value = "nginx:1.30.6"
    )]
    pub gateway: String,
    /// Image of a managed database whose volume is new or was created by PostgreSQL 18
    #[arg(
        id = "postgres_image",
        long = "postgres-image",
        env = "POSTGRES_IMAGE",
        default_value = "postgres:18.6"
    )]
    pub postgres: String,
    /// Image of a managed database whose volume was created by PostgreSQL 17
    #[arg(
        id = "postgres_17_image",
        long = "postgres-17-image",
        env = "POSTGRES_17_IMAGE",
        default_value = "postgres:17.11"
    )]
    pub postgres_17: String,
    /// Image of the managed cache
    #[arg(
        id = "cache_image",
        long = "cache-image",
        env = "CACHE_IMAGE",
        default_value = "valkey/valkey:9.1.2"
    )]
    pub cache: String,
    /// Image of the managed broker; it must contain the management plugin
    #[arg(
        id = "rabbitmq_image",
        long = "rabbitmq-image",
        env = "RABBITMQ_IMAGE",
        default_value = "rabbitmq:4.3.6-management"
    )]
    pub rabbitmq: String,
    /// Image of the workers
    #[arg(id = "worker_image", long = "worker-image", env = "WORKER_IMAGE", default_value = WORKER_IMAGE)]
    pub worker: String,
    /// Image of the managed collector of traces and logs
    #[arg(
        id = "otel_image",
        long = "otel-image",
        env = "OTEL_IMAGE",
        default_value = "otel/opentelemetry-collector-contrib:0.162.0"
    )]
    pub otel: String,
    /// Image of the managed backend of traces, logs and metrics
    #[arg(
        id = "telemetry_image",
        long = "telemetry-image",
        env = "TELEMETRY_IMAGE",
        default_value = "grafana/otel-lgtm:0.31.0"
    )]
    pub telemetry: String,
    /// Image of the managed vector store
    #[arg(
        id = "qdrant_image",
        long = "qdrant-image",
        env = "QDRANT_IMAGE",
        default_value = "qdrant/qdrant:v1.19.0"
    )]
    pub qdrant: String,
}

/// Expands to the name of an image that is released together with this operator. The repository comes from
/// `.cargo/config.toml`.
macro_rules! released_image {
    ($name:literal) => {
        concat!(
            env!("IMAGE_REPOSITORY"),
            "/",
            $name,
            ":",
            env!("CARGO_PKG_VERSION")
        )
    };
}

const APP_IMAGE: &str = released_image!("app");
const WORKER_IMAGE: &str = released_image!("worker");

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

impl From<DefaultImages> for Images {
    fn from(images: DefaultImages) -> Self {
        let DefaultImages {
            app,
            gateway,
            postgres,
            postgres_17,
            cache,
            rabbitmq,
            worker,
            otel,
            telemetry,
            qdrant,
        } = images;
        Self {
            app,
            gateway,
            postgres,
            postgres_17,
            cache,
            rabbitmq,
            worker,
            otel,
            telemetry,
            qdrant,
        }
    }
}

fn match_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    }
}
