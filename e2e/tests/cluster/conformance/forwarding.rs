//! The requests that the gateway forwards, as the stand-in app receives them.
//!
//! Specification: 4.1.

use super::conformance;

conformance!(
    shortener_e2e::echo_stack,
    checks: the_api_routes_reach_the_app_without_their_prefix,
    paths_that_only_resemble_an_api_route_reach_the_app_unchanged,
    no_character_after_an_exact_path_is_part_of_it,
    query_strings_are_forwarded_unchanged,
    the_host_of_the_request_is_kept,
    the_address_of_the_client_is_told,
    the_address_of_the_client_is_appended_to_the_forwarded_list,
    a_forged_client_address_is_replaced,
    a_body_of_128_kib_is_forwarded_whole,
    a_body_over_128_kib_is_refused_by_the_gateway,
    the_health_of_the_gateway_is_not_forwarded,
);

mod checks {
    use anyhow::{Context, Result, ensure};
    use reqwest::{Method, RequestBuilder};
    use shortener_e2e::{Echoed, GatewayClient};

    const FOREIGN: &str = "203.0.113.7";
    const BODY_LIMIT: usize = 128 * 1024;

    async fn echoed(gateway: &GatewayClient, request: RequestBuilder) -> Result<Echoed> {
        let answer = gateway.send(request).await?;
        ensure!(answer.status == 200, "not forwarded: {answer:?}");
        serde_json::from_str(&answer.body).with_context(|| format!("not an echo: {answer:?}"))
    }

    async fn seen(gateway: &GatewayClient, method: Method, path: &str) -> Result<String> {
        let echo = echoed(gateway, gateway.request(method.clone(), path)).await?;
        assert_eq!(echo.method, method.as_str(), "{path}");
        Ok(echo.uri)
    }

    pub(super) async fn the_api_routes_reach_the_app_without_their_prefix(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for (method, public, inside) in [
            (Method::GET, "/api/health", "/health"),
            (Method::GET, "/api/metrics", "/metrics"),
            (Method::POST, "/api/shorten", "/shorten"),
            (Method::POST, "/api/jobs", "/jobs"),
            (Method::GET, "/api/links/Ab_9-z", "/Ab_9-z"),
            (Method::GET, "/api/links/health", "/health"),
            (Method::PUT, "/api/docs/7", "/docs/7"),
            (Method::POST, "/api/docs/query", "/docs/query"),
        ] {
            assert_eq!(seen(gateway, method, public).await?, inside, "{public}");
        }
        Ok(())
    }

    pub(super) async fn paths_that_only_resemble_an_api_route_reach_the_app_unchanged(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in [
            "/",
            "/Ab_9-z",
            "/health",
            "/metrics",
            "/shorten",
            "/api",
            "/api/",
            "/api/shortenX",
            "/api/Xshorten",
            "/api/shorten/",
            "/api/health/x",
            "/api/links",
            "/api/links/",
            "/api/links/a.b",
            "/api/links/a/b",
            "/api/links/a%20b",
            "/api/docs",
            "/api/docs/",
            "/api/docs/7/8",
            "/API/LINKS/x",
            "/API/HEALTH",
            "/Api/shorten",
            "/x/api/health",
            "/x/api/links/abc",
            "/gateway-healthX",
            "/gateway-health/",
            "/a%20b/c%2Fd",
            "/openapi.json",
        ] {
            assert_eq!(seen(gateway, Method::GET, path).await?, path);
        }
        Ok(())
    }

