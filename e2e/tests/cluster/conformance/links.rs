//! Links with arguments and clicks, which need the whole path and the user agent of a request behind every gateway.

use super::conformance;

conformance!(
    shortener_e2e::keyed_stack,
    checks: a_link_with_arguments_fills_its_template,
    clicks_count_people_and_programs_apart,
);

mod checks {
    use anyhow::{Context, Result, ensure};
    use reqwest::Method;
    use serde_json::{Value, json};
    use shortener_e2e::{Answer, GatewayClient, KEYS, await_condition};

    /// The user agent of a browser.
    const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

    async fn create(gateway: &GatewayClient, link: &Value) -> Result<String> {
        let request = gateway.request(Method::POST, "/api/shorten");
        let created = gateway
            .send(request.bearer_auth(KEYS[0]).json(link))
            .await?;
        ensure!(created.status == 201, "{created:?}");
        let created = created.json()?;
        let code = created["code"].as_str().context("the answer has no code")?;
        Ok(code.to_owned())
    }

    pub(super) async fn a_link_with_arguments_fills_its_template(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let url = "https://jira.example.com/browse/{1}";
        let code = create(gateway, &json!({"url": url, "template": true})).await?;
        for (path, expected) in [
            (
                format!("/{code}/SHOP-7"),
                "https://jira.example.com/browse/SHOP-7",
            ),
            (
                format!("/{code}/a%20%26%C3%A9"),
                "https://jira.example.com/browse/a%20%26%C3%A9",
            ),
            (format!("/{code}"), "https://jira.example.com/browse/"),
        ] {
            let answer = gateway.get(&path).await?;
            ensure!(answer.status == 302, "{path}: {answer:?}");
            assert_eq!(answer.header("location"), expected, "{path}");
        }
        let plain = create(gateway, &json!({"url": "https://example.com/plain"})).await?;
        for path in [
            format!("/{code}/one/two"),
            format!("/api/links/{code}/SHOP-7"),
            format!("/{plain}/further"),
        ] {
            let answer = gateway.get(&path).await?;
            ensure!(answer.status == 404, "{path}: {answer:?}");
        }
        Ok(())
    }

    async fn follow(
        gateway: &GatewayClient,
        method: Method,
        path: &str,
        agent: &str,
    ) -> Result<Answer> {
        let request = gateway.request(method, path).header("user-agent", agent);
        let answer = gateway.send(request).await?;
        ensure!(answer.status == 302, "{path}: {answer:?}");
        Ok(answer)
    }

    pub(super) async fn clicks_count_people_and_programs_apart(
        gateway: &GatewayClient,
    ) -> Result<()> {
        let code = create(gateway, &json!({"url": "https://example.com/clicked"})).await?;
        let public = format!("/api/links/{code}");
        for path in [&public, &format!("/{code}")] {
            follow(gateway, Method::GET, path, BROWSER).await?;
            follow(gateway, Method::HEAD, path, BROWSER).await?;
        }
        follow(gateway, Method::GET, &public, "curl/8.14.1").await?;
        let clicks = format!("/api/admin/links/{code}/clicks");
        await_condition("the clicks are counted", async || {
            let request = gateway.request(Method::GET, &clicks);
            let counted = gateway.send(request.bearer_auth(KEYS[0])).await?.json()?;
            ensure!(
                [&counted["people"], &counted["bots"]] == [&json!(2), &json!(1)],
                "expected 2 people and 1 program, got {counted}"
            );
            Ok(())
        })
        .await
    }
}
