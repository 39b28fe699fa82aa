//! Runs of the CronJobs of backups, as the status of their pods shows them.

use k8s_openapi::{
    api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus},
    jiff::Timestamp,
};

/// Longest failure that is reported, in bytes.
const LONGEST: usize = 512;

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRun {
    /// End of the run.
    pub ended: Timestamp,
    /// Name of the backup that it made or verified, if there was one.
    pub backup: Option<String>,
    /// Size of the dump in bytes.
    pub bytes: Option<i64>,
    /// Why it failed; `None` if it succeeded.
    pub failure: Option<String>,
}

impl BackupRun {
    /// Reads the run of a pod; `None` if it has not ended.
    pub fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let failed = match status.phase.as_deref()? {
            "Succeeded" => false,
            "Failed" => true,
            _ => return None,
        };
        let ended: Vec<&ContainerStateTerminated> =
            containers(status).filter_map(terminated).collect();
        let last = ended
            .iter()
            .filter_map(|end| end.finished_at.as_ref())
            .max();
        let names_backup = |end: &&&ContainerStateTerminated| {
            let message = end.message.as_deref();
            message.is_some_and(|message| message.contains("backup="))
        };
        let told = if failed {
            ended.iter().find(|end| end.exit_code != 0)
        } else {
            ended.iter().rev().find(names_backup)
        };
        let message = told
            .and_then(|end| end.message.as_deref())
            .unwrap_or_default();
        let value = |name: &str| {
            let mut lines = message.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        };
        let failure = || {
            failure(message)
                .or(status.message.as_deref())
                .unwrap_or("no reason is known")
        };
        Some(Self {
            ended: last.or(status.start_time.as_ref())?.0,
            backup: value("backup")
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
            bytes: value("bytes").and_then(|bytes| bytes.parse().ok()),
            failure: failed.then(|| shortened(failure())),
        })
    }
}

/// Returns the containers in the order in which they run. The server of a verification ends after the others, so its end
/// explains theirs only if none of them has ended.
fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all = || {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    };
    let servers = |container: &&ContainerStatus| container.name == "server";
    let others = all().filter(move |container| !servers(container));
    others.chain(all().filter(servers))
}

fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

/// Returns the first line of a log that names an error, or else the last line.
fn failure(log: &str) -> Option<&str> {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.to_ascii_lowercase().contains("error");
    lines().find(is_error).or_else(|| lines().next_back())
}

/// Returns the error in the log of a script, at most 512 bytes of it.
pub(crate) fn error_of(log: &str) -> Option<String> {
    failure(log).map(shortened)
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ended(name: &str, code: i32, message: &str) -> Value {
        let end =
            json!({"exitCode": code, "message": message, "finishedAt": "2026-11-28T04:18:00Z"});
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": end}})
    }

    fn run(phase: &str, init: &[Value], main: &[Value]) -> Option<BackupRun> {
        let pod = json!({"metadata": {}, "status": {
            "phase": phase,
            "startTime": "2026-11-28T04:17:00Z",
            "message": "Pod was active on the node longer than the specified deadline",
            "initContainerStatuses": init,
            "containerStatuses": main,
        }});
        BackupRun::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_run_that_succeeded_has_the_name_and_the_size_of_its_backup() {
        let message = "backup=20261128T041700Z\nbytes=71802\nseconds=3\n";
        let found = run("Succeeded", &[], &[ended("backup", 0, message)]).unwrap();
        assert_eq!(found.backup.as_deref(), Some("20261128T041700Z"));
        assert_eq!((found.bytes, found.failure), (Some(71802), None));
        assert_eq!(found.ended, "2026-11-28T04:18:00Z".parse().unwrap());
        let none = run(
            "Succeeded",
            &[ended("server", 0, "")],
            &[ended("verify", 0, "backup=\n")],
        )
        .unwrap();
        assert_eq!(none.backup, None);
    }

    #[test]
    fn a_run_that_failed_has_the_line_that_names_the_error() {
        let failure =
            |init: &[Value], main: &[Value]| run("Failed", init, main).unwrap().failure.unwrap();
        let log = "backup=20261128T041700Z\npg_restore: error: could not read from input file\nDETAIL: more\n";
        let init = [ended("server", 137, "killed"), ended("restore", 1, log)];
        assert_eq!(
            failure(&init, &[]),
            "pg_restore: error: could not read from input file"
        );
        assert_eq!(
            run("Failed", &init, &[]).unwrap().backup.as_deref(),
            Some("20261128T041700Z")
        );
        assert_eq!(failure(&[], &[ended("backup", 2, "a\nb\n\n")]), "b");
        assert_eq!(failure(&[ended("server", 1, "no space")], &[]), "no space");
        assert!(failure(&[], &[]).starts_with("Pod was active"));
        let long = "é".repeat(1000);
        assert!(failure(&[], &[ended("backup", 1, &long)]).len() <= LONGEST);
    }

    #[test]
    fn a_run_that_goes_on_has_no_result() {
        for phase in ["Pending", "Running", "Unknown"] {
            assert_eq!(run(phase, &[ended("restore", 0, "")], &[]), None);
        }
    }
}
