//! The console, and what it asks first.

use serde_json::json;
use shortener_app::{config::ServeArgs, route::ROUTES};
use shortener_testing::database::TestDatabase;

use crate::{
    client::{self, Response, exchange, request},
    keys::secret,
    support::App,
};

const MEMBER: &str = "0123456789abcdef0123456789member";
const VISITOR: &str = "0123456789abcdef0123456789visitor";

/// Sends a request that the OpenAPI document does not describe: the console is no part of the API.
async fn ask(app: &App, method: &str, path: &str, fields: &str) -> Response {
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: sho.rt\r\nconnection: close\r\n{fields}\r\n");
    exchange(app.public, request.as_bytes()).await
}

#[tokio::test]
async fn a_service_without_the_console_has_nothing_there() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for path in ["/console", "/console/", "/console/main.mjs"] {
        ask(&app, "GET", path, "").await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn a_browser_gets_the_page_and_its_files_and_keeps_those_that_are_current() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config: &mut ServeArgs| {
        config.console.console_enabled = true;
    });
    let app = app.await;
    let opened = ask(&app, "GET", "/console", "").await;
    assert_eq!(
        (opened.status, opened.header("location")),
        (302, Some("/console/"))
    );
    for (path, media_type) in [
        ("/console/", "text/html; charset=utf-8"),
        ("/console/main.mjs", "text/javascript; charset=utf-8"),
        (
            "/console/vendor/preact.mjs",
            "text/javascript; charset=utf-8",
        ),
        ("/console/console.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
    ] {
        let file = ask(&app, "GET", path, "").await;
        assert_eq!(file.status, 200, "{path}");
        for (name, value) in [
            ("content-type", media_type),
            ("cache-control", "no-cache"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(file.header(name), Some(value), "{path}: {name}");
        }
        let policy = file.header("content-security-policy").unwrap();
        assert!(
            policy.contains("script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(file.header("set-cookie"), None);
        let known = format!("if-none-match: {}\r\n", file.header("etag").unwrap());
        let again = ask(&app, "GET", path, &known).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    for path in [
        "/console/SHA256SUMS",
        "/console/vendor/",
        "/console/vendor/main.mjs",
        "/console/a/b/c",
        "/console/..%2fCargo.toml",
    ] {
        ask(&app, "GET", path, "").await.problem(404, "not-found");
    }
    let posted = ask(&app, "POST", "/console/", "content-length: 0\r\n").await;
    posted.problem(405, "method-not-allowed");
}

#[tokio::test]
async fn the_overview_says_who_asks_and_what_the_service_has() {
    let database = TestDatabase::new().await;
    let keys = secret(&[
        ("jane", MEMBER),
        ("jane.scopes", "links:own jobs"),
        ("shop", VISITOR),
        ("shop.scopes", "shorten jobs docs metrics"),
    ]);
    let configure = |config: &mut ServeArgs| {
        config.auth.auth_keys_directory = vec![keys.path().to_owned()];
        config.destinations.gateway_hosts = vec!["b.test".to_owned()];
    };
    let app = App::start_with(&database, configure).await;
    let overview = |key: &'static str| {
        let (public, fields) = (app.public, format!("authorization: Bearer {key}\r\n"));
        async move { request(public, "GET", "/api/admin/overview", &fields).await }
    };
    let answer = overview(MEMBER).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let shown = answer.json();
    assert_eq!(
        shown["client"],
        json!({"name": "jane", "scopes": ["jobs", "links:own"]})
    );
    assert_eq!(shown["hosts"], json!(["sho.rt", "b.test"]));
    let stores = json!({"database": {"up": true, "reason": null}, "cache": null, "queue": null, "vector": null});
    assert_eq!(shown["stores"], stores);
    assert_eq!(
        (&shown["traces"], &shown["clicks"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    overview(VISITOR).await.problem(403, "forbidden");
    client::get(app.public, "/api/admin/overview")
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn no_page_of_another_origin_changes_anything() {
    let database = TestDatabase::new().await;
    let keys = secret(&[("boss", MEMBER), ("boss.scopes", "admin")]);
    let configure = |config: &mut ServeArgs| {
        config.auth.auth_keys_directory = vec![keys.path().to_owned()];
    };
    let app = App::start_with(&database, configure).await;
    let key = format!("authorization: Bearer {MEMBER}\r\ncontent-length: 0\r\n");
    let of_others = [
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "origin: https://evil.example\r\n",
        "origin: null\r\n",
    ];
    let own = [
        "",
        "sec-fetch-site: same-origin\r\n",
        "origin: http://sho.rt\r\n",
    ];
    let management = ROUTES
        .iter()
        .filter(|row| row.template.starts_with("/api/admin"));
    for row in management {
        let path = row.template.replace("{code}", "abc").replace("{id}", "abc");
        for method in ["POST", "PATCH", "DELETE", "PUT"] {
            for origin in of_others {
                let refused = ask(&app, method, &path, &format!("{key}{origin}")).await;
                assert_eq!(refused.status, 403, "{method} {path} {origin}");
                assert_eq!(refused.json()["type"], "/problems/cross-origin");
            }
            for origin in own {
                let judged = ask(&app, method, &path, &format!("{key}{origin}")).await;
                assert_ne!(judged.status, 403, "{method} {path} {origin}");
            }
        }
        let read = ask(&app, "GET", &path, &format!("{key}{}", of_others[0])).await;
        assert_ne!(read.status, 403, "{path}");
        assert_eq!(read.header("access-control-allow-origin"), None);
    }
}
