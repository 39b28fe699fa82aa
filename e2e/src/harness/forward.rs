//! Forwarded ports, for servers that the gateway does not lead to.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::harness::Stack;

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
