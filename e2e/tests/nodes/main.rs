//! What users see while a node is drained, dies, freezes or is cut off. The cluster has three nodes for pods, each in a zone
//! of its own, and the control plane on a fourth one (`e2e/checks/nodes.sh`). The tests run one by one
//! (`--test-threads=1`), and each ends the faults that it begins.

mod acknowledged;
mod balancer;
mod fault;
mod measured;
mod users;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Operator, Provider, Space, Stack, await_condition, conditions_of, kubectl,
    small, small_broker_cluster,
};

use self::{balancer::Balancer, fault::Fault, measured::Measured, users::Users};

/// Time for which clients send requests before the fault, for comparison.
const CALM: Duration = Duration::from_secs(10);

/// Longest time from the loss of a node until the status names it.
const NAMED: Duration = Duration::from_secs(75);

/// A stack that survives the loss of a node: it has three database servers, three members of the broker, and three pods of the
/// app, of the gateway and of the workers.
fn survivor() -> Value {
    json!({
        "profiles": ["caching", "queue"],
        "app": {"replicas": 3},
        "gateway": {"replicas": 3},
        "workers": {"replicas": 3},
        "database": {
            "managed": null,
            "cloudNativePG": {"storage": "512Mi", "template": {"resources": small()}},
        },
        "queue": {"managed": null, "rabbitmqCluster": small_broker_cluster()},
    })
}

/// Runs a test on such a stack behind ingress-nginx, which runs on the node of the control plane, or behind its own gateway, which
/// has a pod on each node, with a load balancer before them.
async fn with_survivor(
    theme: &str,
    provider: Provider,
    test: impl AsyncFnOnce(&Stack, &Arc<Balancer>) -> Result<()>,
) -> Result<()> {
    Space::with(theme, async |space| {
        let (stack, gateway) = space.serve(provider, survivor()).await?;
        for component in ["DatabaseReady", "QueueReady"] {
            stack
                .until_reason(component, "True", "ClusterReady")
                .await?;
        }
        let gateways = match provider {
            Provider::Standalone => GatewayClient::on_nodes(space, &stack, gateway.host()).await?,
            _ => vec![gateway],
        };
        test(&stack, &Balancer::start(gateways)).await
    })
    .await
}

#[tokio::test]
async fn drained_one_after_the_other() -> Result<()> {
    with_survivor("drain", Provider::IngressNginx, async |stack, entry| {
        for node in fault::workers(&stack.client).await? {
            let users = Users::start(entry, CALM).await?;
            let begin = users.now();
            fault::drain(&node).await?;
            serves_without(stack, &node).await?;
            let drained = users.now();
            fault::uncordon(&node).await?;
            stack.ready().await?;
            let seen = users.stop().await?;
            let measured = Measured::of(&seen, begin, drained);
            println!("{}", measured.row(&format!("{node} drained")));
            acknowledged::nothing_lost(entry, &seen).await?;
            ensure!(
                measured.followed.failed == 0,
                "a redirect failed: {measured:?}"
            );
        }
        Ok(())
    })
    .await
}

/// Waits until the pods of a node that is drained or dead are elsewhere.
async fn serves_without(stack: &Stack, node: &str) -> Result<()> {
    await_condition(
        &format!("the app and the workers run without {node}"),
        async || {
            for component in ["app", "worker"] {
                let ready = fault::ready_elsewhere(stack, component, node).await?;
                ensure!(ready == 3, "{component}: {ready} pods are ready elsewhere");
            }
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn killed() -> Result<()> {
    survives("killed", Fault::Killed, Provider::Standalone).await
}

#[tokio::test]
async fn killed_behind_an_ingress_controller() -> Result<()> {
    survives("killed-nginx", Fault::Killed, Provider::IngressNginx).await
}

#[tokio::test]
async fn frozen() -> Result<()> {
    survives("frozen", Fault::Frozen, Provider::Standalone).await
}

#[tokio::test]
async fn cut_off() -> Result<()> {
    survives("cut-off", Fault::CutOff, Provider::Standalone).await
}

/// Begins a fault on the node of the primary database server. The leading operator runs there too.
async fn survives(theme: &str, fault: Fault, provider: Provider) -> Result<()> {
    with_survivor(theme, provider, async |stack, entry| {
        let node = node_of_the_primary(stack).await?;
        let operator = Operator::find(&stack.client).await?;
        // One operator on each node.
        operator.scale(3).await?;
        lead_on(&operator, &node).await?;
        let earlier = operator.leader().await?;
        let users = Users::start(entry, CALM).await?;
        let (struck, begin) = (Instant::now(), users.now());
        let guard = fault.strike(&node).await?;
        // What was sent before may have been served before.
        let after = users.now();
        let led = async {
            await_condition("another operator leads", async || {
                let leader = operator.leader().await?;
                ensure!(leader != earlier, "{leader} still leads");
                Ok(())
            })
            .await?;
            Ok(struck.elapsed())
        };
        let named = async {
            let what = format!("the status names the lost node {node}");
            await_condition(&what, async || names_the_node(stack, &node).await).await?;
            Ok(struck.elapsed())
        };
        let (led, named, ()) = tokio::try_join!(led, named, users.write_again(after))?;
        let over = users.now();
        if fault == Fault::Killed {
            serves_without(stack, &node).await?;
        }
        guard.end().await?;
        stack.ready().await?;
        let seen = users.stop().await?;
        let measured = Measured::of(&seen, begin, over);
        println!(
            "{}",
            measured.row(&format!("{theme}, {}", provider.as_str()))
        );
        println!(
            "another operator led after {led:.1?}, and the status named the node after {named:.1?}"
        );
        acknowledged::nothing_lost(entry, &seen).await?;
        ensure!(named <= NAMED, "the status named the node after {named:?}");
        measured.within_bounds(provider)
    })
    .await
}

/// Deletes the leading operator until one on this node leads.
async fn lead_on(operator: &Operator, node: &str) -> Result<()> {
    await_condition(&format!("an operator on {node} leads"), async || {
        let leader = operator.leader().await?;
        let pod = operator.pods.get(&leader).await?;
        let place = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        if place != node {
            operator.pods.delete(&leader, &Default::default()).await?;
        }
        ensure!(place == node, "{leader} leads on {place}");
        Ok(())
    })
    .await
}

/// Returns the node of the primary database server.
async fn node_of_the_primary(stack: &Stack) -> Result<String> {
    let primary = "--output=jsonpath={.status.currentPrimary}";
    let primary = kubectl(
        stack,
        &["get", "clusters.postgresql.cnpg.io/acme-pg", primary],
    )
    .await?;
    let node = "--output=jsonpath={.spec.nodeName}";
    kubectl(stack, &["get", "pod", &primary, node]).await
}

async fn names_the_node(stack: &Stack, node: &str) -> Result<()> {
    let conditions = conditions_of(&stack.get().await?)?;
    let lost = conditions
        .iter()
        .find(|condition| condition.reason == "NodeLost")
        .context("no condition has the reason NodeLost")?;
    ensure!(lost.message.contains(node), "{}", lost.message);
    Ok(())
}
