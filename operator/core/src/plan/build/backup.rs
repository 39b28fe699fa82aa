//! Backups of the database: the CronJob that makes them, in the image of the server, and the volume for them.
//!
//! The scripts that its pods run are in the folder of this module.

pub(in crate::plan) mod bucket;
mod verify;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::CronJob,
        core::v1::{
            Container, EnvVar, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec,
            Secret, Volume,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube_core::ResourceExt;

pub use verify::{cron_job as verify, verification};

use super::{
    app,
    cron_job::{self, Times},
    secret,
};
use crate::{
    api::DatabaseTlsMode,
    model::{
        access::Access,
        metadata::{Component, component_name},
        stack::{Backup, BackupPlace, Pod, Store, ValidatedStack},
    },
    plan::{
        objects::{pod, volume},
        stores::{clients, common, postgres},
    },
};

/// Number of seconds that a backup may take.
const LIMIT: i64 = 6 * 3600;
/// Folder of the backups in the containers.
const FOLDER: &str = "/backup";
/// Volume of the backups in the pods.
const VOLUME: &str = "backup";
/// Volume with the files of the ConfigMap.
const STACK: &str = "stack";
/// Volumes with the Secrets.
const SECRETS: [&str; 2] = ["job-ids", "keys"];
/// Volume for temporary files.
const TEMPORARY: &str = "tmp";
/// File with the certificates of the public authorities, which the image of the server lacks.
const AUTHORITIES: &str = "/tmp/authorities.crt";

/// Returns the CronJob `<stack>-backup`.
pub fn cron_job(stack: &ValidatedStack) -> Option<CronJob> {
    let backup = stack.backup.as_ref()?;
    let times = Times {
        schedule: backup.schedule.clone(),
        suspended: backup.suspended,
        limit: LIMIT,
    };
    let name = component_name(&stack.identity.name, Component::Backup);
    let mut volumes = vec![
        backups(stack, backup),
        volume::scratch(TEMPORARY, "16Mi"),
        volume::config(STACK, name),
    ];
    let secrets = SECRETS.into_iter().zip(secrets(stack));
    volumes.extend(
        secrets.map(|(name, secret)| volume::optional_secret(name, secret.name_any(), None)),
    );
    let dump = dump(stack, backup);
    let mut first: Vec<Container> = authorities(stack, backup).into_iter().collect();
    let last = match backup.place.bucket() {
        None => dump,
        Some(bucket) => {
            first.push(dump);
            let keep = vec![pod::env("KEEP", backup.keep.to_string())];
            bucket::container("upload", bucket, bucket::UPLOAD, keep)
        }
    };
    let pod = PodSpec {
        init_containers: Some(first).filter(|first| !first.is_empty()),
        containers: vec![last],
        security_context: Some(common::security_context(postgres::USER)),
        volumes: Some(volumes),
        ..PodSpec::default()
    };
    Some(cron_job::build(stack, Component::Backup, times, pod))
}

/// Returns the PersistentVolumeClaim `<stack>-backup`, which outlives the stack in any case; none for a bucket.
pub fn claim(stack: &ValidatedStack) -> Option<PersistentVolumeClaim> {
    let identity = &stack.identity;
    let BackupPlace::Volume(size) = &stack.backup.as_ref()?.place else {
        return None;
    };
    let name = component_name(&identity.name, Component::Backup);
    Some(PersistentVolumeClaim {
        metadata: identity.retained(name, Component::Backup),
        spec: Some(volume::claim(size)),
        ..PersistentVolumeClaim::default()
    })
}

/// Returns the files of the ConfigMap `<stack>-backup`: what a backup has beside the dump.
pub fn files(stack: &ValidatedStack) -> Option<BTreeMap<String, String>> {
    let backup = stack.backup.as_ref()?;
    let resource = ("stack.yaml".to_owned(), backup.resource.clone());
    let secrets = secrets(stack).into_iter().map(|secret| {
        let text = serde_yaml::to_string(&secret).unwrap_or_default();
        (format!("{}.secret.yaml", secret.name_any()), text)
    });
    Some(secrets.chain([resource]).collect())
}

/// Returns the Secrets that no new stack can make, without their data: the key that marks identifiers of jobs, with the
/// labels by which a new stack takes it as its own, and the keys of clients.
fn secrets(stack: &ValidatedStack) -> Vec<Secret> {
    let mut job_ids = secret::job_ids(stack).secret;
    job_ids.metadata.namespace = None;
    job_ids.metadata.owner_references = None;
    let keys = stack.app.auth.as_ref().map(|auth| Secret {
        metadata: ObjectMeta {
            name: Some(auth.secret.clone()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    });
    std::iter::once(job_ids).chain(keys).collect()
}

/// Returns the container that copies the certificates of the public authorities, if the database's may have to be verified by
/// them. An earlier app of the stack, or a user's own, could not.
fn authorities(stack: &ValidatedStack, backup: &Backup) -> Option<Container> {
    verifies(stack).then(|| Container {
        image: Some(backup.app_image.clone()),
        volume_mounts: Some(vec![volume::mount(TEMPORARY, "/tmp")]),
        ..app::authorities(stack, AUTHORITIES)
    })
}

/// Returns true if clients of the database verify its certificate, or its URL may ask for that. Clients of a Cluster have its
/// own authority.
fn verifies(stack: &ValidatedStack) -> bool {
    match &stack.database {
        Some(Store::External { tls, access, .. }) if stack.cluster.is_none() => match tls {
            Some(tls) => tls.mode != Some(DatabaseTlsMode::Require),
            None => matches!(access, Access::Url(_)),
        },
        _ => false,
    }
}

fn dump(stack: &ValidatedStack, backup: &Backup) -> Container {
    let mut env = clients::env(stack, Component::Backup);
    env.extend([
        pod::env("IMAGE", &backup.image),
        pod::env("KEEP", backup.keep.to_string()),
    ]);
    env.extend(verifies(stack).then(|| pod::env("AUTHORITIES", AUTHORITIES)));
    let script = concat!(
        include_str!("backup/common.sh"),
        include_str!("backup/connect.sh"),
        include_str!("backup/dump.sh")
    );
    let mut dump = container("backup", backup, script, env);
    let mounts = dump.volume_mounts.get_or_insert_default();
    mounts.push(volume::read_only(STACK, "/etc/shortener/stack"));
    let secrets = SECRETS.into_iter().zip(secrets(stack));
    mounts.extend(secrets.map(|(name, secret)| {
        let folder = format!("/etc/shortener/secrets/{}", secret.name_any());
        volume::read_only(name, &folder)
    }));
    dump
}

/// Returns a container that runs a script on the backups in the image of the server.
fn container(name: &str, backup: &Backup, script: &str, env: Vec<EnvVar>) -> Container {
    let settings = Pod {
        image: backup.image.clone(),
        resources: pod::resources(["50m", "64Mi"], ["1", "256Mi"]),
    };
    let command = ["bash", "-euo", "pipefail", "-c", script];
    Container {
        command: Some(pod::strings(&command)),
        volume_mounts: Some(vec![
            volume::mount(VOLUME, FOLDER),
            volume::mount(TEMPORARY, "/tmp"),
        ]),
        ..pod::container(name, &settings, env)
    }
}

/// Returns the volume of the backups, or the one that a backup passes through.
fn backups(stack: &ValidatedStack, backup: &Backup) -> Volume {
    match &backup.place {
        BackupPlace::Bucket(bucket) => bucket::scratch(VOLUME, &bucket.scratch),
        BackupPlace::Volume(_) => Volume {
            name: VOLUME.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: component_name(&stack.identity.name, Component::Backup),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..Volume::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        model::pod_patch::PodPatch,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_backups_of_a_minimal_stack() {
        let stack = minimal_stack().backed_up();
        golden("cron-job-backup", &cron_job(&stack));
        golden("claim-backup", &claim(&stack));
    }

    #[test]
    fn a_backup_has_the_resource_and_the_secrets_that_a_new_stack_needs() {
        let mut stack = minimal_stack().backed_up();
        stack.app.auth = crate::testing::stack::resolved(serde_json::json!({
            "gateway": {"auth": {"secretRef": {"name": "links-keys"}}},
        }))
        .app
        .auth;
        golden("config-map-backup", &files(&stack));
        let job = cron_job(&stack).unwrap().spec.unwrap().job_template.spec;
        let pod = job.unwrap().template.spec.unwrap();
        let mounts = pod.containers[0].volume_mounts.as_ref().unwrap();
        for secret in ["acme-job-ids", "links-keys"] {
            let path = format!("/etc/shortener/secrets/{secret}");
            assert!(
                mounts.iter().any(|mount| mount.mount_path == path),
                "{secret}"
            );
        }
    }

    #[test]
    fn a_backup_goes_to_a_bucket_without_a_claim() {
        let stack = minimal_stack().backed_up_to_a_bucket();
        golden("cron-job-backup-bucket", &cron_job(&stack));
        assert_eq!(claim(&stack), None);
    }

    #[test]
    fn an_external_database_is_dumped_with_its_certificates() {
        let stack = minimal_stack().external_database_over_tls().backed_up();
        golden("cron-job-backup-external", &cron_job(&stack));
    }

    #[test]
    fn the_public_authorities_come_from_the_apps_image_if_clients_may_verify_by_them() {
        let authorities = |stack: ValidatedStack| {
            let job = cron_job(&stack.backed_up()).unwrap().spec.unwrap();
            let pod = job.job_template.spec.unwrap().template.spec.unwrap();
            let first = pod.init_containers.into_iter().flatten().next();
            let told = serde_json::to_string(&pod.containers).unwrap();
            assert_eq!(told.contains("\"AUTHORITIES\""), first.is_some());
            first.map(|first| (first.image, first.args))
        };
        let image = minimal_stack().app.pod.image;
        let arguments = ["authorities", AUTHORITIES].map(str::to_owned).to_vec();
        let copied = Some((Some(image), Some(arguments.clone())));
        let stack = minimal_stack;
        assert_eq!(authorities(stack().external_database_over_tls()), copied);
        let mut earlier = stack().external_database();
        earlier.app.pod.image = "registry.example/app:earlier".to_owned();
        assert_eq!(authorities(earlier), copied);
        let mut unverified = stack().external_database_over_tls();
        let Some(Store::External { tls: Some(tls), .. }) = &mut unverified.database else {
            panic!("the database is external");
        };
        tls.mode = Some(DatabaseTlsMode::Require);
        assert_eq!(authorities(unverified), None);
        assert_eq!(authorities(stack()), None);
        assert_eq!(authorities(stack().cloud_native_pg(json!({}))), None);
        let command = std::iter::once("app".to_owned()).chain(arguments);
        let known = <shortener_app::config::Cli as clap::Parser>::try_parse_from(command);
        assert!(known.is_ok(), "{known:?}");
    }

    #[test]
    fn no_backup_begins_while_the_stack_is_stopped_or_backups_are_suspended() {
        for stopped in [true, false] {
            let mut stack = minimal_stack().backed_up();
            stack.backup.as_mut().unwrap().suspended = stopped;
            let spec = cron_job(&stack).unwrap().spec.unwrap();
            assert_eq!(spec.suspend, Some(stopped));
        }
        let held = minimal_stack();
        assert_eq!((cron_job(&held), claim(&held)), (None, None));
    }

    #[test]
    fn its_pods_run_as_the_user_that_the_platform_assigns() {
        let mut stack = minimal_stack().backed_up();
        let changes = serde_json::json!({"spec": {"securityContext": {"$patch": "replace", "runAsNonRoot": true}}});
        let changes = PodPatch::read(changes.as_object().unwrap()).unwrap();
        stack.pod_templates.insert(Component::App, changes);
        for job in [cron_job(&stack), verify(&stack)] {
            let job = job.unwrap().spec.unwrap().job_template.spec.unwrap();
            let pod = job.template.spec.unwrap().security_context.unwrap();
            assert_eq!((pod.run_as_user, pod.fs_group), (None, None));
        }
    }

    #[test]
    fn the_volume_outlives_a_stack_that_deletes_its_data() {
        let claim = claim(&minimal_stack().deleting_data().backed_up()).unwrap();
        assert_eq!(claim.metadata.owner_references, None);
    }
}
