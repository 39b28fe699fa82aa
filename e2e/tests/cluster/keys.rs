//! The Secret with the keys of clients: a change reaches the pods that run, and its absence is named.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{GatewayClient, Provider, Space, Stack, await_within, pods_of};

const OLD: &str = "e2e-key-that-the-client-has-had-so-far";
const NEW: &str = "e2e-key-that-the-client-has-from-now-on";

/// The time limit for the kubelet, which is told of the pods after the change.
const KUBELET: Duration = Duration::from_secs(150);

/// Creates a link with a key. Returns the status.
async fn create(gateway: &GatewayClient, key: &str) -> Result<u16> {
    let request = gateway.request(Method::POST, "/api/shorten");
    let body = json!({"url": "https://example.com/keyed"});
    let answer = gateway.send(request.bearer_auth(key).json(&body)).await?;
    Ok(answer.status)
}

async fn uids(stack: &Stack) -> Result<BTreeSet<String>> {
    let pods = pods_of(stack, "app").await?;
    Ok(pods.iter().filter_map(ResourceExt::uid).collect())
}

/// Changes an annotation of the app's pods, so that the kubelet looks at their Secrets now and not within a minute.
async fn touch(stack: &Stack, attempt: u32) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let edit =
        json!({"metadata": {"annotations": {"e2e.shortener.dev/attempt": attempt.to_string()}}});
    for pod in pods_of(stack, "app").await? {
        pods.patch(
            &pod.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&edit),
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_key_reaches_the_same_pods_and_a_deleted_secret_is_named() -> Result<()> {
    Space::with("keys", async |space| {
        space.secret("keys", &json!({"shop": OLD})).await?;
        let auth = json!({"secretRef": {"name": "keys"}});
        let spec = json!({"gateway": {"auth": auth}});
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec).await?;
        let before = uids(&stack).await?;
        assert_eq!(create(&gateway, OLD).await?, 201);
        assert_eq!(create(&gateway, NEW).await?, 401);

        space.secret("keys", &json!({"shop": NEW})).await?;
        let mut attempt = 0;
        await_within(
            KUBELET,
            "the new key is known and the old is not",
            async || {
                attempt += 1;
                touch(&stack, attempt).await?;
                let found = (create(&gateway, NEW).await?, create(&gateway, OLD).await?);
                ensure!(found == (201, 401), "new and old key led to {found:?}");
                Ok(())
            },
        )
        .await?;
        assert_eq!(uids(&stack).await?, before, "no pod was replaced");

        let secrets = Api::<Secret>::namespaced(space.client.clone(), &space.name);
        secrets.delete("keys", &DeleteParams::default()).await?;
        let missing = stack
            .until_reason("AppReady", "False", "SecretNotFound")
            .await?;
        ensure!(
            missing.message.contains("Secret keys"),
            "{}",
            missing.message
        );
        space.secret("keys", &json!({"shop": NEW})).await?;
        stack.ready().await?;
        assert_eq!(uids(&stack).await?, before, "no pod was replaced");
        Ok(())
    })
    .await
}
