//! A program as a separate process: its log lines, signals and exit code.

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// A running program; killed when dropped.
pub struct Process {
    child: Child,
    log: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, log }
    }

    /// Waits for the next log line of this event.
    pub async fn event(&mut self, name: &str) -> Value {
        loop {
            let line = self
                .log
                .next_line()
                .await
                .unwrap()
                .unwrap_or_else(|| panic!("the log ended without the event {name}"));
            let line: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if line["event"] == name {
                return line;
            }
        }
    }

    /// Returns the other log lines, once the program has ended.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.log.next_line().await.unwrap() {
            lines.push(serde_json::from_str(&line).unwrap());
        }
        lines
    }

    /// Sends SIGTERM.
    pub async fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, such as `-STOP`, before it returns.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([signal, &pid]).status().unwrap().success());
    }

    pub async fn exit(mut self) -> ExitStatus {
        tokio::time::timeout(Duration::from_secs(30), self.child.wait())
            .await
            .expect("the program did not exit within 30 s")
            .unwrap()
    }
}
