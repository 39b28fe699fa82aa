//! The operator's program as a process on this machine, which a test can kill at any moment. A pod that is killed as
//! often would wait longer and longer for its restart.

use std::{fs::OpenOptions, path::PathBuf, process::Stdio};

use anyhow::{Context, Result, ensure};
use tokio::process::{Child, Command};

use crate::harness::{OPERATOR_NAMESPACE, Operator, Space};

/// Identity in the lease. Every process has the same one, like the containers of one pod, so each leads at once.
const IDENTITY: &str = "e2e-process";

/// The program with the settings of the installed operator, which must be stopped while a process runs.
pub struct OperatorProgram {
    program: String,
    settings: Vec<(String, String)>,
    log: PathBuf,
}

impl OperatorProgram {
    /// Takes the settings of the installed operator, for these namespaces alone.
    pub async fn like(operator: &Operator, spaces: &[&Space]) -> Result<Self> {
        let first = spaces.first().context("the program needs a namespace")?;
        let names: Vec<&str> = spaces.iter().map(|space| space.name.as_str()).collect();
        let names = names.join(",");
        let own = [
            ("POD_NAME", IDENTITY),
            ("POD_NAMESPACE", OPERATOR_NAMESPACE),
            ("WATCH_NAMESPACES", names.as_str()),
            ("LISTEN", "127.0.0.1:0"),
        ];
        let mut settings = operator.settings().await?;
        settings.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(Self {
            program: first.settings.operator.clone(),
            settings,
            log: std::env::temp_dir().join(format!("{}-operator.log", first.name)),
        })
    }

    /// Starts a process. Its log continues that of the earlier ones.
    pub fn start(&self) -> Result<OperatorProcess> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let child = Command::new(&self.program)
            .arg("run")
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program))?;
        Ok(OperatorProcess {
            child,
            log: self.log.clone(),
        })
    }
}

/// A process of the program. It is killed when it is dropped.
pub struct OperatorProcess {
    child: Child,
    log: PathBuf,
}

impl OperatorProcess {
    /// Kills the process, which can do nothing about it.
    pub async fn kill(mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "the operator ended by itself ({ended:?}): see {}",
            self.log.display()
        );
        self.child.kill().await?;
        Ok(())
    }

    /// Asks the process to end, and waits for it. It gives its lease back.
    pub async fn stop(mut self) -> Result<()> {
        let id = self.child.id().context("the operator has ended")?;
        let asked = Command::new("kill").arg(id.to_string()).status().await?;
        ensure!(asked.success(), "kill {id}: {asked}");
        let status = self.child.wait().await?;
        ensure!(
            status.success(),
            "the operator ended with {status}: see {}",
            self.log.display()
        );
        Ok(())
    }
}
