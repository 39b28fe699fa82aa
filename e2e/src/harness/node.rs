//! The nodes of the cluster.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
};

/// Finds the API server, and stops it for a number of seconds once it is told to by a line. It is found by the name of its
/// process, because one program may be all parts of Kubernetes. The script lets it go on even if nothing waits for the script
/// any more, and stops nothing if the input ends without a line.
const FREEZE: &str = r#"
set -eu
found=
for process in /proc/[0-9]*; do
  if read -r name 2>/dev/null <"$process/comm" && test "$name" = kube-apiserver; then found=${process#/proc/}; fi
done
test -n "$found" || { echo "no process is named kube-apiserver" >&2; exit 1; }
echo found
read -r go
trap 'kill -s CONT "$found"' EXIT
kill -s STOP "$found"
sleep "$1"
"#;

/// Returns the name of the only node.
pub async fn node_name(client: &Client) -> Result<String> {
    let nodes = Api::<Node>::all(client.clone())
        .list(&Default::default())
        .await?;
    let node = nodes.items.first().context("the cluster has no node")?;
    Ok(node.name_any())
}

/// A script in a node that has found the process of the API server, so that to stop it takes no time any more.
pub struct Freezer {
    script: Child,
    input: ChildStdin,
}

impl Freezer {
    /// Finds the process in a node, to stop it for this time later. The node is a container of this machine with the node's
    /// name, as kind makes it.
    pub async fn ready(node: &str, time: Duration) -> Result<Self> {
        let seconds = time.as_secs().to_string();
        let exec = ["exec", "--interactive", node];
        let mut script = Command::new("docker")
            .args(exec)
            .args(["sh", "-c", FREEZE, "sh", seconds.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start docker")?;
        let input = script.stdin.take().context("docker has no input")?;
        let output = script.stdout.take().context("docker has no output")?;
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said).await?;
        ensure!(
            said.trim() == "found",
            "node {node} did not find the API server: its error is above"
        );
        Ok(Self { script, input })
    }

    /// Stops the process, and waits for the end of that. The kernel takes connections meanwhile, and nothing answers.
    pub async fn freeze(self) -> Result<()> {
        let Self {
            mut script,
            mut input,
        } = self;
        input.write_all(b"\n").await?;
        let status = script.wait().await?;
        ensure!(
            status.success(),
            "the API server was not stopped ({status}): the error is above"
        );
        Ok(())
    }
}

/// Returns the address at which this machine and the pods reach a node.
pub async fn node_address(client: &Client) -> Result<String> {
    let nodes = Api::<Node>::all(client.clone())
        .list(&Default::default())
        .await?;
    let addresses = nodes
        .items
        .into_iter()
        .filter_map(|node| node.status?.addresses)
        .flatten();
    let mut internal = addresses.filter(|address| address.type_ == "InternalIP");
    let address = internal.next().context("no node has an InternalIP")?;
    Ok(address.address)
}
