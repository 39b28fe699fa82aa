//! Changes to a live gateway, and the app's use of the headers that the gateway sets.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt, api::DeleteParams};
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{
    Child, GatewayClient, Provider, Space, await_condition, children_of, echo_spec,
};

#[tokio::test]
async fn a_standalone_gateway_follows_the_app_to_a_new_address() -> Result<()> {
    Space::with("address", async |space| {
        space.unused_database().await?;
        let stack = space.stack("acme");
        stack.apply(&echo_spec(space, Provider::Standalone)).await?;
        stack.ready().await?;
        let gateway =
            GatewayClient::open(space, &stack, Provider::Standalone, &space.host()).await?;

        let services = Api::<Service>::namespaced(space.client.clone(), &space.name);
        let old = services.get("acme-app").await?.uid();
        services
            .delete("acme-app", &DeleteParams::default())
            .await?;
        await_condition("the app has a new Service", async || {
            let new = services.get("acme-app").await?.uid();
            ensure!(new != old, "the Service is still the old one");
            Ok(())
        })
        .await?;
        await_condition("the gateway forwards to the new address", async || {
            let answer = gateway.get("/api/health").await?;
            ensure!(answer.status == 200, "expected status 200, got {answer:?}");
            Ok(())
        })
        .await?;
        stack.ready().await
    })
    .await
}

#[tokio::test]
async fn the_provider_can_change_on_a_live_stack_and_serves_every_host() -> Result<()> {
    Space::with("provider", async |space| {
        space.unused_database().await?;
        let stack = space.stack("acme");
        // No name is longer: 253 characters.
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        let hosts = [space.host(), format!("alias.{}", space.host()), longest];
        for provider in [
            Provider::Standalone,
            Provider::IngressNginx,
            Provider::GatewayApi,
            Provider::Standalone,
            Provider::GatewayApi,
        ] {
            let mut spec = echo_spec(space, provider);
            spec["gateway"]["hosts"] = json!(hosts);
            stack.apply(&spec).await?;
            stack.ready().await?;
            for host in &hosts {
                GatewayClient::open(space, &stack, provider, host).await?;
            }
            let expected: &[&str] = match provider {
                Provider::IngressNginx => &["Ingress/acme-gateway", "Ingress/acme-gateway-api"],
                Provider::Standalone => &[],
                Provider::GatewayApi => &["HTTPRoute/acme"],
            };
            await_condition("the routes are those of the provider", async || {
                let mut routes: Vec<String> = children_of(&stack)
                    .await?
                    .iter()
                    .map(Child::title)
                    .collect();
                let is_route = |title: &String| {
                    title.starts_with("Ingress/") || title.starts_with("HTTPRoute/")
                };
                routes.retain(is_route);
                routes.sort();
                ensure!(routes == expected, "expected {expected:?}, got {routes:?}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn limits_count_by_the_address_that_the_gateway_saw() -> Result<()> {
    Space::with("limits", async |space| {
        let limits = json!({"shortenPerMinute": 1, "shortenBurst": 3});
        let changes = json!({"rateLimits": limits, "gateway": {"exposeMetrics": false}});
        let (_stack, gateway) = space.serve(Provider::IngressNginx, changes).await?;
        for number in 0..3 {
            gateway
                .shorten(&format!("https://example.com/{number}"))
                .await?;
        }
        for forged in ["203.0.113.1", "203.0.113.2"] {
            let body = json!({"url": "https://example.com/too-many"});
            let request = gateway.request(Method::POST, "/api/shorten").json(&body);
            let answer = gateway
                .send(request.header("x-forwarded-for", forged))
                .await?;
            assert_eq!(answer.status, 429, "{answer:?}");
            let wait: u32 = answer.header("retry-after").parse()?;
            ensure!((1..=60).contains(&wait), "{answer:?}");
        }
        for path in ["/api/metrics", "/metrics"] {
            assert_eq!(gateway.get(path).await?.status, 404, "{path} is exposed");
        }
        Ok(())
    })
    .await
}
