//! A console with a host of its own, and people whom a proxy has signed in, behind every gateway.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{Answer, GatewayClient, PROXY_SECRET, Provider, keyed_stack};

/// What a proxy sends of a person.
const PERSON: [(&str, &str); 2] = [
    ("X-Auth-Request-User", "ann@example.com"),
    ("X-Auth-Request-Groups", "guests,staff"),
];
const WRONG: &str = "e2e-secret-that-no-proxy-of-it-has";

async fn ask(
    gateway: &GatewayClient,
    method: &Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Answer> {
    let request = gateway.request(method.clone(), path);
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    gateway.send(request).await
}

async fn the_console_is_on_its_host_and_links_are_on_theirs(provider: Provider) -> Result<()> {
    let shared = keyed_stack(provider).await?;
    let check = async |_: &_| {
        let links = &shared.gateway;
        let console = links.on_host(&format!("console.{}", links.host()));
        for path in ["/", "/console"] {
            let opened = console.get(path).await?;
            ensure!(opened.status == 302, "{path}: {opened:?}");
            assert_eq!(opened.header("location"), "/console/");
        }
        for (path, media_type) in [
            ("/console/", "text/html"),
            ("/console/main.mjs", "text/javascript"),
            ("/console/vendor/preact.mjs", "text/javascript"),
            ("/console/console.css", "text/css"),
        ] {
            let file = console.get(path).await?;
            ensure!(file.status == 200, "{path}: {file:?}");
            let found = file.header("content-type");
            ensure!(found.starts_with(media_type), "{path}: {found}");
            let policy = file.header("content-security-policy");
            ensure!(policy.contains("script-src 'self';"), "{path}: {policy}");
            let elsewhere = links.get(path).await?;
            ensure!(elsewhere.status == 404, "{path}: {elsewhere:?}");
        }
        for path in [
            "/some-code",
            "/shorten",
            "/api/shorten",
            "/metrics",
            "/docs/1",
            "/consoles",
        ] {
            let absent = console.get(path).await?;
            ensure!(absent.status == 404, "{path}: {absent:?}");
        }
        Ok(())
    };
    shared.space.check(check).await
}

async fn only_what_has_the_secret_of_the_proxy_names_a_person(provider: Provider) -> Result<()> {
    let shared = keyed_stack(provider).await?;
    let check = async |_: &_| {
        let links = &shared.gateway;
        let console = links.on_host(&format!("console.{}", links.host()));
        let [user, groups] = PERSON;
        let secret = ("X-Auth-Proxy-Secret", PROXY_SECRET);
        let signed_in = [user, groups, secret];
        let overview = ask(&console, &Method::GET, "/api/admin/overview", &signed_in).await?;
        let client = json!({"name": "user/ann@example.com", "scopes": ["admin"]});
        ensure!(overview.status == 200, "{overview:?}");
        assert_eq!(overview.json()?["client"], client);

        let forged: [&[(&str, &str)]; 5] = [
            &[user, groups],
            &[user, groups, ("X-Auth-Proxy-Secret", WRONG)],
            &[user, groups, ("X_Auth_Proxy_Secret", PROXY_SECRET)],
            &[("X_Auth_Request_User", "ann"), groups, secret],
            &[user, groups, ("Authorization", PROXY_SECRET)],
        ];
        let manage = [
            "/api/admin/overview",
            "/api/admin/links",
            "/api/admin/audit",
            "/jobs/1",
        ];
        let of_links = [
            "/shorten",
            "/api/shorten",
            "/api/metrics",
            "/metrics",
            "/docs/1",
        ];
        let both = manage.map(|path| (&console, path)).into_iter();
        let both = both.chain(manage.iter().chain(&of_links).map(|path| (links, *path)));
        for (gateway, path) in both {
            for headers in forged {
                let refused = ask(gateway, &Method::GET, path, headers).await?;
                ensure!(refused.status == 401, "{path} {headers:?}: {refused:?}");
            }
        }
        Ok(())
    };
    shared.space.check(check).await
}

macro_rules! for_each_provider {
    ($($module:ident: $provider:ident),+) => {$(
        mod $module {
            use shortener_e2e::Provider;

            #[tokio::test]
            async fn the_console_is_on_its_host_and_links_are_on_theirs() -> anyhow::Result<()> {
                super::the_console_is_on_its_host_and_links_are_on_theirs(Provider::$provider).await
            }

            #[tokio::test]
            async fn only_what_has_the_secret_of_the_proxy_names_a_person() -> anyhow::Result<()> {
                super::only_what_has_the_secret_of_the_proxy_names_a_person(Provider::$provider).await
            }
        }
    )+};
}

for_each_provider!(ingress_nginx: IngressNginx, standalone: Standalone, gateway_api: GatewayApi);
