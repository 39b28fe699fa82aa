//! Observability of a stack: the export of traces and logs, and access to the metrics.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodSettings, names, rules::managed_or_external, schema};

/// CEL rule for the address of a backend.
const ADDRESS: &str = r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~%/]*)?$')";

/// Export of traces and logs (profile `observability`), and access to the metrics, which are always served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(validation = Rule::new(
    "!(has(self.collector) && has(self.collector.external) && has(self.backend) && (has(self.backend.managed) || has(self.backend.external)))"
).message(
    "observability.backend requires the managed collector: remove it, or remove observability.collector.external"
))]
#[serde(rename_all = "camelCase")]
pub struct ObservabilitySpec {
    #[serde(default)]
    pub collector: CollectorSpec,
    #[serde(default)]
    pub backend: BackendSpec,
    /// Peers that may scrape the internal port 9090 of the app and the workers, and the collector's own metrics. The
    /// operator always may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<NetworkPolicyPeer>")]
    pub scrape_from: Vec<NetworkPolicyPeer>,
}

/// The collector that receives traces and logs from the app and the workers. Without `managed` and `external`,
/// `managed` applies with its defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("observability.collector"))]
#[serde(rename_all = "camelCase")]
pub struct CollectorSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedCollector>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalCollector>>,
}

/// An OpenTelemetry Collector of one replica that the operator runs. It stores no data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedCollector {
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A collector that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCollector {
    /// Address that receives OTLP over gRPC, such as `http://collector.monitoring:4317`.
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(
        r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/?$')"
    ).message("observability.collector.external.endpoint is not an address for OTLP by gRPC: write http:// or https://, a host and a port, such as http://collector.monitoring:4317"))]
    pub endpoint: String,
}

/// The backend that receives traces and logs from the managed collector. Without `managed` and `external`, the
/// collector drops them silently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("observability.backend"))]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedBackend>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalBackend>>,
}

/// Grafana, Tempo, Loki and Prometheus in one pod with a volume, which the operator runs. Meant for demonstrations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ManagedBackend {
    /// Size of the volume, a quantity such as `2Gi` (the default). It can grow if the storage class allows expansion.
    /// It cannot shrink, except back to its size in `status.volumes` after a growth was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0").message(
        "observability.backend.managed.storage is not a size of at least 512Mi: write a quantity such as 2Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; defaults to the default class of the cluster. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A backend for OTLP that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(
    validation = Rule::new("has(self.endpoint) || (has(self.tracesEndpoint) && has(self.logsEndpoint))").message(
        "observability.backend.external has no endpoint: set endpoint, or both tracesEndpoint and logsEndpoint"
    ),
    validation = Rule::new(
        "self.protocol == 'HTTP' || [has(self.endpoint) ? self.endpoint : '', has(self.tracesEndpoint) ? self.tracesEndpoint : '', \
         has(self.logsEndpoint) ? self.logsEndpoint : ''].all(address, !address.matches('^https?://[^/]+/.'))"
    ).message(
        "observability.backend.external has an endpoint with a path, which protocol GRPC does not support: remove the path, or set protocol to HTTP"
    ),
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalBackend {
    /// Address that receives traces and logs, such as `http://tempo.monitoring:4317`. With `HTTP`, the paths
    /// `/v1/traces` and `/v1/logs` are appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.endpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://tempo.monitoring:4317, and credentials in headersSecretRef"))]
    pub endpoint: Option<String>,
    /// Address that receives the traces, instead of `endpoint`. With `HTTP`, no path is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.tracesEndpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://tempo.monitoring:4317, and credentials in headersSecretRef"))]
    pub traces_endpoint: Option<String>,
    /// Address that receives the logs, instead of `endpoint`. With `HTTP`, no path is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.logsEndpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://loki.monitoring:3100/otlp/v1/logs, and credentials in headersSecretRef"))]
    pub logs_endpoint: Option<String>,
    #[serde(default)]
    pub protocol: OtlpProtocol,
    /// A Secret in the stack's namespace that holds the headers of requests to the backend: each key is the name of a
    /// header, and its value is the header's value. It needs the label `shortener.dev/usable-by-stacks: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_secret_ref: Option<SecretRef>,
}

/// OTLP transport of the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum OtlpProtocol {
    /// gRPC, usually on port 4317.
    #[default]
    #[serde(rename = "GRPC")]
    Grpc,
    /// HTTP with protobuf, usually on port 4318.
    #[serde(rename = "HTTP")]
    Http,
}

/// A Secret in the stack's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub name: String,
}
