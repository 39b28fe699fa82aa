//! A database that CloudNativePG runs.

use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{defaults::number, names, schema};

/// A PostgreSQL cluster that survives the loss of a node. The operator writes the Cluster `<stack>-pg`, and CloudNativePG,
/// which has to be installed, runs it: replicas, failover, certificates, upgrades and physical backups are its work. In
/// place of `managed`, it gets the links of the managed database. It is removed only while the stack is paused, because the
/// links do not move back by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct CloudNativePg {
    /// Number of servers: one takes the writes, and the others follow it. With fewer than 2, none takes over.
    #[serde(default = "number::<3>")]
    #[schemars(range(min = 1, max = 9))]
    pub instances: i32,
    /// Size of the volume of each server, a quantity such as `1Gi` (the default). It can grow if the storage class allows
    /// expansion. It cannot shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message(
        "database.cloudNativePG.storage is not a size: write a positive quantity such as 1Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volumes; defaults to the default class of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
    /// Other fields of the Cluster's `spec`, such as `imageName`, `postgresql.parameters`, `resources` or `plugins`. They
    /// are merged over the operator's (RFC 7396: objects field by field, lists as a whole, `null` removes a field). The
    /// policy `Restricted` for pod templates admits only those that refer to no other object and run no other program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub template: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<ClusterPooler>,
}

/// PgBouncer before the servers, for stacks whose app and workers have more pods than the servers have connections for. The
/// operator writes the Pooler `<stack>-pg-pooler`, and CloudNativePG runs it. The programs change over, and back when the field
/// goes, pod by pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPooler {
    /// Number of pods. With 1, its end interrupts the database for a moment.
    #[serde(default = "number::<2>")]
    #[schemars(range(min = 1, max = 9))]
    pub instances: i32,
}

/// Returns the rule that a database has one kind of server.
pub(super) fn stands_alone() -> Rule {
    Rule::new("!(has(self.cloudNativePG) && (has(self.managed) || has(self.external)))").message(
        "database.cloudNativePG excludes database.managed and database.external: remove one of them",
    )
}

/// Returns the rule that a Cluster begins with a backup by its own means.
pub(super) fn restores_by_itself() -> Rule {
    Rule::new("!(has(self.restoreFrom) && has(self.cloudNativePG))").message(
        "database.restoreFrom needs a database that the operator manages, and database.cloudNativePG is set: remove database.restoreFrom; the links of a managed database move without it, and a new Cluster takes bootstrap in database.cloudNativePG.template, or pg_restore",
    )
}
