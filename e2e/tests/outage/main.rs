//! Outages that concern every stack of the cluster. They are the last tests of their cluster, one by one and in the order
//! of their names: run them with `--test-threads=1`. The last one costs all other stacks.

mod api_server;
mod definition;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use shortener_e2e::{Child, Operator, Stack, children_of};

/// The destination of the links that outlive an outage.
const TARGET: &str = "https://example.com/after-the-outage";

#[derive(Debug, PartialEq, Eq)]
struct OperatorPod {
    name: String,
    uid: Option<String>,
    /// The number of restarts of its container.
    restarts: i32,
}

impl OperatorPod {
    /// Waits until it is ready and leads.
    async fn find(operator: &Operator) -> Result<Self> {
        operator.settled(1).await?;
        let pods = operator.running().await?;
        let pod = pods.first().context("the operator has no pod")?;
        let status = pod.status.as_ref().context("its pod has no status")?;
        let containers = status.container_statuses.iter().flatten();
        Ok(Self {
            name: pod.name_any(),
            uid: pod.uid(),
            restarts: containers.map(|container| container.restart_count).sum(),
        })
    }
}

/// Returns the uids of a stack's children, by their titles.
async fn uids(stack: &Stack, chosen: impl Fn(&Child) -> bool) -> Result<BTreeMap<String, String>> {
    let children = children_of(stack).await?;
    let mut uids = BTreeMap::new();
    for child in children.iter().filter(|child| chosen(child)) {
        uids.insert(child.title(), child.seen.uid().unwrap_or_default());
    }
    ensure!(!uids.is_empty(), "stack {} has no such child", stack.name);
    Ok(uids)
}
