//! The answers of the real app through the gateway.
//!
//! Specification: 4.1, 2.4.

use anyhow::{Result, ensure};
use shortener_e2e::{GatewayClient, Provider, real_stack};

use super::{checked, conformance};

conformance!(
    shortener_e2e::real_stack,
    checks: the_gateway_answers_its_own_health,
    health_names_the_replica_and_its_role,
    metrics_are_text_and_openmetrics_on_request,
    a_shortened_url_redirects_by_both_paths_to_exactly_that_url,
    a_long_destination_outside_ascii_redirects_to_the_whole_of_it,
    head_is_answered_like_get_without_a_body,
    jobs_are_refused_while_the_queue_is_not_enabled,
    every_error_is_a_problem_document,
    a_body_over_the_limit_of_the_app_is_refused,
    the_catch_all_reaches_the_routes_of_the_app,
);

/// Specification: 7.
#[tokio::test]
async fn errors_that_nginx_finds_in_the_head_of_a_request_are_problem_documents_too() -> Result<()>
{
    let shared = real_stack(Provider::Standalone).await?;
    checked(shared, async |gateway: &GatewayClient| {
        for (line, field, status) in [
            ("POST / HTTP/1.1", "Transfer-Encoding: gzip", 501),
            ("GET / HTTP/2.0", "Connection: close", 505),
        ] {
            let request = format!("{line}\r\nHost: {}\r\n{field}\r\n\r\n", gateway.host());
            let answer = gateway.send_raw(&request).await?;
            ensure!(
                answer.starts_with(&format!("HTTP/1.1 {status} "))
                    && answer.contains("application/problem+json")
                    && answer.contains(&format!("\"status\":{status},")),
                "expected a problem with status {status}: {answer}"
            );
        }
        Ok(())
    })
    .await
}

mod checks {
    use anyhow::{Context, Result, ensure};
    use reqwest::Method;
    use serde_json::json;
    use shortener_e2e::{Answer, GatewayClient};

    pub(super) async fn the_gateway_answers_its_own_health(gateway: &GatewayClient) -> Result<()> {
        let answer = gateway.get("/gateway-health").await?;
        assert_eq!((answer.status, answer.body.trim_end()), (200, "gateway ok"));
        let kind = answer.header("content-type");
        ensure!(kind.starts_with("text/plain"), "{answer:?}");
        Ok(())
    }

    /// Specification: 4.3, 4.1, 2.4.
    pub(super) async fn health_names_the_replica_and_its_role(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let answer = gateway.get("/api/health").await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let health = answer.json()?;
        assert_eq!(health["role"], "app");
        let host = health["host"].as_str().context("the health has no host")?;
        ensure!(host.starts_with("acme-app-"), "{answer:?}");
        Ok(())
    }

    /// Specification: 4.3, 4.1, 2.4, 2.7.
    pub(super) async fn metrics_are_text_and_openmetrics_on_request(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let classic = gateway.get("/api/metrics").await?;
        assert_eq!(classic.status, 200, "{classic:?}");
        ensure!(
            classic.header("content-type").starts_with("text/plain"),
            "{classic:?}"
        );
        ensure!(classic.body.contains("http_requests_total{"), "{classic:?}");
        let request = gateway
            .request(Method::GET, "/api/metrics")
            .header("accept", "application/openmetrics-text; version=1.0.0");
        let open = gateway.send(request).await?;
        let kind = open.header("content-type");
        ensure!(kind.starts_with("application/openmetrics-text"), "{open:?}");
        ensure!(open.body.trim_end().ends_with("# EOF"), "{open:?}");
        Ok(())
    }

    /// Specification: 4.5, 4.1, 4.3, 2.1, 2.4.
    pub(super) async fn a_shortened_url_redirects_by_both_paths_to_exactly_that_url(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let url = "https://example.com/a?b=c&d=%20%2F#e";
        let created = gateway.post("/api/shorten", &json!({"url": url})).await?;
        assert_eq!(created.status, 201, "{created:?}");
        let body = created.json()?;
        assert_eq!(body["url"], url);
        let code = body["code"].as_str().context("the answer has no code")?;
        let short = body["short_url"]
            .as_str()
            .context("the answer has no short URL")?;
        ensure!(short.ends_with(&format!(".test/{code}")), "{created:?}");
        assert_eq!(created.header("location"), short);
        for path in [format!("/api/links/{code}"), format!("/{code}")] {
            let answer = gateway.get(&path).await?;
            assert_eq!(
                (answer.status, answer.header("location")),
                (302, url),
                "{path}"
            );
            assert_eq!(answer.header("cache-control"), "no-store");
            assert_eq!(answer.body, "");
        }
        Ok(())
    }

