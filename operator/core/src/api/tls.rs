//! TLS to a server that the operator does not run.

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SecretRef, names};

/// TLS to an external server. The chain and the name of its certificate are verified. With `tls: {}`, a server that the
/// Secret describes by its parts, or by a URL without TLS, is reached over TLS as well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// The Secret, in the stack's namespace, with the certificates of the authorities that sign the server's
    /// certificate. If unset, the public authorities are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaRef>,
    /// The Secret, in the stack's namespace, with the certificate that the stack's programs present to the server
    /// (`tls.crt`) and its key (`tls.key`), as cert-manager writes it. If unset, they present none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_secret_ref: Option<SecretRef>,
}

/// TLS to an external database. With `tls: {}`, the chain and the name of its certificate are verified, whatever the
/// connection URL says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(validation = Rule::new("self.mode != 'Require' || !has(self.caSecretRef)").message(
    "database.external.tls.mode Require verifies no certificate, so caSecretRef has no effect: remove it, or set the mode to VerifyCA or VerifyFull"
))]
#[serde(rename_all = "camelCase")]
pub struct DatabaseTls {
    #[serde(default)]
    pub mode: DatabaseTlsMode,
    /// The certificates.
    #[serde(flatten)]
    pub client: ClientTls,
}

/// Extent of the verification. It takes precedence over `sslmode` in the connection URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DatabaseTlsMode {
    /// TLS without verification, which does not stop an attacker in the network.
    Require,
    /// A trusted authority must have signed the certificate. Its name does not matter.
    #[serde(rename = "VerifyCA")]
    VerifyCa,
    /// A trusted authority must have signed the certificate for the host in the connection settings.
    #[default]
    VerifyFull,
}

/// One key of a Secret in the stack's namespace that holds certificates of authorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub name: String,
    /// Key of the certificates (PEM) within the Secret.
    #[serde(default = "default_ca_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::KEY))]
    pub key: String,
}

fn default_ca_key() -> String {
    "ca.crt".to_owned()
}