    pub(super) async fn no_character_after_an_exact_path_is_part_of_it(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for route in [
            "/gateway-health",
            "/api/health",
            "/api/shorten",
            "/api/links/Ab_9-z",
            "/api/docs/7",
        ] {
            for end in [
                "%00", "%0a", "%0A", "%0d", "%0d%0a", "%20", "%2F", "%3f", "%23", "%25", "%5c",
                "%7f", ";x",
            ] {
                let path = format!("{route}{end}");
                let answer = gateway.get(&path).await?;
                // A gateway may refuse a path that it holds to be malformed.
                if answer.status != 400 {
                    assert_eq!(seen(gateway, Method::GET, &path).await?, path);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn query_strings_are_forwarded_unchanged(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let query = "?q=a%20b&slash=%2F%3f&y=1&y=2&empty=&plus=a+b";
        for (public, inside) in [
            ("/api/health", "/health"),
            ("/api/links/Ab_9-z", "/Ab_9-z"),
            ("/anything", "/anything"),
            ("/api/links/a.b", "/api/links/a.b"),
        ] {
            let uri = seen(gateway, Method::GET, &format!("{public}{query}")).await?;
            assert_eq!(uri, format!("{inside}{query}"));
        }
        Ok(())
    }

    /// Specification: 4.2.
    pub(super) async fn the_host_of_the_request_is_kept(gateway: &GatewayClient) -> Result<()> {
        for path in ["/api/health", "/api/links/x", "/x"] {
            let echo = echoed(gateway, gateway.request(Method::GET, path)).await?;
            let host = echo.header("host");
            ensure!(host.starts_with("mirror.e2e-shared-"), "{path}: {echo:?}");
            ensure!(host.ends_with(".test"), "{path}: {echo:?}");
        }
        Ok(())
    }

    /// Specification: 4.2.
    pub(super) async fn the_address_of_the_client_is_told(gateway: &GatewayClient) -> Result<()> {
        for path in ["/api/health", "/api/links/x", "/x"] {
            let echo = echoed(gateway, gateway.request(Method::GET, path)).await?;
            let address = echo.header("x-real-ip");
            let parsed = address.parse::<std::net::IpAddr>();
            ensure!(parsed.is_ok(), "{path}: {echo:?}");
            assert_eq!(echo.header("x-forwarded-for"), address, "{path}: {echo:?}");
        }
        Ok(())
    }

    /// Specification: 4.2.
    pub(super) async fn the_address_of_the_client_is_appended_to_the_forwarded_list(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/api/health", "/api/links/x", "/x"] {
            let request = gateway.request(Method::GET, path);
            let echo = echoed(gateway, request.header("x-forwarded-for", FOREIGN)).await?;
            // The space after the comma is optional (RFC 9110, 5.6.1).
            let forwarded = echo.header("x-forwarded-for");
            let list: Vec<&str> = forwarded.split(',').map(str::trim).collect();
            let client = echo.header("x-real-ip");
            assert_eq!(list, [FOREIGN, client.as_str()], "{path}: {echo:?}");
        }
        Ok(())
    }

    /// Specification: 4.2.
    pub(super) async fn a_forged_client_address_is_replaced(gateway: &GatewayClient) -> Result<()> {
        for path in ["/api/health", "/x"] {
            let honest = echoed(gateway, gateway.request(Method::GET, path)).await?;
            let forged = gateway
                .request(Method::GET, path)
                .header("x-real-ip", FOREIGN)
                .header("x-forwarded-for", FOREIGN);
            let forged = echoed(gateway, forged).await?;
            assert_eq!(
                forged.header("x-real-ip"),
                honest.header("x-real-ip"),
                "{path}"
            );
        }
        Ok(())
    }

    pub(super) async fn a_body_of_128_kib_is_forwarded_whole(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/api/shorten", "/x"] {
            let request = gateway.request(Method::POST, path);
            let echo = echoed(gateway, request.body(vec![b'x'; BODY_LIMIT])).await?;
            assert_eq!(echo.body_bytes, BODY_LIMIT, "{path}");
        }
        Ok(())
    }

    /// Specification: 8.
    pub(super) async fn a_body_over_128_kib_is_refused_by_the_gateway(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/api/shorten", "/x"] {
            let request = gateway.request(Method::POST, path);
            let answer = gateway
                .send(request.body(vec![b'x'; BODY_LIMIT + 1]))
                .await?;
            assert_eq!(answer.status, 413, "{path}: {answer:?}");
        }
        Ok(())
    }

    pub(super) async fn the_health_of_the_gateway_is_not_forwarded(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let answer = gateway.get("/gateway-health?x=1").await?;
        assert_eq!((answer.status, answer.body.trim_end()), (200, "gateway ok"));
        Ok(())
    }
}
