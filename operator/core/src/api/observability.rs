//! Observability of a stack: the export of traces and logs, and access to the metrics.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodSettings, names, rules::managed_or_external, schema};

/// CEL rule for the address of a backend.
const ADDRESS: &str = r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~%/]*)?$')";

/// Export of traces and logs (profile `observability`), and access to the metrics. The metrics are always served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(validation = Rule::new(
    "!(has(self.collector) && has(self.collector.external) && has(self.backend) && (has(self.backend.managed) || has(self.backend.external)))"
).message(
    "observability.backend requires the managed collector: remove it, or remove observability.collector.external"
))]
#[serde(rename_all = "camelCase")]
pub struct ObservabilitySpec {
    /// Collector that receives traces and logs from the app and the workers.
    #[serde(default)]
    pub collector: CollectorSpec,
    /// Backend that receives traces and logs from the managed collector.
    #[serde(default)]
    pub backend: BackendSpec,
    /// Peers that may scrape the internal port 9090 of the app and the workers, and the collector's own metrics. The
    /// operator always may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<NetworkPolicyPeer>")]
    pub scrape_from: Vec<NetworkPolicyPeer>,
}

/// Collector of traces and logs. Without `managed` and `external`, `managed` with its defaults applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("observability.collector"))]
#[serde(rename_all = "camelCase")]
pub struct CollectorSpec {
    /// An OpenTelemetry collector that the operator runs in the stack's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedCollector>>,
    /// A collector that the operator does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalCollector>>,
}

/// An OpenTelemetry collector of one replica that stores no data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedCollector {
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A collector outside the stack.
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

/// Backend of the managed collector. Without `managed` and `external`, the collector drops traces and logs silently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("observability.backend"))]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    /// Grafana with its stores for traces, logs and metrics, in one pod that the operator runs. Meant for
    /// demonstrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedBackend>>,
    /// A backend that the operator does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalBackend>>,
}

/// Grafana, Tempo, Loki and Prometheus in one pod with a volume of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ManagedBackend {
    /// Size of the volume, a quantity such as `2Gi` (the default). It can grow if the storage class allows expansion.
    /// It cannot shrink, other than back to its size in `status.volumes` if a growth was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0").message(
        "observability.backend.managed.storage is not a size of at least 512Mi: write a quantity such as 2Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; the cluster's default class if absent. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A backend outside the stack that receives OTLP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(
    validation = Rule::new("has(self.endpoint) || (has(self.tracesEndpoint) && has(self.logsEndpoint))").message(
        "observability.backend.external has no endpoint: set endpoint, or both tracesEndpoint and logsEndpoint"
    ),
    validation = Rule::new(
        "self.protocol == 'Http' || [has(self.endpoint) ? self.endpoint : '', has(self.tracesEndpoint) ? self.tracesEndpoint : '', \
         has(self.logsEndpoint) ? self.logsEndpoint : ''].all(address, !address.matches('^https?://[^/]+/.'))"
    ).message(
        "observability.backend.external has an endpoint with a path, which protocol Grpc does not support: remove the path, or set protocol to Http"
    ),
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalBackend {
    /// Address that receives traces and logs, such as `http://tempo.monitoring:4317`. With `Http`, the paths
    /// `/v1/traces` and `/v1/logs` are appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.endpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://tempo.monitoring:4317, and credentials in headersSecretRef"))]
    pub endpoint: Option<String>,
    /// Address that receives the traces, instead of `endpoint`. With `Http`, no path is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.tracesEndpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://tempo.monitoring:4317, and credentials in headersSecretRef"))]
    pub traces_endpoint: Option<String>,
    /// Address that receives the logs, instead of `endpoint`. With `Http`, no path is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(ADDRESS).message("observability.backend.external.logsEndpoint is not an http(s) address: write http:// or https://, a host and a port, such as http://loki.monitoring:3100/otlp/v1/logs, and credentials in headersSecretRef"))]
    pub logs_endpoint: Option<String>,
    /// OTLP transport of the backend.
    #[serde(default)]
    pub protocol: OtlpProtocol,
    /// A Secret in the stack's namespace that holds the headers of requests to the backend: each key is the name of a
    /// header, and its value is the header's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_secret_ref: Option<SecretRef>,
}

/// OTLP transports.
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
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub name: String,
}
