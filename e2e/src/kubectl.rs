//! Commands of kubectl: running a command in a pod, forwarding a port, scaling a stack.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

use crate::Stack;

/// Runs kubectl in the namespace of a stack and returns its output.
pub async fn kubectl(stack: &Stack, arguments: &[&str]) -> Result<String> {
    kubectl_with_input(stack, arguments, "").await
}

/// Like [`kubectl`] with text on the standard input, where a password belongs.
pub async fn kubectl_with_input(stack: &Stack, arguments: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new("kubectl");
    command.args(["--namespace", &stack.namespace]);
    run(command.args(arguments), input).await
}

/// Runs a program with text on its standard input and returns its output.
pub(crate) async fn run(command: &mut Command, input: &str) -> Result<String> {
    let shown = format!("{:?}", command.as_std());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may have exited already.
        stdin.write_all(input.as_bytes()).await.ok();
    }
    let output = child.wait_with_output().await?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{shown} failed: {}{printed}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}

/// A forwarded port; forwarding ends when the value is dropped.
pub struct Forward {
    /// Host and port on this machine.
    pub address: String,
    _process: Child,
}

impl Forward {
    /// Forwards a free local port to a port of a Service.
    pub async fn to(stack: &Stack, service: &str, port: u16) -> Result<Self> {
        let mut process = Command::new("kubectl")
            .args(["--namespace", &stack.namespace, "port-forward"])
            .args([format!("service/{service}"), format!(":{port}")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start kubectl port-forward")?;
        let stdout = process
            .stdout
            .take()
            .context("kubectl port-forward has no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let Some(line) = lines.next_line().await? else {
            let output = process.wait_with_output().await?;
            bail!(
                "kubectl did not forward port {port} of service {service}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        // Forwarding from 127.0.0.1:40123 -> 15672
        let address = line
            .strip_prefix("Forwarding from ")
            .and_then(|rest| rest.split(' ').next());
        let address =
            address.with_context(|| format!("kubectl port-forward printed no address: {line}"))?;
        // A write to a closed pipe would end kubectl, and kubectl writes a line for every connection.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self {
            address: address.to_owned(),
            _process: process,
        })
    }
}
