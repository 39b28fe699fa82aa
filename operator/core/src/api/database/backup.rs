//! Backups of the database.

use kube_core::Rule;
use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::{SecretRef, defaults::number, names, rules::schedule};

/// Backups of the database, without a pause of the service. The CronJob `<stack>-backup` makes one at each time, except
/// while the stack is paused or stopped: a dump, and a manifest with the content of each table. `status.backups` lists the
/// last ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("has(self.volume) != has(self.s3)").message(
    "database.backup needs a place: set one of database.backup.volume and database.backup.s3"
))]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// Times in UTC, as the five fields of cron: minute, hour, day of the month, month, day of the week (0 is Sunday), in
    /// numbers, rising ranges and steps; or `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`.
    #[schemars(length(min = 1, max = 100))]
    #[x_kube(validation = schedule("database.backup.schedule"))]
    pub schedule: String,
    /// Number of backups to keep. The newest one that was verified is kept beside them.
    #[serde(default = "number::<14>")]
    #[schemars(range(min = 1, max = 365))]
    pub keep: i32,
    /// Makes and verifies no backup when true.
    #[serde(default)]
    pub suspend: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<BackupVolume>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<Box<BackupBucket>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<BackupVerification>,
}

/// A bucket of an object store with the API of S3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct BackupBucket {
    /// Address of the object store, such as `https://s3.eu-central-1.amazonaws.com`.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new(
        r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/?$')"
    ).message("the endpoint of a bucket is not an http(s) address: write http:// or https://, a host and at most a port"))]
    pub endpoint: String,
    /// Name of the bucket, which exists already.
    #[schemars(
        length(min = 3, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub bucket: String,
    /// Folder for the backups within the bucket; `<namespace>/<stack>` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 512),
        regex(pattern = "^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")
    )]
    pub prefix: Option<String>,
    /// Region of the bucket; `us-east-1` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[a-z0-9-]+$"))]
    pub region: Option<String>,
    /// The Secret with the keys `accessKeyId` and `secretAccessKey`, and `encryptionPassword` if the backups are to be
    /// encrypted (rclone's `crypt`). Without that password they lack `secrets.yaml`.
    pub secret_ref: SecretRef,
    /// Size of the volume that a backup passes through, which exists only meanwhile. The default is the size of the
    /// database's volume, or `10Gi` with an external database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message(
        "the storage of a bucket is not a size: write a positive quantity such as 10Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of that volume; defaults to the default class of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
}

/// The verification of the backups. At each time, the CronJob `<stack>-verify` restores the newest one into a PostgreSQL
/// server in its own pod, compares every table with the manifest, and resolves a sample of the links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct BackupVerification {
    /// Times in UTC, in the form of `schedule` of the backups.
    #[schemars(length(min = 1, max = 100))]
    #[x_kube(validation = schedule("database.backup.verify.schedule"))]
    pub schedule: String,
    /// Size of the volume of that server, which exists during a verification only and has the storage class of the
    /// backups. The default is the size of the database's volume, or `10Gi` with an external database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message(
        "database.backup.verify.storage is not a size: write a positive quantity such as 10Gi"
    ))]
    pub storage: Option<String>,
}

/// A volume for the backups, in the claim `<stack>-backup`. It outlives the stack, whatever `deletionPolicy` says, and a
/// new stack of the same name uses it again. It is in the same cluster, so copy it elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct BackupVolume {
    /// Size of the volume, a quantity such as `10Gi` (the default). It needs room for two backups more than `keep`, one in progress
    /// and the newest verified one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message(
        "database.backup.volume.storage is not a size: write a positive quantity such as 10Gi"
    ))]
    pub storage: Option<String>,
    /// Storage class of the volume; defaults to the default class of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub storage_class_name: Option<String>,
}

/// Returns the rule that a dump has a session of its own: settings of a dump would stay in the sessions that a pooler lends
/// to the stack's programs.
pub(super) fn needs_sessions() -> Rule {
    Rule::new("!(has(self.backup) && has(self.external) && has(self.external.pooler))").message(
        "database.backup needs sessions of the server, and database.external.pooler shares them: let database.external.secretRef point to the server, or back it up with its own tools",
    )
}

/// The backup with which a new database begins, before the app starts. Set it when you create the stack, and remove it
/// once the stack is ready: while it is set, the pod of the database keeps the volume with the backups. A volume of the
/// database that has data already stays as it is, and the database does not start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("has(self.claimName) != has(self.s3)").message(
    "database.restoreFrom needs a place: set one of database.restoreFrom.claimName and database.restoreFrom.s3"
))]
#[serde(rename_all = "camelCase")]
pub struct RestoreFrom {
    /// Name of the volume claim with the backups, in the stack's namespace: `<stack>-backup` of the stack that made them.
    /// Another claim needs the label `shortener.dev/usable-by-stacks: "true"`, unless `podTemplatePolicy` is `Unrestricted`.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<Box<BackupBucket>>,
    /// Name of the backup, as in `status.backups`; the newest one if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[0-9]{8}T[0-9]{6}Z$"))]
    pub backup: Option<String>,
}

/// Returns the rule that the operator restores into a server that it runs.
pub(super) fn restores_into_a_managed_one() -> Rule {
    Rule::new("!(has(self.restoreFrom) && has(self.external))").message(
        "database.restoreFrom needs a database that the operator manages, and database.external is set: restore into the external database with pg_restore",
    )
}
