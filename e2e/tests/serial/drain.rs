//! A node drain under load (F15). The test cluster has one node, so it is not cordoned, and the pods come back on it. The rest
//! is done as `kubectl drain` does it: pods are evicted as soon as their disruption budgets allow it, and waited for.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, Config, ResourceExt, api::EvictParams};
use serde_json::json;
use shortener_e2e::{
    Load, Provider, Space, Stack, await_condition, await_replaced, pods_of, uids_of,
};

use crate::{rollout::two_of_everything, undisturbed};

/// The components on the path of a request that have several pods. The database has one, which a drain interrupts.
const EVICTED: [&str; 2] = ["app", "gateway"];

/// The status of an eviction for which the disruption budget has no room.
const TOO_MANY_REQUESTS: u16 = 429;

#[tokio::test]
async fn a_node_drain_fails_no_request() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("drain", async |space| {
        let (stack, gateway) = two_of_everything(space, Provider::Standalone, json!({})).await?;
        let load = Load::of_redirects_and_creates(&gateway).await?;
        load.fails_nothing("node drain", drain(&stack)).await
    })
    .await
}

/// Evicts the pods one after the other, and waits until others have replaced them.
async fn drain(stack: &Stack) -> Result<()> {
    let pods = Api::<Pod>::namespaced(impatient_client().await?, &stack.namespace);
    let earlier = uids_of(stack, &EVICTED).await?;
    let mut refusals = 0;
    for component in EVICTED {
        for pod in pods_of(stack, component).await? {
            refusals += evict(&pods, &pod.name_any()).await?;
        }
    }
    await_replaced(stack, &EVICTED, &earlier).await?;
    ensure!(
        refusals > 0,
        "both pods of a component were evicted at once"
    );
    Ok(())
}

/// Returns a client that does not itself repeat a request that was refused.
async fn impatient_client() -> Result<Client> {
    let mut config = Config::infer().await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Evicts a pod as soon as that is allowed. Returns the number of refusals until then.
async fn evict(pods: &Api<Pod>, name: &str) -> Result<u32> {
    let mut refusals = 0;
    await_condition(&format!("pod {name} is evicted"), async || {
        let answer = pods.evict(name, &EvictParams::default()).await;
        if let Err(kube::Error::Api(status)) = &answer {
            refusals += u32::from(status.code == TOO_MANY_REQUESTS);
        }
        answer?;
        Ok(())
    })
    .await?;
    Ok(refusals)
}
