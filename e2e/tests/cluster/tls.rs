//! TLS of a stack's own gateway: the redirect, HSTS, other hosts, and a renewed certificate.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Error, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{LogParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Provider, Space, Stack, await_condition, echo_spec, merge, pods_of,
};

const OWN: Provider = Provider::Standalone;
const SECRET: &str = "go-tls";
/// Clients that send requests while the certificate is renewed.
const CLIENTS: usize = 4;

/// Returns a ready stack of the stand-in app with a certificate and these settings of TLS, and the certificate.
async fn with_tls(space: &Space, settings: Value) -> Result<(Stack, String)> {
    space.unused_database().await?;
    let certificate = space.new_certificate(SECRET, &space.host()).await?;
    let stack = space.stack("acme");
    let mut spec = echo_spec(space, OWN);
    merge(
        &mut spec,
        json!({"gateway": {"tls": {"secretName": SECRET}}}),
    );
    merge(&mut spec, json!({"gateway": {"tls": settings}}));
    stack.apply(&spec).await?;
    stack.ready().await?;
    Ok((stack, certificate))
}

#[tokio::test]
async fn http_leads_to_https_which_tells_browsers_to_stay() -> Result<()> {
    Space::with("tls", async |space| {
        let host = space.host();
        let hsts = json!({"hsts": {"maxAgeSeconds": 60}});
        let (stack, certificate) = with_tls(space, hsts).await?;
        let secure = GatewayClient::open_tls(space, &stack, OWN, &host, &certificate).await?;
        for path in ["/api/health", "/x", "/gateway-health"] {
            let answer = secure.get(path).await?;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let header = answer.header("strict-transport-security");
            assert_eq!(header, "max-age=60", "{path}");
        }
        let plain = GatewayClient::plain(space, &stack, &host).await?;
        let answer = plain.get("/a%20b?c=%2F").await?;
        assert_eq!(answer.status, 308, "{answer:?}");
        let location = format!("https://{host}/a%20b?c=%2F");
        assert_eq!(answer.header("location"), location);
        ensure!(
            !answer.headers.contains_key("strict-transport-security"),
            "HSTS by HTTP: {answer:?}"
        );
        assert_eq!(plain.get("/gateway-health").await?.status, 200);

        // A client that names another host learns nothing, not even the certificate.
        let stranger =
            GatewayClient::trusting(space, &stack, OWN, "other.test", &[&certificate]).await?;
        let refused = stranger.get("/x").await.err();
        let refused = refused.context("another host is served by TLS")?;
        let alert = format!("{refused:#}");
        ensure!(
            alert.contains("Unrecogni"),
            "expected the alert, got {alert}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_without_a_failed_request_or_a_restart() -> Result<()> {
    Space::with("renewal", async |space| {
        let host = space.host();
        let (stack, old) = with_tls(space, json!({})).await?;
        GatewayClient::open_tls(space, &stack, OWN, &host, &old).await?;
        let before = uids(&stack).await?;
        let new = space.new_certificate(SECRET, &host).await?;
        let client = GatewayClient::trusting(space, &stack, OWN, &host, &[&old, &new]).await?;
        let renewed = GatewayClient::trusting(space, &stack, OWN, &host, &[&new]).await?;

        let (done, sent) = (AtomicBool::new(false), AtomicU32::new(0));
        let loads = (0..CLIENTS).map(|_| async {
            while !done.load(Ordering::Relaxed) {
                let answer = client.get("/x").await.context("while nginx reloads")?;
                ensure!(answer.status == 200, "while nginx reloads: {answer:?}");
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        });
        let renewal = async {
            await_condition("the gateway has the new certificate", async || {
                // The kubelet updates the files of a pod at once when the pod changes.
                touch(&stack).await?;
                renewed.get("/x").await
            })
            .await?;
            // The old workers of nginx end while these requests are sent.
            let enough = sent.load(Ordering::Relaxed) + 200;
            await_condition("requests are answered after the reload", async || {
                let sent = sent.load(Ordering::Relaxed);
                ensure!(sent >= enough, "{sent} of {enough} requests were sent");
                Ok(())
            })
            .await?;
            done.store(true, Ordering::Relaxed);
            Ok::<(), Error>(())
        };
        tokio::try_join!(futures::future::try_join_all(loads), renewal)?;
        assert_eq!(uids(&stack).await?, before, "the gateway was restarted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_broken_certificate_is_reported_and_the_old_one_stays() -> Result<()> {
    Space::with("broken", async |space| {
        let host = space.host();
        let (stack, certificate) = with_tls(space, json!({})).await?;
        let client = GatewayClient::open_tls(space, &stack, OWN, &host, &certificate).await?;
        let before = uids(&stack).await?;
        let broken = json!({"tls.crt": "broken", "tls.key": "broken"});
        space.secret(SECRET, &broken).await?;
        let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
        await_condition("nginx refuses the certificate", async || {
            touch(&stack).await?;
            for pod in pods_of(&stack, "gateway").await? {
                let log = pods.logs(&pod.name_any(), &LogParams::default()).await?;
                ensure!(log.contains("cannot load certificate"), "its log is: {log}");
            }
            Ok(())
        })
        .await?;
        let answer = client.get("/x").await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(uids(&stack).await?, before, "the gateway was restarted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_that_does_not_exist_is_named_and_taken_when_it_does() -> Result<()> {
    Space::with("no-certificate", async |space| {
        space.unused_database().await?;
        let host = space.host();
        let stack = space.stack("acme");
        let mut spec = echo_spec(space, OWN);
        merge(
            &mut spec,
            json!({"gateway": {"tls": {"secretName": SECRET}}}),
        );
        stack.apply(&spec).await?;
        let missing = stack
            .until_reason("GatewayReady", "False", "SecretNotFound")
            .await?;
        ensure!(missing.message.contains(SECRET), "{missing:?}");
        let certificate = space.new_certificate(SECRET, &host).await?;
        stack.ready().await?;
        GatewayClient::open_tls(space, &stack, OWN, &host, &certificate).await?;
        Ok(())
    })
    .await
}

async fn uids(stack: &Stack) -> Result<Vec<Option<String>>> {
    let pods = pods_of(stack, "gateway").await?;
    Ok(pods.iter().map(ResourceExt::uid).collect())
}

/// Changes an annotation of the gateway's pods.
async fn touch(stack: &Stack) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let now = format!("{:?}", std::time::SystemTime::now());
    let change = json!({"metadata": {"annotations": {"e2e/touched": now}}});
    for pod in pods_of(stack, "gateway").await? {
        let patch = Patch::Merge(&change);
        pods.patch(&pod.name_any(), &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}
