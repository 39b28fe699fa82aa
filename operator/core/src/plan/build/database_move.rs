//! The comparison of a managed database with the Cluster to which its links move: a pod that becomes ready when every
//! table is the same in both.

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStrategy},
    core::v1::{Container, PodSpec, PodTemplateSpec},
};

use crate::{
    model::{
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        facts::{CLUSTER_UID, SERVER},
        metadata::{Component, component_name},
        stack::{DatabaseMove, MoveCopy, Pod, ValidatedStack},
    },
    plan::{
        objects::{deployment, pod, volume},
        stores::{certificates, clients, common, postgres},
    },
};

/// Exit code of the comparison if a table differs: none that a program of PostgreSQL has.
pub(in crate::plan) const DIFFERS: i32 = 10;
/// Name of the container.
const NAME: &str = "compare";
const SCRIPT: &str = concat!(
    include_str!("backup/common.sh"),
    include_str!("backup/connect.sh"),
    include_str!("database_move/compare.sh"),
    // The readiness probe looks for the file.
    ": >/tmp/same\nsleep infinity &\nwait \"$!\"\n"
);

/// Returns the Deployment `<stack>-move`, while the links are compared and until the managed database has stopped.
pub fn deployment(stack: &ValidatedStack) -> Option<Deployment> {
    let moving = stack.database_move.as_ref()?;
    let copy = moving.copy.as_ref()?;
    // The settings of a client of the Cluster, which the other programs do not have yet.
    let switched = ValidatedStack {
        database: Some(copy.database.clone()),
        ..stack.clone()
    };
    let pod = PodSpec {
        containers: vec![compare(&switched, moving, copy)],
        security_context: Some(common::security_context(postgres::USER)),
        volumes: Some(vec![volume::scratch("tmp", "16Mi")]),
        ..PodSpec::default()
    };
    let pod = certificates::mounted(&switched, Component::Move, pod);
    let template = pod::without_sidecar(stack, Component::Move, String::new(), pod);
    let template = pod::placed_as_the_app(stack, template);
    let replicas = i32::from(!stack.stopped);
    let mut deployment = deployment::rolling(stack, Component::Move, replicas, template);
    if let Some(spec) = &mut deployment.spec {
        // A pod that has compared another Cluster says nothing about this one.
        spec.strategy = Some(DeploymentStrategy {
            type_: Some("Recreate".to_owned()),
            rolling_update: None,
        });
    }
    Some(deployment)
}

fn compare(stack: &ValidatedStack, moving: &DatabaseMove, copy: &MoveCopy) -> Container {
    let server = component_name(&stack.identity.name, Component::Postgres);
    let live = moving.server.as_ref().and_then(|live| live.spec.as_ref());
    let settings = Pod {
        image: live
            .and_then(|live| image(&live.template))
            .unwrap_or_default(),
        resources: pod::resources(["50m", "64Mi"], ["1", "256Mi"]),
    };
    let mut env = clients::env(stack, Component::Move);
    env.extend([
        pod::env("MANAGED_HOST", &server),
        pod::env("MANAGED_PORT", postgres::PORT.to_string()),
        pod::env("MANAGED_DATABASE", postgres::DATABASE),
        pod::secret_env("MANAGED_USERNAME", &server, USERNAME_KEY),
        pod::secret_env("MANAGED_PASSWORD", &server, PASSWORD_KEY),
        pod::env(CLUSTER_UID, &copy.uid),
        pod::env("DIFFERS", DIFFERS.to_string()),
    ]);
    let command = ["bash", "-euo", "pipefail", "-c", SCRIPT];
    Container {
        command: Some(pod::strings(&command)),
        readiness_probe: Some(pod::with_timing(
            pod::exec_probe(&["test", "-e", "/tmp/same"]),
            1,
            5,
            1,
        )),
        volume_mounts: Some(vec![volume::mount("tmp", "/tmp")]),
        ..pod::container(NAME, &settings, env)
    }
}

/// Returns the image of the managed database, which has the programs of PostgreSQL.
fn image(template: &PodTemplateSpec) -> Option<String> {
    let mut containers = template.spec.as_ref()?.containers.iter();
    containers
        .find(|container| container.name == SERVER)?
        .image
        .clone()
}
