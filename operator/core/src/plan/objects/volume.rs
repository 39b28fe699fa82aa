//! Volumes of pods, and their mounts.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, PersistentVolumeClaimSpec,
        SecretVolumeSource, Volume, VolumeMount, VolumeResourceRequirements,
    },
    apimachinery::pkg::api::resource::Quantity,
};

use crate::model::stack::StoreVolume;

/// Returns the spec of the claim of a volume. An existing claim keeps what nobody can change.
pub(in crate::plan) fn claim(volume: &StoreVolume) -> PersistentVolumeClaimSpec {
    let requests = BTreeMap::from([("storage".to_owned(), volume.request().clone())]);
    PersistentVolumeClaimSpec {
        access_modes: Some(volume.access_modes()),
        resources: Some(VolumeResourceRequirements {
            requests: Some(requests),
            ..VolumeResourceRequirements::default()
        }),
        storage_class_name: volume.claimed_class().cloned(),
        ..PersistentVolumeClaimSpec::default()
    }
}

/// Returns a volume with the files of a ConfigMap.
pub(in crate::plan) fn config(name: &str, config_map: String) -> Volume {
    Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map,
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Returns a volume with a file for each key of a Secret, or for one key only.
pub(in crate::plan) fn secret(name: &str, secret: String, key: Option<&str>) -> Volume {
    let item = |key: &str| KeyToPath {
        key: key.to_owned(),
        path: key.to_owned(),
        ..KeyToPath::default()
    };
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            items: key.map(|key| vec![item(key)]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Returns a volume like [`secret`] of a Secret and a key that need not exist: the pod starts without them, and the files
/// appear with them. Only the pod's group can read them.
pub(in crate::plan) fn optional_secret(name: &str, from: String, key: Option<&str>) -> Volume {
    let mut volume = secret(name, from, key);
    if let Some(source) = &mut volume.secret {
        source.optional = Some(true);
        source.default_mode = Some(0o440);
    }
    volume
}

/// Returns a scratch volume that is deleted with the pod.
pub(in crate::plan) fn scratch(name: &str, size: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(size.to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Returns the mount of a volume at a path of the container.
pub(in crate::plan) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

/// Returns the read-only mount of a volume at a path of the container.
pub(in crate::plan) fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(volume, path)
    }
}
