//! Targets, forwarded queries and scripts of other origins, which the app answers behind every gateway.

use super::conformance;

conformance!(
    shortener_e2e::keyed_stack,
    checks: visitors_without_a_link_are_sent_to_the_home_page,
    a_query_is_added_to_the_destination,
    a_preflight_needs_no_key_and_names_the_origin,
    a_script_of_another_origin_is_not_permitted,
);

mod checks {
    use anyhow::{Context, Result, ensure};
    use reqwest::Method;
    use serde_json::json;
    use shortener_e2e::{Answer, GatewayClient, HOME, KEYS, ORIGIN};

    pub(super) async fn visitors_without_a_link_are_sent_to_the_home_page(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let answer = gateway.get("/").await?;
        ensure!(answer.status == 302, "{answer:?}");
        assert_eq!(answer.header("location"), HOME);
        Ok(())
    }

    pub(super) async fn a_query_is_added_to_the_destination(gateway: &GatewayClient) -> Result<()> {
        let request = gateway.request(Method::POST, "/api/shorten");
        let body = json!({"url": "https://example.com/campaign?a=b#top"});
        let created = gateway
            .send(request.bearer_auth(KEYS[1]).json(&body))
            .await?;
        let created = created.json()?;
        let code = created["code"].as_str().context("the answer has no code")?;
        for path in [format!("/{code}?utm=x"), format!("/api/links/{code}?utm=x")] {
            let answer = gateway.get(&path).await?;
            ensure!(answer.status == 302, "{path}: {answer:?}");
            let expected = "https://example.com/campaign?a=b&utm=x#top";
            assert_eq!(answer.header("location"), expected, "{path}");
        }
        Ok(())
    }

    async fn preflight(gateway: &GatewayClient, path: &str, origin: &str) -> Result<Answer> {
        let request = gateway
            .request(Method::OPTIONS, path)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization");
        gateway.send(request).await
    }

    pub(super) async fn a_preflight_needs_no_key_and_names_the_origin(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/api/shorten", "/shorten", "/api/jobs", "/api/docs/query"] {
            let answer = preflight(gateway, path, ORIGIN).await?;
            ensure!(answer.status == 204, "{path}: {answer:?}");
            assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
            let fields = answer.header("access-control-allow-headers");
            ensure!(fields.contains("authorization"), "{path}: {answer:?}");
        }
        // An error of the app can be read as well.
        let request = gateway.request(Method::POST, "/api/shorten");
        let refused = gateway.send(request.header("origin", ORIGIN)).await?;
        ensure!(refused.status == 401, "{refused:?}");
        assert_eq!(refused.header("access-control-allow-origin"), ORIGIN);
        Ok(())
    }

    pub(super) async fn a_script_of_another_origin_is_not_permitted(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let answer = preflight(gateway, "/api/shorten", "https://evil.example").await?;
        assert_eq!(answer.header("access-control-allow-origin"), "");
        ensure!(answer.status == 401, "{answer:?}");
        Ok(())
    }
}
