//! The database of a stack: a server that the operator runs, or an external one.

mod backup;
mod cloud_native_pg;

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DatabaseTls, PodSettings, names, rules::managed_or_external};

pub use backup::{BackupBucket, BackupSpec, BackupVerification, BackupVolume, RestoreFrom};
pub use cloud_native_pg::{CloudNativePg, ClusterPooler};

/// The database with the links. Without `managed`, `external` and `cloudNativePG`, `managed` applies with its defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("database"), validation = backup::needs_sessions(), validation = backup::restores_into_a_managed_one(), validation = cloud_native_pg::stands_alone(), validation = cloud_native_pg::restores_by_itself())]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedDatabase>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalDatabase>>,
    #[serde(
        default,
        rename = "cloudNativePG",
        skip_serializing_if = "Option::is_none"
    )]
    pub cloud_native_pg: Option<Box<CloudNativePg>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Box<BackupSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<Box<RestoreFrom>>,
}

/// A PostgreSQL server of one replica with a volume, which the operator runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ManagedDatabase {
    /// Size of the volume, a quantity such as `1Gi` (the default). It can grow if the storage class allows expansion.
    /// It cannot shrink, except back to its size in `status.volumes` after a growth was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message(
        "database.managed.storage is not a size: write a positive quantity such as 1Gi"
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

/// A PostgreSQL server that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalDatabase {
    /// The Secret, in the stack's namespace, that holds the connection URL
    /// (`postgres://user:password@host:port/database`) or its parts, such as the Secret that CloudNativePG writes.
    pub secret_ref: SecretKeyRef,
    /// TLS to the server. If unset, the connection URL decides (`sslmode`), and only public authorities are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = crate::api::schema::without_null)]
    pub pooler: Option<DatabasePooler>,
}

/// The pooler that the Secret points to, such as PgBouncer. If unset, the Secret points to a PostgreSQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DatabasePooler {
    /// Each transaction may be in another session of the server, as with `pool_mode = transaction` of PgBouncer, which
    /// has to be 1.21 or later with `max_prepared_statements`. The programs set no limits of a session; the database's role
    /// must have them.
    Transaction,
}

/// A Secret in the stack's namespace that holds the address of a server and the credentials for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub name: String,
    /// Key of the URL within the Secret. If unset, the first of the keys `url`, `uri` and `connection_string` that
    /// the Secret contains. If it contains none of them, the keys `host`, `port`, `username` (or `user`) and
    /// `password` are read, for a database also `dbname` (or `database`), for a broker also `vhost` (or
    /// `virtual_host`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::KEY))]
    pub key: Option<String>,
}
