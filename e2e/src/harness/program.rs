//! The operator's program as a process on this machine, which a test can kill or stop at any moment. A pod that is killed
//! as often would wait longer and longer for its restart.

use std::{
    fs::{OpenOptions, read_to_string},
    path::PathBuf,
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use tokio::process::{Child, Command};

use crate::harness::{OPERATOR_NAMESPACE, Operator, Space};

/// Identity in the lease. Every process has the same one, like the containers of one pod, so each leads at once.
const IDENTITY: &str = "e2e-process";

/// The program with the settings of the installed operator, which must be stopped while a process runs, unless the
/// processes have another class and another lease.
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

    /// Returns the program as a replica with an identity and a log of its own. These settings replace those of the same
    /// name.
    pub fn replica(&self, identity: &str, settings: &[(&str, &str)]) -> Self {
        let mut all = self.settings.clone();
        all.push(("POD_NAME".to_owned(), identity.to_owned()));
        for (name, value) in settings {
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
        Self {
            program: self.program.clone(),
            settings: all,
            log: self.log.with_extension(format!("{identity}.log")),
        }
    }

    /// Returns the number of lines in the log of all its processes that contain a text.
    pub fn lines_with(&self, text: &str) -> Result<usize> {
        let log = read_to_string(&self.log);
        let log = log.with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(log.lines().filter(|line| line.contains(text)).count())
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
    /// Fails if the process has ended.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "the operator ended by itself ({ended:?}): see {}",
            self.log.display()
        );
        Ok(())
    }

    /// Kills the process, which can do nothing about it.
    pub async fn kill(mut self) -> Result<()> {
        self.check()?;
        self.child.kill().await?;
        Ok(())
    }

    /// Sends a signal to the process, such as `STOP` or `CONT`.
    pub async fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().context("the operator has ended")?;
        let id = id.to_string();
        let arguments = ["-s", signal, id.as_str()];
        let sent = Command::new("kill").args(arguments).status().await?;
        ensure!(sent.success(), "kill -s {signal} {id}: {sent}");
        Ok(())
    }

    /// Asks the process to end, and waits for it. It gives its lease back.
    pub async fn stop(mut self) -> Result<()> {
        self.signal("TERM").await?;
        let status = self.child.wait().await?;
        ensure!(
            status.success(),
            "the operator ended with {status}: see {}",
            self.log.display()
        );
        Ok(())
    }
}
