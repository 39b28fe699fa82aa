//! What observes a stack: where its traces and logs go, and who may scrape its metrics.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodSettings, schema};

/// The rule for the address of a backend.
const ADDRESS: &str = r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~%/]*)?$')";

/// Where traces and logs go (profile `observability`), and who may scrape the metrics, which are there in any case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new(
    "!(has(self.collector) && has(self.collector.external) && has(self.backend) && (has(self.backend.managed) || has(self.backend.external)))"
).message(
    "observability.backend is fed by the managed collector: remove it, or remove observability.collector.external"
))]
#[serde(rename_all = "camelCase")]
pub struct ObservabilitySpec {
    /// Who takes traces and logs from the app and the workers.
    #[serde(default)]
    pub collector: CollectorSpec,
    /// Where the managed collector sends them.
    #[serde(default)]
    pub backend: BackendSpec,
    /// Who may scrape the internal port 9090 of app and workers, and the collector's own metrics; the operator always may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<NetworkPolicyPeer>")]
    pub scrape_from: Vec<NetworkPolicyPeer>,
}

/// Who takes traces and logs. Neither member given means `managed` with its defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("!(has(self.managed) && has(self.external))").message(
    "observability.collector.managed and observability.collector.external exclude each other: remove one of them"
))]
#[serde(rename_all = "camelCase")]
pub struct CollectorSpec {
    /// An OpenTelemetry collector that the operator runs in the stack's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedCollector>,
    /// A collector that somebody else runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalCollector>,
}

/// An OpenTelemetry collector of one replica that keeps nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedCollector {
    /// How the pod runs.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A collector outside the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalCollector {
    /// Address that takes OTLP by gRPC, such as `http://collector.monitoring:4317`.
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(
        r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/?$')"
    ).message("observability.collector.external.endpoint is not an address for OTLP by gRPC: write http:// or https://, a host and a port, such as http://collector.monitoring:4317"))]
    pub endpoint: String,
}

/// Where the managed collector sends traces and logs. Neither member given means nowhere: they are dropped silently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("!(has(self.managed) && has(self.external))").message(
    "observability.backend.managed and observability.backend.external exclude each other: remove one of them"
))]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    /// Grafana with its stores for traces, logs and metrics, in one pod that the operator runs. For a demonstration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedBackend>,
    /// A backend that somebody else runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalBackend>,
}

/// Grafana, Tempo, Loki and Prometheus in one pod with a volume of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedBackend {
    /// Size of the volume, a quantity such as `2Gi` (the default). It can grow where the storage class allows it, and never shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0").message(
        "observability.backend.managed.storage is not a size of at least 512Mi: write a quantity such as 2Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; the cluster's default class if absent. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// How the pod runs.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A backend outside the stack that takes OTLP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("has(self.endpoint) || (has(self.tracesEndpoint) && has(self.logsEndpoint))").message(
        "observability.backend.external has no endpoint: set endpoint, or both tracesEndpoint and logsEndpoint"
    ),
    validation = Rule::new(
        "self.protocol == 'Http' || [has(self.endpoint) ? self.endpoint : '', has(self.tracesEndpoint) ? self.tracesEndpoint : '', \
         has(self.logsEndpoint) ? self.logsEndpoint : ''].all(address, !address.matches('^https?://[^/]+/.'))"
    ).message(
        "observability.backend.external has an endpoint with a path, which protocol Grpc does not know: remove the path, or set protocol to Http"
    ),
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalBackend {
    /// Address that takes traces and logs, such as `http://tempo.monitoring:4317`. With `Http` the paths `/v1/traces`
    /// and `/v1/logs` are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.endpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://tempo.monitoring:4317, and credentials in headersSecretRef"))]
    pub endpoint: Option<String>,
    /// Address that takes the traces, in the place of `endpoint`. With `Http` it is used as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.tracesEndpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://tempo.monitoring:4317, and credentials in headersSecretRef"))]
    pub traces_endpoint: Option<String>,
    /// Address that takes the logs, in the place of `endpoint`. With `Http` it is used as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.logsEndpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://loki.monitoring:3100/otlp/v1/logs, and credentials in headersSecretRef"))]
    pub logs_endpoint: Option<String>,
    /// How the backend takes OTLP.
    #[serde(default)]
    pub protocol: OtlpProtocol,
    /// A Secret in the stack's namespace whose every key is the name of a header that the backend wants, and its value
    /// that of the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_secret_ref: Option<SecretRef>,
}

/// Ways in which OTLP travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OtlpProtocol {
    /// gRPC, usually on port 4317.
    #[default]
    Grpc,
    /// HTTP with protobuf, usually on port 4318.
    Http,
}

/// A Secret in the stack's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
