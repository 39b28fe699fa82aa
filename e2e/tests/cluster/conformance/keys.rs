//! Keys of clients, which the app checks: every gateway passes them on and shows the refusals unchanged.

use super::conformance;

conformance!(
    shortener_e2e::keyed_stack,
    checks: a_request_without_a_key_is_challenged,
    a_key_opens_what_its_scopes_name_by_either_header,
    a_key_without_the_scope_is_forbidden,
    an_unknown_key_is_refused_on_every_path_to_the_app,
    redirects_and_health_need_no_key,
    a_large_body_without_a_key_is_refused,
    a_link_is_taken_down_and_deleted_by_management,
    no_link_leads_to_a_denied_host_or_to_the_stack_itself,
    links_change_for_pages_of_their_own_origin_only,
);

mod checks {
    use anyhow::{Context, Result, ensure};
    use reqwest::Method;
    use serde_json::{Value, json};
    use shortener_e2e::{Answer, DENIED, GatewayClient, KEYS};

    const UNKNOWN: &str = "e2e-key-of-a-client-that-does-not-exist";

    /// Creates a link with these header values.
    async fn create(gateway: &GatewayClient, header: &str, value: &str) -> Result<Answer> {
        let request = gateway.request(Method::POST, "/api/shorten");
        let body = json!({"url": "https://example.com/keyed"});
        gateway
            .send(request.header(header, value).json(&body))
            .await
    }

    /// Checks a refusal: its problem, its challenge, and that no cache keeps it.
    fn check_refused(answer: &Answer, status: u16, kind: &str, challenge: &str) -> Result<()> {
        ensure!(answer.status == status, "expected {status}, got {answer:?}");
        assert_eq!(answer.json()?["type"], format!("/problems/{kind}"));
        let found = answer.header("www-authenticate");
        ensure!(found.starts_with("Bearer realm=\"keyed."), "{answer:?}");
        ensure!(found.contains(challenge), "{answer:?}");
        assert_eq!(answer.header("cache-control"), "no-store");
        Ok(())
    }