    pub(super) async fn a_long_destination_outside_ascii_redirects_to_the_whole_of_it(
        gateway: &GatewayClient,
    ) -> Result<()> {
        // A letter of two bytes takes six in a URI: 2,048 bytes become 6,104, more than the default buffer of nginx.
        let site = "https://example.com/";
        let letters = (2048 - site.len()) / 2;
        let code = gateway
            .shorten(&format!("{site}{}", "\u{fc}".repeat(letters)))
            .await?;
        let expected = format!("{site}{}", "%C3%BC".repeat(letters));
        for path in [format!("/api/links/{code}"), format!("/{code}")] {
            let answer = gateway.get(&path).await?;
            ensure!(answer.status == 302, "{path}: {answer:?}");
            assert_eq!(answer.header("location"), expected, "{path}");
        }
        Ok(())
    }

    pub(super) async fn head_is_answered_like_get_without_a_body(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let url = "https://example.com/head";
        let code = gateway.shorten(url).await?;
        let head = async |path: &str| gateway.send(gateway.request(Method::HEAD, path)).await;
        for path in [format!("/api/links/{code}"), format!("/{code}")] {
            let answer = head(&path).await?;
            assert_eq!(
                (answer.status, answer.header("location")),
                (302, url),
                "{path}"
            );
        }
        for path in ["/gateway-health", "/api/health", "/api/metrics", "/health"] {
            let answer = head(path).await?;
            assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{path}");
        }
        Ok(())
    }

    /// Specification: 4.1.
    pub(super) async fn jobs_are_refused_while_the_queue_is_not_enabled(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let job = json!({"task": "wait", "id": 1});
        let answer = gateway.post("/api/jobs", &job).await?;
        is_problem(&answer, 501)?;
        ensure!(answer.body.contains("profile-disabled"), "{answer:?}");
        Ok(())
    }

    /// Specification: 7.
    pub(super) async fn every_error_is_a_problem_document(gateway: &GatewayClient) -> Result<()> {
        let shorten = || gateway.request(Method::POST, "/api/shorten");
        let json = || shorten().header("content-type", "application/json");
        is_problem(&gateway.send(json().body("{")).await?, 400)?;
        is_problem(
            &gateway
                .post("/api/shorten", &json!({"url": "ftp://x"}))
                .await?,
            400,
        )?;
        is_problem(&gateway.get("/api/links/nosuchcode").await?, 404)?;
        is_problem(&gateway.get("/no/such/route").await?, 404)?;
        let wrong_method = gateway.get("/api/shorten").await?;
        is_problem(&wrong_method, 405)?;
        ensure!(
            wrong_method.header("allow").contains("POST"),
            "{wrong_method:?}"
        );
        let text = shorten().header("content-type", "text/plain").body("x");
        is_problem(&gateway.send(text).await?, 415)?;
        let code = gateway.shorten("https://example.com/first").await?;
        let taken = json!({"url": "https://example.com/second", "code": code});
        is_problem(&gateway.post("/api/shorten", &taken).await?, 409)
    }

    /// Specification: 8.
    pub(super) async fn a_body_over_the_limit_of_the_app_is_refused(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let body = json!({"url": "https://example.com/", "padding": "x".repeat(20 * 1024)});
        is_problem(&gateway.post("/api/shorten", &body).await?, 413)
    }

    /// Specification: 4.1, 4.3.
    pub(super) async fn the_catch_all_reaches_the_routes_of_the_app(
        gateway: &GatewayClient,
    ) -> Result<()> {
        assert_eq!(gateway.get("/health").await?.json()?["role"], "app");
        ensure!(
            gateway
                .get("/metrics")
                .await?
                .body
                .contains("http_requests_total")
        );
        let url = "https://example.com/by-the-catch-all";
        let created = gateway.post("/shorten", &json!({"url": url})).await?;
        assert_eq!(created.status, 201, "{created:?}");
        let code = created.json()?["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        gateway.assert_redirects(&code, url).await
    }

    fn is_problem(answer: &Answer, status: u16) -> Result<()> {
        ensure!(answer.status == status, "expected {status}: {answer:?}");
        let kind = answer.header("content-type");
        ensure!(kind == "application/problem+json", "{answer:?}");
        let problem = answer.json()?;
        assert_eq!(problem["status"], status, "{answer:?}");
        for member in ["type", "title", "detail", "instance"] {
            ensure!(problem[member].is_string(), "no {member}: {answer:?}");
        }
        Ok(())
    }
}
