//! The specification's gateway table and headers, for every provider, by HTTP and by HTTPS.

mod answers;
mod forwarding;
mod keys;
mod links;
mod pages;
mod visitors;

use anyhow::Result;
use shortener_e2e::{GatewayClient, SharedStack};

/// Defines one test per sentence and provider, on the shared stack that `$stack` returns.
macro_rules! conformance {
    ($stack:path, $checks:ident: $($sentence:ident),+ $(,)?) => {
        mod ingress_nginx {
            $(#[tokio::test]
            async fn $sentence() -> anyhow::Result<()> {
                let shared = $stack(shortener_e2e::Provider::IngressNginx).await?;
                $crate::conformance::checked(shared, super::$checks::$sentence).await
            })+
        }
        mod standalone {
            $(#[tokio::test]
            async fn $sentence() -> anyhow::Result<()> {
                let shared = $stack(shortener_e2e::Provider::Standalone).await?;
                $crate::conformance::checked(shared, super::$checks::$sentence).await
            })+
        }
        mod gateway_api {
            $(#[tokio::test]
            async fn $sentence() -> anyhow::Result<()> {
                let shared = $stack(shortener_e2e::Provider::GatewayApi).await?;
                $crate::conformance::checked(shared, super::$checks::$sentence).await
            })+
        }
        mod ingress_nginx_by_https {
            $(#[tokio::test]
            async fn $sentence() -> anyhow::Result<()> {
                let provider = shortener_e2e::Provider::IngressNginx;
                let shared = $stack(provider).await?.by_https(provider).await?;
                $crate::conformance::checked(shared, super::$checks::$sentence).await
            })+
        }
        mod standalone_by_https {
            $(#[tokio::test]
            async fn $sentence() -> anyhow::Result<()> {
                let provider = shortener_e2e::Provider::Standalone;
                let shared = $stack(provider).await?.by_https(provider).await?;
                $crate::conformance::checked(shared, super::$checks::$sentence).await
            })+
        }
        mod gateway_api_by_https {
            $(#[tokio::test]
            async fn $sentence() -> anyhow::Result<()> {
                let provider = shortener_e2e::Provider::GatewayApi;
                let shared = $stack(provider).await?.by_https(provider).await?;
                $crate::conformance::checked(shared, super::$checks::$sentence).await
            })+
        }
    };
}
use conformance;

async fn checked(
    shared: SharedStack,
    check: impl AsyncFnOnce(&GatewayClient) -> Result<()>,
) -> Result<()> {
    shared
        .space
        .check(async |_| check(&shared.gateway).await)
        .await
}