    pub(super) async fn a_request_without_a_key_is_challenged(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/api/metrics", "/metrics", "/api/docs/1", "/docs/1"] {
            let answer = gateway.get(path).await?;
            check_refused(&answer, 401, "unauthorized", "").context(path)?;
            let challenge = answer.header("www-authenticate");
            ensure!(!challenge.contains("error"), "{answer:?}");
        }
        let link = json!({"url": "https://example.com/"});
        for path in ["/api/shorten", "/shorten", "/api/jobs", "/jobs"] {
            let answer = gateway.post(path, &link).await?;
            check_refused(&answer, 401, "unauthorized", "").context(path)?;
        }
        Ok(())
    }

    pub(super) async fn a_key_opens_what_its_scopes_name_by_either_header(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for key in KEYS {
            let bearer = format!("Bearer {key}");
            for (header, value) in [("authorization", bearer.as_str()), ("x-api-key", key)] {
                let answer = create(gateway, header, value).await?;
                ensure!(answer.status == 201, "{header}: {answer:?}");
            }
        }
        let metrics = gateway.request(Method::GET, "/api/metrics");
        let metrics = gateway.send(metrics.bearer_auth(KEYS[0])).await?;
        ensure!(metrics.status == 200, "{metrics:?}");
        ensure!(metrics.body.contains("auth_requests_total"), "{metrics:?}");
        Ok(())
    }

    pub(super) async fn a_key_without_the_scope_is_forbidden(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let request = gateway.request(Method::GET, "/api/metrics");
        let answer = gateway.send(request.bearer_auth(KEYS[1])).await?;
        let challenge = "error=\"insufficient_scope\", scope=\"metrics\"";
        check_refused(&answer, 403, "forbidden", challenge)
    }

    pub(super) async fn an_unknown_key_is_refused_on_every_path_to_the_app(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/api/metrics", "/metrics", "/api/docs/1", "/docs/1"] {
            let request = gateway.request(Method::GET, path);
            let answer = gateway.send(request.bearer_auth(UNKNOWN)).await?;
            check_refused(&answer, 401, "unauthorized", "error=\"invalid_token\"").context(path)?;
        }
        Ok(())
    }

    pub(super) async fn redirects_and_health_need_no_key(gateway: &GatewayClient) -> Result<()> {
        let created = create(gateway, "x-api-key", KEYS[1]).await?;
        ensure!(created.status == 201, "{created:?}");
        let created = created.json()?;
        let code = created["code"].as_str().context("the answer has no code")?;
        gateway
            .assert_redirects(code, "https://example.com/keyed")
            .await?;
        for path in ["/gateway-health", "/api/health", "/openapi.json"] {
            let answer = gateway.get(path).await?;
            ensure!(answer.status == 200, "{path}: {answer:?}");
        }
        Ok(())
    }

    /// Sends a request to the management of links with a key.
    async fn manage(
        gateway: &GatewayClient,
        method: Method,
        path: &str,
        body: Option<Value>,
        key: &str,
    ) -> Result<Answer> {
        let request = gateway.request(method, &format!("/api/admin/links/{path}"));
        let request = request.bearer_auth(key);
        gateway
            .send(match body {
                Some(body) => request.json(&body),
                None => request,
            })
            .await
    }

    pub(super) async fn a_link_is_taken_down_and_deleted_by_management(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let [admin, shop] = KEYS;
        let created = create(gateway, "x-api-key", admin).await?;
        let created = created.json()?;
        let code = created["code"].as_str().context("the answer has no code")?;
        let url = "https://example.com/keyed";
        gateway.assert_redirects(code, url).await?;

        let notice = "By order of a court.";
        let takedown = json!({"reason": "order 7", "legal": true, "notice": notice});
        let [disable, enable] = ["disable", "enable"].map(|verb| format!("{code}/{verb}"));
        let disable = async |key: &str| {
            let body = Some(takedown.clone());
            manage(gateway, Method::POST, &disable, body, key).await
        };
        let challenge = "error=\"insufficient_scope\", scope=\"links:own\"";
        check_refused(&disable(shop).await?, 403, "forbidden", challenge)?;
        let disabled = disable(admin).await?;
        ensure!(disabled.status == 200, "{disabled:?}");
        assert_eq!(disabled.json()?["state"], "disabled");
        let link = format!("/api/links/{code}");
        let blocked = gateway.get(&link).await?;
        ensure!(blocked.status == 451, "{blocked:?}");
        assert_eq!(blocked.json()?["detail"], notice);
        ensure!(
            blocked.header("link").ends_with("rel=\"blocked-by\""),
            "{blocked:?}"
        );

        let enabled = manage(gateway, Method::POST, &enable, None, admin).await?;
        ensure!(enabled.status == 200, "{enabled:?}");
        gateway.assert_redirects(code, url).await?;
        let expiry = Some(json!({"ttl_seconds": 3600}));
        let changed = manage(gateway, Method::PATCH, code, expiry, admin).await?;
        ensure!(changed.json()?["expires_at"].is_string(), "{changed:?}");
        let deleted = manage(gateway, Method::DELETE, code, None, admin).await?;
        ensure!(deleted.status == 204, "{deleted:?}");
        let gone = gateway.get(&link).await?;
        ensure!(gone.status == 410, "{gone:?}");
        assert_eq!(gone.json()?["type"], "/problems/link-disabled");
        Ok(())
    }

    pub(super) async fn no_link_leads_to_a_denied_host_or_to_the_stack_itself(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for host in [DENIED, gateway.host()] {
            let request = gateway.request(Method::POST, "/api/shorten");
            let body = json!({"url": format!("https://{host}/x")});
            let refused = gateway
                .send(request.bearer_auth(KEYS[1]).json(&body))
                .await?;
            ensure!(refused.status == 400, "{host}: {refused:?}");
            assert_eq!(refused.json()?["errors"][0]["field"], "url");
        }
        Ok(())
    }

    pub(super) async fn links_change_for_pages_of_their_own_origin_only(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let overview = gateway.request(Method::GET, "/api/admin/overview");
        let overview = gateway.send(overview.bearer_auth(KEYS[0])).await?;
        assert_eq!(overview.json()?["hosts"], json!([gateway.host()]));
        // A browser without Sec-Fetch-Site: every gateway passes on the host that the origin is compared with.
        let own = format!("https://{}", gateway.host());
        for (header, value, status) in [
            ("origin", own.as_str(), 404),
            ("origin", "https://evil.example", 403),
            ("sec-fetch-site", "same-origin", 404),
            ("sec-fetch-site", "cross-site", 403),
        ] {
            let request = gateway.request(Method::POST, "/api/admin/links/no-such-link/enable");
            let request = request.header(header, value).bearer_auth(KEYS[0]);
            let answer = gateway.send(request).await?;
            ensure!(answer.status == status, "{header}: {value}: {answer:?}");
        }
        Ok(())
    }

    pub(super) async fn a_large_body_without_a_key_is_refused(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let body = json!({"payload": "x".repeat(60 * 1024)});
        let answer = gateway.post("/api/jobs", &body).await?;
        check_refused(&answer, 401, "unauthorized", "")
    }
}
