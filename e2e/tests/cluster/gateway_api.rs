//! Stacks on the cluster's Gateway: its absence, its listeners, and TLS that its data plane terminates.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{GatewayClient, Provider, Space, echo_spec, merge};

const PROVIDER: Provider = Provider::GatewayApi;

/// Returns the reference to a listener of a Gateway.
fn gateway(name: &str, listener: &str) -> Value {
    json!({"name": name, "namespace": "projectcontour", "sectionName": listener})
}

#[tokio::test]
async fn a_gateway_that_does_not_exist_or_does_not_accept_is_named() -> Result<()> {
    Space::with("no-gateway", async |space| {
        space.unused_database().await?;
        let stack = space.stack("acme");
        let mut spec = echo_spec(space, PROVIDER);
        merge(
            &mut spec,
            json!({"gateway": {"parentRefs": [gateway("nowhere", "http")]}}),
        );
        stack.apply(&spec).await?;
        let missing = stack
            .until_reason("GatewayReady", "False", "GatewayNotFound")
            .await?;
        ensure!(
            missing.message.contains("projectcontour/nowhere"),
            "{missing:?}"
        );

        let wrong = gateway("contour", "nowhere");
        stack
            .edit(json!({"gateway": {"parentRefs": [wrong]}}))
            .await?;
        let refused = stack
            .until_reason("GatewayReady", "False", "RouteNotAccepted")
            .await?;
        ensure!(refused.message.contains("NoMatchingParent"), "{refused:?}");

        let right = gateway("contour", "http");
        stack
            .edit(json!({"gateway": {"parentRefs": [right]}}))
            .await?;
        stack.ready().await?;
        GatewayClient::open(space, &stack, PROVIDER, &space.host()).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn behind_a_gateway_that_terminates_tls_http_leads_to_https() -> Result<()> {
    Space::with("gateway-tls", async |space| {
        space.unused_database().await?;
        // A name that the certificate of the Gateway is for.
        let host = "secure.e2e-shared-gateway-api.test";
        let stack = space.stack("acme");
        let mut spec = echo_spec(space, PROVIDER);
        let tls = json!({"secretName": "go-tls", "hsts": {"maxAgeSeconds": 60}});
        merge(&mut spec, json!({"gateway": {"hosts": [host], "tls": tls}}));
        space.new_certificate("go-tls", host).await?;
        stack.apply(&spec).await?;
        // The owner of the Gateway has not taken our certificate, and everything else is in place.
        let unused = stack
            .until_reason("GatewayReady", "False", "CertificateNotUsed")
            .await?;
        ensure!(unused.message.contains("/go-tls"), "{unused:?}");

        let certificate = space.certificate_of_the_gateway().await?;
        let secure = GatewayClient::open_tls(space, &stack, PROVIDER, host, &certificate).await?;
        for path in ["/api/health", "/x", "/gateway-health"] {
            let answer = secure.get(path).await?;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let header = answer.header("strict-transport-security");
            assert_eq!(header, "max-age=60", "{path}");
        }
        let plain = GatewayClient::on_gateway(space, host).await?;
        let answer = plain.get("/a%20b?c=%2F").await?;
        assert_eq!(answer.status, 308, "{answer:?}");
        let location = format!("https://{host}/a%20b?c=%2F");
        assert_eq!(answer.header("location"), location);
        ensure!(
            !answer.headers.contains_key("strict-transport-security"),
            "HSTS by HTTP: {answer:?}"
        );
        assert_eq!(plain.get("/gateway-health").await?.status, 200);
        Ok(())
    })
    .await
}
