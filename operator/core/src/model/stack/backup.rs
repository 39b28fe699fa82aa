//! The backups of a stack's database.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::StoreVolume;

/// The backups of a database, with every default resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Backup {
    /// Times in the form of a CronJob, in UTC.
    pub schedule: String,
    /// Number of backups that are kept.
    pub keep: i32,
    /// True when none is made.
    pub suspended: bool,
    /// Image of a PostgreSQL server that reads the database.
    pub image: String,
    /// Image of the app of the operator's release, whatever image the stack's app has.
    pub app_image: String,
    pub place: BackupPlace,
    pub verification: Option<Verification>,
    /// The stack's resource in YAML, with its name and its spec.
    pub resource: String,
}

/// The place of backups.
#[derive(Clone, Debug, PartialEq)]
pub enum BackupPlace {
    /// A volume claim of the stack.
    Volume(StoreVolume),
    Bucket(Box<Bucket>),
}

impl BackupPlace {
    /// Returns the bucket, if it is one.
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Volume(_) => None,
            Self::Bucket(bucket) => Some(bucket),
        }
    }

    /// Returns the volume of the backups, or the one that they pass through.
    pub fn volume(&self) -> &StoreVolume {
        match self {
            Self::Volume(volume) => volume,
            Self::Bucket(bucket) => &bucket.scratch,
        }
    }
}

/// A bucket of an object store.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Address of the object store.
    pub endpoint: String,
    /// Name of the bucket and, after a slash, the folder in it.
    pub path: String,
    pub region: String,
    /// Secret with the credentials.
    pub secret: String,
    /// Image of rclone.
    pub image: String,
    /// The volume that backups pass through.
    pub scratch: StoreVolume,
}

impl Bucket {
    /// Returns the port of the object store.
    pub fn port(&self) -> i32 {
        let (scheme, host) = self.endpoint.split_once("://").unwrap_or_default();
        let port = host.trim_end_matches('/').rsplit_once(':');
        let given = port.and_then(|(_, port)| port.parse().ok());
        given.unwrap_or(if scheme == "http" { 80 } else { 443 })
    }

    /// Returns true when the host is the name of a Service: `<name>`, `<name>.<namespace>.svc` or that with a domain.
    pub fn is_service(&self) -> bool {
        let (_, host) = self.endpoint.split_once("://").unwrap_or_default();
        let name = host.split([':', '/']).next().unwrap_or_default();
        let mut labels = name.split('.').skip(1);
        !name.starts_with('[') && labels.next().is_none_or(|_| labels.next() == Some("svc"))
    }
}

/// The backup with which a database begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Restore {
    pub place: RestorePlace,
    /// Name of the backup; the newest one if absent.
    pub backup: Option<String>,
}

/// The place of a backup with which a database begins.
#[derive(Clone, Debug, PartialEq)]
pub enum RestorePlace {
    /// A volume claim of this name.
    Claim(String),
    Bucket(Box<Bucket>),
}

/// The verification of backups.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// Times in the form of a CronJob, in UTC.
    pub schedule: String,
    /// Size of the volume of the server into which a backup is restored.
    pub scratch: Quantity,
}
