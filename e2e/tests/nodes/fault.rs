//! Faults of a node. kind runs each node as a container on this machine.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt, api::ListParams};
use shortener_e2e::{Stack, checkout, is_ready, pods_of, run};
use tokio::process::Command;

/// Command that drops every packet from and to a node. The programs of the node continue to run.
const CUT: &str = "iptables --wait --table raw --insert PREROUTING --in-interface eth0 --jump DROP && \
                   iptables --wait --table mangle --insert POSTROUTING --out-interface eth0 --jump DROP";
/// Command that undoes [`CUT`].
const JOIN: &str = "iptables --wait --table mangle --delete POSTROUTING --out-interface eth0 --jump DROP && \
                    iptables --wait --table raw --delete PREROUTING --in-interface eth0 --jump DROP";

/// Time limit of a drain. A pod ends within two minutes, and a disruption budget lets the pods of a component end one by one.
const DRAIN: &str = "--timeout=600s";

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All programs of the node are killed, and its address is gone.
    Killed,
    /// All programs of the node are paused. The kernel still accepts connections, but no program answers.
    Frozen,
    /// The programs run, but no packet reaches or leaves the node.
    CutOff,
}

impl Fault {
    /// Begins the fault on a node. The returned guard ends it.
    pub async fn strike(self, node: &str) -> Result<Struck> {
        match self {
            Self::Killed => docker(&["kill", node]).await?,
            Self::Frozen => docker(&["pause", node]).await?,
            Self::CutOff => docker(&["exec", node, "sh", "-c", CUT]).await?,
        }
        Ok(Struck {
            fault: self,
            node: node.to_owned(),
            ended: false,
        })
    }
}

/// A node with a fault, which ends when this is dropped: also if a test fails.
pub struct Struck {
    fault: Fault,
    node: String,
    ended: bool,
}

impl Struck {
    /// Returns the arguments with which `docker` ends the fault.
    fn remedy(&self) -> Vec<&str> {
        match self.fault {
            Fault::Killed => vec!["start", &self.node],
            Fault::Frozen => vec!["unpause", &self.node],
            Fault::CutOff => vec!["exec", &self.node, "sh", "-c", JOIN],
        }
    }

    /// Ends the fault.
    pub async fn end(mut self) -> Result<()> {
        docker(&self.remedy()).await?;
        self.ended = true;
        if self.fault == Fault::Killed {
            run(&mut Command::new(checkout("cluster/routes.sh")), "").await?;
        }
        Ok(())
    }
}

impl Drop for Struck {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let ended = std::process::Command::new("docker")
            .args(self.remedy())
            .status();
        let routes = std::process::Command::new(checkout("cluster/routes.sh")).status();
        eprintln!(
            "the fault of {} is ended: {ended:?}, its routes: {routes:?}",
            self.node
        );
    }
}

/// Evicts the pods of a node and waits until they are gone.
pub async fn drain(node: &str) -> Result<()> {
    let what = [
        "drain",
        node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        DRAIN,
    ];
    let output = run(Command::new("kubectl").args(what), "").await?;
    println!("{}", output.lines().last().unwrap_or_default());
    Ok(())
}

/// Makes a node schedulable again.
pub async fn uncordon(node: &str) -> Result<()> {
    run(Command::new("kubectl").args(["uncordon", node]), "").await?;
    Ok(())
}

/// Returns the names of the nodes on which pods of stacks run.
pub async fn workers(client: &Client) -> Result<Vec<String>> {
    let selected = ListParams::default().labels("topology.kubernetes.io/zone");
    let nodes = Api::<Node>::all(client.clone()).list(&selected).await?;
    let names: Vec<_> = nodes.items.iter().map(ResourceExt::name_any).collect();
    (names.len() == 3)
        .then_some(names)
        .context("the cluster does not have three nodes in zones")
}

/// Returns the number of ready pods of a component on other nodes.
pub async fn ready_elsewhere(stack: &Stack, component: &str, node: &str) -> Result<usize> {
    let pods = pods_of(stack, component).await?;
    let elsewhere = pods.iter().filter(|pod| {
        let place = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        is_ready(pod) && place.is_some_and(|place| place != node)
    });
    Ok(elsewhere.count())
}

async fn docker(arguments: &[&str]) -> Result<()> {
    run(Command::new("docker").args(arguments), "").await?;
    Ok(())
}
