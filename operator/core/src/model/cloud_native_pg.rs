//! The kind of a PostgreSQL cluster that CloudNativePG runs, with only the fields that stacks use. A cluster may lack it.
//!
//! Every field has a default, because an object that does not parse would end the watch of its kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{CaRef, ClientTls, CloudNativePg, SecretKeyRef};
use crate::model::{external::ExternalReference, store_cluster::Runner};

/// What runs a Cluster.
pub const RUNNER: Runner = Runner {
    field: "database.cloudNativePG",
    noun: "database",
    kind: "Cluster",
    api: "postgresql.cnpg.io/v1",
    operator: "CloudNativePG",
    versions: "CloudNativePG 1.28.3, 1.29.1 or later",
};
/// Label of everything that CloudNativePG makes for a Cluster, with the name of the Cluster.
pub const CLUSTER_LABEL: &str = "cnpg.io/cluster";
/// Label of the pods of a Cluster, which servers have with the value [`SERVER`].
const ROLE_LABEL: &str = "cnpg.io/podRole";
const SERVER: &str = "instance";
/// Label of what CloudNativePG runs once for a Cluster, with its purpose.
pub const JOB_LABEL: &str = "cnpg.io/jobRole";
/// Purpose of what imports the content of another database.
pub const IMPORT: &str = "import";
/// Name of the managed database as the source of an import.
pub const SOURCE: &str = "managed-database";
/// Annotation with the version of CloudNativePG on what it makes for a Cluster.
pub const OPERATOR_VERSION: &str = "cnpg.io/operatorVersion";
/// Annotation with which a Cluster is stopped (`on`): its volumes stay.
pub const HIBERNATION: &str = "cnpg.io/hibernation";
/// Condition of a Cluster: every server is ready.
pub const READY: &str = "Ready";
/// Port for clients.
pub const PORT: i32 = 5432;
/// Port at which the operator of CloudNativePG and other servers ask for the state of a server.
pub const STATUS_PORT: i32 = 8000;
/// Port of a server's metrics.
pub const METRICS_PORT: i32 = 9187;

/// Spec of a Cluster. The user may set any of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "postgresql.cnpg.io",
    version = "v1",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    schema = "disabled",
    status = "ClusterStatus",
    derive = "PartialEq"
)]
pub struct ClusterSpec {
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Number of servers that exist.
    pub instances: i32,
    /// Number of servers that are ready.
    pub ready_instances: i32,
    /// Name of the server that takes the writes; empty until the first one has started.
    pub current_primary: String,
    /// Phase that CloudNativePG reports, such as `Cluster in healthy state`.
    pub phase: String,
    /// Its reason.
    pub phase_reason: String,
    /// Conditions, such as `Ready`.
    pub conditions: Vec<Condition>,
}

impl Cluster {
    /// Returns true when the database has been made: its first server has taken writes.
    pub fn has_started(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| !status.current_primary.is_empty())
    }

    /// Returns true when it has the links of the managed database, or gets them, and they are not in use yet.
    pub fn imports(&self) -> bool {
        let bootstrap = self.spec.fields.get("bootstrap");
        let source = bootstrap
            .and_then(|bootstrap| bootstrap.pointer("/initdb/import/source/externalCluster"));
        source.is_some_and(|source| source == SOURCE)
    }

    /// Returns the phase that CloudNativePG reports, with its reason, if there is one.
    pub fn phase(&self) -> Option<String> {
        let status = self.status.as_ref()?;
        let parts = [status.phase.as_str(), status.phase_reason.as_str()].into_iter();
        let said: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        (!said.is_empty()).then(|| said.join(": "))
    }
}

/// Returns the name of the Cluster of a stack.
pub fn name(stack: &str) -> String {
    format!("{stack}-pg")
}

/// Returns the selector of the servers of a stack's Cluster.
pub fn servers(stack: &str) -> LabelSelector {
    let labels = [
        (CLUSTER_LABEL.to_owned(), name(stack)),
        (ROLE_LABEL.to_owned(), SERVER.to_owned()),
    ];
    LabelSelector {
        match_labels: Some(labels.into()),
        ..LabelSelector::default()
    }
}

/// Returns the name of the Secret with the address of the database of a stack's Cluster, which CloudNativePG makes.
pub fn secret(stack: &str) -> String {
    format!("{}-app", name(stack))
}

/// Returns the host of the servers of a stack's Cluster that follow the one that takes the writes.
pub fn replica_host(stack: &str) -> String {
    format!("{}-ro", name(stack))
}

/// Returns the references to the Secrets of a Cluster: address and credentials of the owner of the database, and the
/// authority that signed the servers' certificates. CloudNativePG writes them, unless the template
/// names another authority.
pub fn reference(spec: &CloudNativePg, stack: &str) -> ExternalReference {
    let cluster = name(stack);
    let template = spec.template.clone().map(Value::Object).unwrap_or_default();
    let authority = template
        .pointer("/certificates/serverCASecret")
        .and_then(Value::as_str);
    ExternalReference {
        secret: SecretKeyRef {
            name: secret(stack),
            key: None,
        },
        tls: Some(ClientTls {
            ca_secret_ref: Some(CaRef {
                name: authority.map_or_else(|| format!("{cluster}-ca"), str::to_owned),
                key: "ca.crt".to_owned(),
            }),
            client_certificate_secret_ref: None,
        }),
        by_parts: false,
    }
}

/// Returns true when a version of CloudNativePG lets a user of the database become its superuser (CVE-2026-44477). A text
/// that is no version says nothing.
pub fn is_vulnerable(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    match (next(), next(), next()) {
        (Some(1), Some(28), Some(patch)) => patch < 3,
        (Some(1), Some(29), Some(patch)) => patch < 1,
        (Some(1), Some(minor), _) => minor < 28,
        (major, ..) => major == Some(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_versions_before_the_fix_are_known() {
        for (version, vulnerable) in [
            ("1.27.9", true),
            ("1.28.2", true),
            ("1.28.3", false),
            ("1.29.0", true),
            ("1.29.1", false),
            ("1.30.0-rc1", false),
            ("2.0.0", false),
            ("dev", false),
            ("", false),
        ] {
            assert_eq!(is_vulnerable(version), vulnerable, "{version}");
        }
    }

    #[test]
    fn a_template_may_name_the_authority() {
        let names = |spec: Value| {
            let spec: CloudNativePg = serde_json::from_value(spec).unwrap();
            reference(&spec, "acme").secrets()
        };
        assert_eq!(names(json!({})), ["acme-pg-ca", "acme-pg-app"]);
        let template = json!({"certificates": {"serverCASecret": "own-ca"}});
        assert_eq!(
            names(json!({"template": template})),
            ["own-ca", "acme-pg-app"]
        );
    }
}
