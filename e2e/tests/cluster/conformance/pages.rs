//! Pages for browsers, which the app writes: every gateway passes them on unchanged.

use super::conformance;

conformance!(
    shortener_e2e::real_stack,
    checks: a_browser_gets_a_page_for_a_code_that_does_not_exist,
    a_preview_shows_a_link_without_following_it,
);

mod checks {
    use anyhow::{Result, ensure};
    use reqwest::Method;
    use shortener_e2e::{Answer, GatewayClient};

    const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

    /// Opens a path as a browser does, and checks that the answer is a page.
    async fn browse(gateway: &GatewayClient, path: &str, status: u16) -> Result<Answer> {
        let request = gateway.request(Method::GET, path);
        let answer = gateway.send(request.header("accept", ACCEPT)).await?;
        ensure!(
            answer.status == status,
            "{path}: expected {status}: {answer:?}"
        );
        let kind = answer.header("content-type");
        ensure!(kind == "text/html; charset=utf-8", "{path}: {answer:?}");
        let policy = answer.header("content-security-policy");
        ensure!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{path}: {answer:?}"
        );
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        Ok(answer)
    }

    pub(super) async fn a_browser_gets_a_page_for_a_code_that_does_not_exist(
        gateway: &GatewayClient,
    ) -> Result<()> {
        for path in ["/nosuchcode", "/api/links/nosuchcode", "/", "/no/such/page"] {
            let answer = browse(gateway, path, 404).await?;
            ensure!(
                answer.body.contains("There is nothing here"),
                "{path}: {answer:?}"
            );
            let plain = gateway.get(path).await?;
            let kind = plain.header("content-type");
            ensure!(kind == "application/problem+json", "{path}: {plain:?}");
        }
        Ok(())
    }

    pub(super) async fn a_preview_shows_a_link_without_following_it(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let url = "https://example.com/previewed?a=b&c=d";
        let code = gateway.shorten(url).await?;
        let below = gateway.get(&format!("/api/links/{code}+")).await?;
        ensure!(below.status == 404, "{below:?}");
        let path = format!("/{code}+");
        let shown = gateway.get(&path).await?;
        ensure!(shown.status == 200, "{shown:?}");
        assert_eq!(shown.json()?["url"], url);
        let page = browse(gateway, &path, 200).await?;
        ensure!(
            page.body
                .contains("href=\"https://example.com/previewed?a=b&amp;c=d\""),
            "{page:?}"
        );
        assert_eq!(page.header("x-robots-tag"), "noindex");
        Ok(())
    }
}
