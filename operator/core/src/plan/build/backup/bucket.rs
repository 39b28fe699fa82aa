//! The containers that copy backups to and from a bucket, in the image of rclone.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EphemeralVolumeSource, PersistentVolumeClaimTemplate, Volume,
};

use super::{FOLDER, TEMPORARY, VOLUME};
use crate::{
    model::stack::{Bucket, Pod, StoreVolume},
    plan::objects::{pod, volume},
};

/// Uploads a backup.
pub(super) const UPLOAD: &str = concat!(include_str!("bucket.sh"), include_str!("upload.sh"));
/// Downloads a backup.
pub(super) const FETCH: &str = concat!(include_str!("bucket.sh"), include_str!("fetch.sh"));
/// Marks a backup that was verified.
pub(super) const MARK: &str = concat!(include_str!("bucket.sh"), include_str!("mark-bucket.sh"));

/// Returns a container that runs a script on a bucket.
pub(super) fn container(name: &str, bucket: &Bucket, script: &str, more: Vec<EnvVar>) -> Container {
    let settings = Pod {
        image: bucket.image.clone(),
        resources: pod::resources(["50m", "64Mi"], ["1", "256Mi"]),
    };
    let mut env = vec![
        pod::env("BUCKET", &bucket.path),
        pod::env("RCLONE_CONFIG_BUCKET_TYPE", "s3"),
        pod::env("RCLONE_CONFIG_BUCKET_PROVIDER", "Other"),
        pod::env("RCLONE_CONFIG_BUCKET_ENDPOINT", &bucket.endpoint),
        pod::env("RCLONE_CONFIG_BUCKET_REGION", &bucket.region),
        // It exists, and the credentials may not allow to ask.
        pod::env("RCLONE_CONFIG_BUCKET_NO_CHECK_BUCKET", "true"),
        secret("RCLONE_CONFIG_BUCKET_ACCESS_KEY_ID", bucket, "accessKeyId"),
        secret(
            "RCLONE_CONFIG_BUCKET_SECRET_ACCESS_KEY",
            bucket,
            "secretAccessKey",
        ),
        optional(secret("ENCRYPTION_PASSWORD", bucket, "encryptionPassword")),
    ];
    env.extend(more);
    Container {
        command: Some(pod::strings(&["sh", "-euc", script])),
        volume_mounts: Some(vec![
            volume::mount(VOLUME, FOLDER),
            volume::mount(TEMPORARY, "/tmp"),
        ]),
        ..pod::container(name, &settings, env)
    }
}

/// Returns the container that downloads a backup, the newest one without a name, to a volume `backup`.
pub(in crate::plan) fn fetch(bucket: &Bucket, backup: Option<&str>) -> Container {
    let name = backup.map(|name| pod::env("RESTORE_BACKUP", name));
    container("fetch", bucket, FETCH, name.into_iter().collect())
}

/// Returns a volume that is deleted with the pod.
pub(in crate::plan) fn scratch(name: &str, size: &StoreVolume) -> Volume {
    Volume {
        name: name.to_owned(),
        ephemeral: Some(EphemeralVolumeSource {
            volume_claim_template: Some(PersistentVolumeClaimTemplate {
                spec: volume::claim(size),
                ..PersistentVolumeClaimTemplate::default()
            }),
        }),
        ..Volume::default()
    }
}

fn secret(variable: &str, bucket: &Bucket, key: &str) -> EnvVar {
    pod::secret_env(variable, &bucket.secret, key)
}

fn optional(mut variable: EnvVar) -> EnvVar {
    let source = variable.value_from.as_mut();
    if let Some(key) = source.and_then(|source| source.secret_key_ref.as_mut()) {
        key.optional = Some(true);
    }
    variable
}
