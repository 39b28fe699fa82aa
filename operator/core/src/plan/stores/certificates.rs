//! The certificates of external stores in the pods of the stack's own programs, as files.

use k8s_openapi::api::core::v1::{
    Container, KeyToPath, PodSecurityContext, PodSpec, ProjectedVolumeSource, SecretProjection,
    Volume, VolumeProjection,
};

use super::clients;
use crate::{
    model::{
        external::TlsFile,
        metadata::Component,
        stack::{Store, StoreTls, ValidatedStack},
    },
    plan::objects::volume,
};

/// Mode of the files: keys are for the program alone, which reads them as a member of the volume's group.
const MODE: i32 = 0o440;

/// Adds the certificates of the stores that a client uses to its pod. Every container gets them, because migrations
/// connect as well.
pub(in crate::plan) fn mounted(
    stack: &ValidatedStack,
    client: Component,
    mut pod: PodSpec,
) -> PodSpec {
    let used = clients::used(stack, client).filter_map(Store::tls);
    let used: Vec<&StoreTls> = used.filter(|tls| !tls.files.is_empty()).collect();
    if used.is_empty() {
        return pod;
    }
    let containers = pod.init_containers.iter_mut().flatten();
    for container in containers.chain(&mut pod.containers) {
        mount(container, &used);
    }
    let volumes = used.iter().map(|tls| projected(tls));
    pod.volumes.get_or_insert_default().extend(volumes);
    pod.security_context = pod.security_context.map(|context| PodSecurityContext {
        fs_group: context.fs_group.or(context.run_as_group),
        ..context
    });
    pod
}

fn mount(container: &mut Container, used: &[&StoreTls]) {
    let mounts = used
        .iter()
        .map(|tls| volume::read_only(&name(tls), &tls.folder()));
    container
        .volume_mounts
        .get_or_insert_default()
        .extend(mounts);
}

fn projected(tls: &StoreTls) -> Volume {
    let source = |file: &TlsFile| VolumeProjection {
        secret: Some(SecretProjection {
            name: file.secret.clone(),
            items: Some(vec![KeyToPath {
                key: file.key.clone(),
                path: file.kind.file().to_owned(),
                ..KeyToPath::default()
            }]),
            ..SecretProjection::default()
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: name(tls),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(MODE),
            sources: Some(tls.files.iter().map(source).collect()),
        }),
        ..Volume::default()
    }
}

fn name(tls: &StoreTls) -> String {
    format!("tls-{}", tls.field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::build::{app, build},
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_certificates_of_an_external_database_are_files_of_every_container() {
        golden(
            "deployment-app-external-database-tls",
            &app::deployment(&minimal_stack().external_database_over_tls()),
        );
    }

    #[test]
    fn a_stack_without_certificates_has_no_such_volume() {
        for deployment in build(&minimal_stack().external_database())
            .children
            .deployments
        {
            let pod = deployment.spec.unwrap().template.spec.unwrap();
            let volumes = pod.volumes.unwrap_or_default();
            assert!(volumes.iter().all(|volume| volume.projected.is_none()));
        }
    }

    #[test]
    fn workers_get_the_certificates_of_their_stores_and_not_those_of_the_cache() {
        let stack = minimal_stack().every_external_store_over_tls();
        let names = |client| {
            let pod = mounted(&stack, client, PodSpec::default());
            let volumes = pod.volumes.unwrap_or_default().into_iter();
            volumes.map(|volume| volume.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(Component::App),
            ["tls-database", "tls-cache", "tls-queue", "tls-vector"]
        );
        assert_eq!(
            names(Component::Worker),
            ["tls-database", "tls-queue", "tls-vector"]
        );
    }
}
