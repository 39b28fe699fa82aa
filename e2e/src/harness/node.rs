//! The nodes of the cluster.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use tokio::process::Command;

use crate::harness::kubectl::run;

/// Stops the API server for a number of seconds. It is found by the name of its process, because one program may be all
/// parts of Kubernetes. The script lets it go on even if nothing waits for the script any more.
const FREEZE: &str = r#"
set -eu
found=
for process in /proc/[0-9]*; do
  if read -r name 2>/dev/null <"$process/comm" && test "$name" = kube-apiserver; then found=${process#/proc/}; fi
done
test -n "$found" || { echo "no process is named kube-apiserver" >&2; exit 1; }
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

/// Stops the process of the API server in a node for this time, and waits for the end of it. The kernel takes connections
/// meanwhile, and nothing answers. The node is a container of this machine with the node's name, as kind makes it.
pub async fn freeze_api_server(node: &str, time: Duration) -> Result<()> {
    let seconds = time.as_secs().to_string();
    let mut command = Command::new("docker");
    command.args(["exec", node, "sh", "-c", FREEZE, "sh", seconds.as_str()]);
    run(&mut command, "").await.map(|_| ())
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
