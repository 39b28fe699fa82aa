//! The vector store of a stack: a server that the operator runs, or an external one.

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClientTls, PodSettings, SecretKeyRef, names, rules::managed_or_external};

/// The store that finds documents by their vectors (profile `vector`). Without `managed` and `external`, `managed`
/// applies with its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("vector"))]
#[serde(rename_all = "camelCase", default = "VectorSpec::default")]
pub struct VectorSpec {
    /// Name of the collection. It cannot change while the profile is on.
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][A-Za-z0-9_-]*$')").message(
        "vector.collection is not a name: write letters, digits, '-' and '_', a letter or digit first"
    ))]
    pub collection: String,
    /// Number of dimensions of every vector. It cannot change while the profile is on.
    #[schemars(range(min = 1, max = 4096))]
    pub size: i32,
    pub distance: Distance,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedVector>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalVector>>,
}

impl Default for VectorSpec {
    fn default() -> Self {
        Self {
            collection: "docs".to_owned(),
            size: 4,
            distance: Distance::default(),
            managed: None,
            external: None,
        }
    }
}

/// Distance metric of the vectors. It cannot change while the profile is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum Distance {
    /// Cosine of the angle between the vectors.
    #[default]
    Cosine,
    /// The dot product.
    Dot,
    /// Euclidean distance between the vectors.
    Euclid,
}

impl Distance {
    /// Returns the value as Qdrant spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosine => "Cosine",
            Self::Dot => "Dot",
            Self::Euclid => "Euclid",
        }
    }
}

/// A Qdrant server of one replica with a volume, which the operator runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ManagedVector {
    /// Size of the volume, a quantity such as `1Gi` (the default). It can grow if the storage class allows expansion.
    /// It cannot shrink, except back to its size in `status.volumes` after a growth was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message(
        "vector.managed.storage is not a size: write a positive quantity such as 1Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; defaults to the default class of the cluster. It cannot change while the profile is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A Qdrant server that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalVector {
    /// The Secret, in the stack's namespace, that holds the URL of the gRPC port (`http[s]://host:6334`), or `host`
    /// and `port`.
    pub secret_ref: SecretKeyRef,
    /// TLS to the server. If unset, the connection URL decides (`https`), and only public authorities are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// The Secret, in the stack's namespace, that holds the API key; unset if the server requires none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<ApiKeyRef>,
}

/// One key of a Secret in the stack's namespace that holds an API key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub name: String,
    /// Key within the Secret.
    #[serde(default = "default_api_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::KEY))]
    pub key: String,
}

fn default_api_key() -> String {
    "api-key".to_owned()
}
