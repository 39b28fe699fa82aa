//! Resolution of the backups of the database.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_core::{Resource, ResourceExt};
use serde_json::json;

use super::held::HeldComponents;
use crate::{
    api::{
        BackupBucket, DEFAULT_BACKUP_STORAGE, DEFAULT_STORAGE, ShortenerStack, ShortenerStackSpec,
    },
    model::{
        facts::ClaimFact,
        failure::StepFailure,
        metadata::{Component, StackIdentity},
        stack::{
            Backup, BackupPlace, Bucket, Restore, RestorePlace, Store, StoreVolume, Verification,
        },
    },
    plan::{error::ValidateError, stores::common::StoreContext},
};

/// Region of a bucket that has none.
const REGION: &str = "us-east-1";

/// Returns the backups that a stack asks for. While its database is held, it has none.
pub(super) fn backup(
    near: &StoreContext<'_>,
    identity: &StackIdentity,
    database: Option<&Store>,
    claim: Option<ClaimFact>,
) -> Option<Backup> {
    let (stack, defaults) = (near.stack, near.defaults);
    let spec = &stack.spec;
    let backup = spec.database.backup.as_deref()?;
    let image = database?.managed().map(|server| &server.pod.image);
    let place = match (&backup.s3, backup.volume.clone()) {
        (Some(s3), _) => {
            let passed = volume_size(spec, database);
            BackupPlace::Bucket(Box::new(bucket(near, &identity.namespace, s3, passed)))
        }
        (None, volume) => {
            let volume = volume.unwrap_or_default();
            let size = size(volume.storage, DEFAULT_BACKUP_STORAGE);
            BackupPlace::Volume(StoreVolume {
                existing: claim,
                ..StoreVolume::new(size, volume.storage_class_name)
            })
        }
    };
    let verification = backup.verify.clone().map(|verify| Verification {
        schedule: verify.schedule,
        scratch: size(verify.storage, volume_size(spec, database)),
    });
    Some(Backup {
        schedule: backup.schedule.clone(),
        keep: backup.keep,
        suspended: backup.suspend || spec.stopped,
        image: image.unwrap_or(&defaults.images.postgres).clone(),
        app_image: defaults.images.app.clone(),
        place,
        verification,
        resource: resource(stack),
    })
}

/// Returns the backup with which the database of a stack begins. `usable` tells whether stacks may use its claim.
pub(super) fn restore(
    near: &StoreContext<'_>,
    identity: &StackIdentity,
    usable: Result<bool, StepFailure>,
    held: &mut HeldComponents,
) -> Option<Restore> {
    let restore = accepted(near, identity, usable);
    held.pods(Component::Postgres, restore).flatten()
}

fn accepted(
    near: &StoreContext<'_>,
    identity: &StackIdentity,
    usable: Result<bool, StepFailure>,
) -> Result<Option<Restore>, ValidateError> {
    let Some(from) = near.stack.spec.database.restore_from.as_deref() else {
        return Ok(None);
    };
    let place = match (&from.s3, from.claim_name.clone()) {
        (Some(s3), _) => {
            // The pod of the database has this volume, so it does not follow the claim: the pod would restart.
            let passed = database_size(&near.stack.spec);
            RestorePlace::Bucket(Box::new(bucket(near, &identity.namespace, s3, passed)))
        }
        (None, Some(claim)) => {
            let usable = usable.map_err(ValidateError::Unread)?;
            if near.defaults.is_restricted() && !usable {
                return Err(ValidateError::ClaimNotUsable(claim));
            }
            RestorePlace::Claim(claim)
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Restore {
        place,
        backup: from.backup.clone(),
    }))
}

/// Resolves a bucket; the volume that backups pass through has this size by default.
fn bucket(near: &StoreContext<'_>, namespace: &str, s3: &BackupBucket, passed: &str) -> Bucket {
    let stack = near.stack;
    let folder = || format!("{namespace}/{}", stack.name_any());
    let folder = s3.prefix.clone().unwrap_or_else(folder);
    Bucket {
        endpoint: s3.endpoint.clone(),
        path: format!("{}/{folder}", s3.bucket),
        region: s3.region.clone().unwrap_or_else(|| REGION.to_owned()),
        secret: s3.secret_ref.name.clone(),
        image: near.defaults.images.rclone.clone(),
        scratch: StoreVolume::new(
            size(s3.storage.clone(), passed),
            s3.storage_class_name.clone(),
        ),
    }
}

/// Returns the size of the database's volume, which exceeds that in the spec if its claim does.
fn volume_size<'a>(spec: &'a ShortenerStackSpec, database: Option<&'a Store>) -> &'a str {
    let volume = database.and_then(|database| database.managed()?.volume.as_ref());
    volume.map_or_else(|| database_size(spec), |volume| volume.request().0.as_str())
}

/// Returns the size of the database's volume in the spec, or that of backups if the operator does not run the database.
fn database_size(spec: &ShortenerStackSpec) -> &str {
    let database = &spec.database;
    if database.external.is_some() {
        return DEFAULT_BACKUP_STORAGE;
    }
    if let Some(cluster) = &database.cloud_native_pg {
        return cluster.storage.as_deref().unwrap_or(DEFAULT_STORAGE);
    }
    let managed = database.managed.as_ref();
    let storage = managed.and_then(|managed| managed.storage.as_deref());
    storage.unwrap_or(DEFAULT_STORAGE)
}

fn size(given: Option<String>, default: &str) -> Quantity {
    Quantity(given.unwrap_or_else(|| default.to_owned()))
}

/// Returns the resource from which a stack is made again. What the stack itself began with is no part of it.
fn resource(stack: &ShortenerStack) -> String {
    let mut spec: ShortenerStackSpec = stack.spec.clone();
    spec.database.restore_from = None;
    let resource = json!({
        "apiVersion": ShortenerStack::api_version(&()),
        "kind": ShortenerStack::kind(&()),
        "metadata": {"name": stack.name_any()},
        "spec": spec,
    });
    serde_yaml::to_string(&resource).unwrap_or_default()
}
