//! The nodes of the cluster.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

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
