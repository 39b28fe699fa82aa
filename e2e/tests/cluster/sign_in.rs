//! A console behind ingress-nginx with `auth-url`: ingress-nginx asks a proxy for the visitor of each request, and replaces
//! the headers of the client by those of the answer.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use shortener_e2e::{
    Answer, GatewayClient, PROXY_SECRET, Provider, Space, Stack, await_condition, start_sign_in,
};

const COOKIE: (&str, &str) = ("Cookie", "session=any");
/// Headers of a client that claims to be another visitor.
const FORGED: [(&str, &str); 3] = [
    ("X-Auth-Request-User", "root@example.com"),
    ("X-Auth-Request-Groups", "admins"),
    ("X-Auth-Proxy-Secret", PROXY_SECRET),
];
/// Paths that some servers treat like the path of the overview.
const SPELLINGS: [&str; 8] = [
    "/api/admin/overview",
    "//api/admin/overview",
    "/api/admin/overview/",
    "/api//admin/overview",
    "/console/..%2fapi/admin/overview",
    "/console/../api/admin/overview",
    "/api/admin%2foverview",
    "/%61pi/admin/overview",
];

/// Serves a stack whose console is behind the fake proxy. The proxy accepts every request with a cookie, and its answer has
/// these headers.
async fn serve(space: &Space, visitor: &Value) -> Result<(Stack, GatewayClient)> {
    let ask = start_sign_in(space, visitor).await?;
    space
        .secret(
            "keys",
            &json!({"ops": "e2e-key-that-may-do-everything-here"}),
        )
        .await?;
    space
        .secret("auth-proxy", &json!({"secret": PROXY_SECRET}))
        .await?;
    let proxy = json!({
        "secretRef": {"name": "auth-proxy"},
        "trustedPeers": ["10.0.0.0/8", "fd00::/8"],
        "scopes": [
            {"group": "editors", "scopes": ["links:own"]},
            {"group": "admins", "scopes": ["admin"]},
        ],
    });
    let annotations = json!({
        "nginx.ingress.kubernetes.io/auth-url": ask,
        "nginx.ingress.kubernetes.io/auth-response-headers":
            "X-Auth-Request-User,X-Auth-Request-Groups,X-Auth-Proxy-Secret",
    });
    let host = format!("console.{}", space.host());
    let changes = json!({
        "gateway": {"auth": {"secretRef": {"name": "keys"}, "proxy": proxy}},
        "console": {"enabled": true, "host": host, "annotations": annotations},
    });
    let (stack, links) = space.serve(Provider::IngressNginx, changes).await?;
    let console = links.on_host(&host);
    await_condition("the console asks who sends a request", async || {
        let signed_in = ask_for(&console, Method::GET, "/console/", &[COOKIE]).await?;
        ensure!(signed_in.status == 200, "{signed_in:?}");
        let stranger = ask_for(&console, Method::GET, "/console/", &[]).await?;
        ensure!(stranger.status == 401, "{stranger:?}");
        Ok(())
    })
    .await?;
    Ok((stack, links))
}

async fn ask_for(
    gateway: &GatewayClient,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Answer> {
    let request = headers
        .iter()
        .fold(gateway.request(method, path), |request, (name, value)| {
            request.header(*name, *value)
        });
    gateway.send(request).await
}

#[tokio::test]
async fn the_controller_names_the_visitor_and_nobody_else_does() -> Result<()> {
    Space::with("sign-in", async |space| {
        let editor = json!({
            "X-Auth-Request-User": "ann@example.com",
            "X-Auth-Request-Groups": "editors",
            "X-Auth-Proxy-Secret": PROXY_SECRET,
        });
        let (_stack, links) = serve(space, &editor).await?;
        let console = links.on_host(&format!("console.{}", space.host()));
        let client = json!({"name": "user/ann@example.com", "scopes": ["links:own"]});
        let mut forger = vec![COOKIE];
        forger.extend(FORGED);
        for headers in [&[COOKIE][..], &forger] {
            let answer = ask_for(&console, Method::GET, "/api/admin/overview", headers).await?;
            ensure!(answer.status == 200, "{headers:?}: {answer:?}");
            assert_eq!(answer.json()?["client"], client, "{headers:?}");
        }
        // The forged headers give the editor no more rights, neither for a change nor on another spelling of the path.
        let erase = ask_for(&console, Method::POST, "/api/admin/erase", &forger).await?;
        ensure!([401, 403].contains(&erase.status), "{erase:?}");
        for path in SPELLINGS {
            let named = ask_for(&console, Method::GET, path, &forger).await?;
            ensure!(
                !named.body.contains("root@example.com"),
                "{path}: {named:?}"
            );
            let stranger = ask_for(&console, Method::GET, path, &FORGED).await?;
            ensure!(stranger.status != 200, "{path}: {stranger:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_the_controller_does_not_say_of_a_visitor_nobody_says() -> Result<()> {
    Space::with("sign-in-bare", async |space| {
        let (_stack, links) =
            serve(space, &json!({"X-Auth-Request-User": "ann@example.com"})).await?;
        let console = links.on_host(&format!("console.{}", space.host()));
        let mut forger = vec![COOKIE];
        forger.extend(FORGED);
        // The proxy answers with neither groups nor the secret, so ingress-nginx removes those of the client.
        let answer = ask_for(&console, Method::GET, "/api/admin/overview", &forger).await?;
        ensure!(answer.status == 401, "{answer:?}");
        Ok(())
    })
    .await
}
