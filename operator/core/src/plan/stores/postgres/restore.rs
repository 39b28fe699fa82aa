//! The start of a new database with a backup, by an init container of its server.

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaimVolumeSource, PodSpec, Volume};

use super::server::{DATA, DATA_FOLDER};
use crate::{
    model::stack::{RestorePlace, ValidatedStack},
    plan::{
        build::backup::bucket,
        objects::{pod, volume},
    },
};

/// Volume of the backups.
const VOLUME: &str = "backup";
const SCRIPT: &str = concat!(
    include_str!("../../build/backup/common.sh"),
    include_str!("../../build/backup/restore.sh"),
    include_str!("../../build/backup/begin.sh")
);

/// Adds the init container to the pod of a server, if the stack asks for it. It has the image, the settings and the volumes
/// of the server.
pub(super) fn before(stack: &ValidatedStack, mut server: PodSpec) -> PodSpec {
    let (Some(from), Some(own)) = (&stack.restore_from, server.containers.first()) else {
        return server;
    };
    let mut mounts = own.volume_mounts.clone().unwrap_or_default();
    mounts.push(volume::read_only(VOLUME, "/backup"));
    let mut env = own.env.clone().unwrap_or_default();
    env.push(pod::env("RESTORE_PLACE", place(&from.place)));
    env.extend(
        from.backup
            .as_ref()
            .map(|name| pod::env("RESTORE_BACKUP", name)),
    );
    let restore = Container {
        name: "restore".to_owned(),
        command: Some(pod::strings(&["bash", "-euo", "pipefail", "-c", SCRIPT])),
        args: None,
        ports: None,
        lifecycle: None,
        startup_probe: None,
        liveness_probe: None,
        readiness_probe: None,
        volume_mounts: Some(mounts),
        env: Some(env),
        ..own.clone()
    };
    let (fetch, volume) = match &from.place {
        RestorePlace::Claim(claim_name) => (None, claim(claim_name)),
        RestorePlace::Bucket(from_bucket) => {
            let mut fetch = bucket::fetch(from_bucket, from.backup.as_deref());
            let mounts = fetch.volume_mounts.get_or_insert_default();
            mounts.push(volume::read_only(DATA, DATA_FOLDER));
            (Some(fetch), bucket::scratch(VOLUME, &from_bucket.scratch))
        }
    };
    server.init_containers = Some(fetch.into_iter().chain([restore]).collect());
    server.volumes.get_or_insert_default().push(volume);
    server
}

/// Returns the words for the place in messages. The volume of the database keeps them.
fn place(place: &RestorePlace) -> String {
    match place {
        RestorePlace::Claim(name) => format!("the claim {name}"),
        RestorePlace::Bucket(bucket) => {
            format!("the bucket {} at {}", bucket.path, bucket.endpoint)
        }
    }
}

fn claim(name: &str) -> Volume {
    Volume {
        name: VOLUME.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: name.to_owned(),
            read_only: Some(true),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        model::metadata::Component,
        plan::stores::stateful_set,
        testing::{golden, stack::resolved},
    };

    #[test]
    fn a_new_database_begins_with_a_backup() {
        let from = json!({"claimName": "old-backup", "backup": "20261128T041700Z"});
        let stack = resolved(json!({"database": {"restoreFrom": from}}));
        let set = stateful_set(Component::Postgres, &stack);
        golden("stateful-set-postgres-restored", &set.unwrap());
    }

    #[test]
    fn a_new_database_begins_with_a_backup_of_a_bucket() {
        let s3 = json!({"endpoint": "http://s3.test", "bucket": "backups", "prefix": "old", "secretRef": {"name": "links-s3"}});
        let stack = resolved(json!({"database": {"restoreFrom": {"s3": s3}}}));
        let set = stateful_set(Component::Postgres, &stack);
        golden("stateful-set-postgres-restored-bucket", &set.unwrap());
    }
}
