//! The verification of backups: the newest one is restored into a PostgreSQL server in the pod itself, whose containers
//! have no credentials of the database.
//!
//! The containers run one after the other beside the server: `restore` compares every table with the manifest, `migrate`
//! and `check-links` are the app's own, and `verify` marks the backup.

use k8s_openapi::api::{
    batch::v1::CronJob,
    core::v1::{Container, EnvVar, PodSpec},
};

use super::{TEMPORARY, backups, bucket, container};
use crate::{
    model::{
        metadata::Component,
        stack::{Backup, Pod, StoreVolume, ValidatedStack, Verification},
    },
    plan::{
        build::{
            app,
            backup::LIMIT,
            cron_job::{self, Times},
        },
        objects::{pod, volume},
        stores::{common, postgres},
    },
};

/// Address of the server, which only its own pod reaches.
const HOST: &str = "127.0.0.1";
/// Name of the database, and of its owner.
const DATABASE: &str = "shortener";
/// Volume of the server.
const SCRATCH: &str = "scratch";
/// Volume of the server's socket.
const RUN: &str = "run";
/// Settings of the server. What it holds need not survive a crash.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "full_page_writes=off",
    // The server would be killed if the node offers huge pages that the container may not use.
    "huge_pages=off",
    "max_wal_size=256MB",
    "min_wal_size=64MB",
];

/// Returns the verification of a stack's backups.
pub fn verification(stack: &ValidatedStack) -> Option<&Verification> {
    stack.backup.as_ref()?.verification.as_ref()
}

/// Returns the CronJob `<stack>-verify`.
pub fn cron_job(stack: &ValidatedStack) -> Option<CronJob> {
    let (backup, verification) = (stack.backup.as_ref()?, verification(stack)?);
    let times = Times {
        schedule: verification.schedule.clone(),
        suspended: backup.suspended,
        limit: LIMIT,
    };
    let restore = concat!(
        include_str!("common.sh"),
        include_str!("restore.sh"),
        include_str!("verify.sh")
    );
    let mark = concat!(include_str!("common.sh"), include_str!("mark.sh"));
    let bucket = backup.place.bucket();
    let fetch = bucket.map(|bucket| bucket::fetch(bucket, None));
    let steps = [
        server(backup),
        container("restore", backup, restore, client()),
        app::migrate(stack, programs()),
        Container {
            name: "check-links".to_owned(),
            args: Some(vec!["check-links".to_owned()]),
            ..app::migrate(stack, programs())
        },
    ];
    let verify = match bucket {
        None => container("verify", backup, mark, Vec::new()),
        Some(bucket) => bucket::container("verify", bucket, bucket::MARK, Vec::new()),
    };
    let server_volume = StoreVolume {
        size: verification.scratch.clone(),
        ..backup.place.volume().clone()
    };
    let pod = PodSpec {
        init_containers: Some(fetch.into_iter().chain(steps).collect()),
        containers: vec![verify],
        security_context: Some(common::security_context(postgres::USER)),
        volumes: Some(vec![
            backups(stack, backup),
            bucket::scratch(SCRATCH, &server_volume),
            volume::scratch(RUN, "16Mi"),
            volume::scratch(TEMPORARY, "64Mi"),
        ]),
        ..PodSpec::default()
    };
    Some(cron_job::build(stack, Component::Verify, times, pod))
}

/// Returns the server. As an init container that is always restarted, it runs beside the containers after it and ends with
/// them.
fn server(backup: &Backup) -> Container {
    let settings = Pod {
        image: backup.image.clone(),
        resources: pod::resources(["100m", "128Mi"], ["2", "512Mi"]),
    };
    let env = vec![
        pod::env("POSTGRES_USER", DATABASE),
        pod::env("POSTGRES_DB", DATABASE),
        pod::env("POSTGRES_HOST_AUTH_METHOD", "trust"),
        pod::env("PGDATA", "/scratch/pgdata"),
    ];
    let arguments = SETTINGS.iter().flat_map(|&setting| ["-c", setting]);
    let arguments = std::iter::once("postgres").chain(arguments);
    let ready = [
        "pg_isready",
        "--quiet",
        "--host",
        HOST,
        "--username",
        DATABASE,
        "--dbname",
        DATABASE,
    ];
    Container {
        args: Some(arguments.map(str::to_owned).collect()),
        restart_policy: Some("Always".to_owned()),
        startup_probe: Some(pod::with_timing(pod::exec_probe(&ready), 2, 5, 150)),
        volume_mounts: Some(vec![
            volume::mount(SCRATCH, "/scratch"),
            volume::mount(RUN, "/var/run/postgresql"),
            volume::mount(TEMPORARY, "/tmp"),
        ]),
        ..pod::container("server", &settings, env)
    }
}

/// Returns the settings of PostgreSQL's programs for the server.
fn client() -> Vec<EnvVar> {
    vec![
        pod::env("PGHOST", HOST),
        pod::env("PGUSER", DATABASE),
        pod::env("PGDATABASE", DATABASE),
    ]
}

/// Returns the settings of the app's commands for the server.
fn programs() -> Vec<EnvVar> {
    let url = format!("postgres://{HOST}:{}/{DATABASE}", postgres::PORT);
    vec![
        pod::env("DATABASE_URL", url),
        pod::env("DATABASE_USERNAME", DATABASE),
        pod::name_env(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_verification_of_a_minimal_stack() {
        golden("cron-job-verify", &cron_job(&minimal_stack().backed_up()));
    }

    #[test]
    fn a_backup_comes_from_a_bucket() {
        let stack = minimal_stack().backed_up_to_a_bucket();
        golden("cron-job-verify-bucket", &cron_job(&stack));
    }

    #[test]
    fn no_container_has_a_secret() {
        let stack = minimal_stack().external_database_over_tls().backed_up();
        let job = cron_job(&stack).unwrap().spec.unwrap().job_template.spec;
        let pod = serde_json::to_string(&job.unwrap().template.spec).unwrap();
        assert!(!pod.to_lowercase().contains("secret"), "{pod}");
    }

    #[test]
    fn the_server_has_room_for_the_whole_database() {
        let size = |stack: ValidatedStack| verification(&stack).unwrap().scratch.0.clone();
        assert_eq!(size(minimal_stack().backed_up()), "1Gi");
        let mut stack = minimal_stack().backed_up();
        let backup = stack.backup.as_mut().unwrap();
        backup.verification = None;
        assert_eq!((cron_job(&stack), verification(&stack)), (None, None));
    }

    #[test]
    fn the_app_takes_the_commands_and_each_of_their_settings() {
        let app = <shortener_app::config::Cli as clap::CommandFactory>::command();
        for command in ["migrate", "check-links"] {
            let command = app.find_subcommand(command).unwrap();
            for variable in programs() {
                let mut known = command
                    .get_arguments()
                    .filter_map(|known| known.get_env()?.to_str());
                assert!(known.any(|known| known == variable.name), "{variable:?}");
            }
        }
    }
}
