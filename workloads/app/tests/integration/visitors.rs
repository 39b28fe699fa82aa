//! What people in a browser and scripts of other origins get: pages, previews, targets, and the permission to read.

use http::HeaderValue;
use serde_json::json;
use shortener_testing::database::TestDatabase;

use crate::{
    client::{get, post, post_bytes, request, send, shorten},
    pages::{BROWSER, browse, come_too_often, expire_one, page_of, start_without_database},
    support::App,
};

const HOME: &str = "https://www.example.com/";

#[tokio::test]
async fn a_browser_gets_a_page_where_a_program_gets_a_problem() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    expire_one(&database, &app).await;
    for (path, status, kind) in [
        ("/none", 404, "not-found"),
        ("/none+", 404, "not-found"),
        ("/", 404, "not-found"),
        ("/a/b", 404, "not-found"),
        ("/%3Cscript%3E", 404, "not-found"),
        ("/ended", 410, "link-expired"),
        ("/ended+", 410, "link-expired"),
    ] {
        let page = page_of(&browse(&app, path).await, status);
        assert!(!page.contains("script"), "{path}: {page}");
        let problem = get(app.public, path).await;
        problem.problem(status, kind);
        assert_eq!(problem.header("vary"), Some("accept"), "{path}");
        let head = request(app.public, "HEAD", path, BROWSER).await;
        let length = page.len().to_string();
        assert_eq!(head.header("content-length"), Some(length.as_str()));
    }
    let several = "accept: */*\r\naccept: text/html\r\n";
    let first = request(app.public, "GET", "/none", several).await;
    first.problem(404, "not-found");
    // These are for programs, and so are errors that no page is written for.
    let refused = send(app.public, post_bytes("/shorten", BROWSER, b"{}")).await;
    refused.problem(400, "invalid-fields");
    assert_eq!(refused.header("vary"), None);
    browse(&app, "/jobs/0190163d-8694-739b-aea5-966c26f8ad91")
        .await
        .problem(501, "profile-disabled");
    let wrong = request(app.public, "DELETE", "/none", BROWSER).await;
    wrong.problem(405, "method-not-allowed");
}

#[tokio::test]
async fn a_browser_that_comes_too_often_gets_a_page_that_says_when_to_come_again() {
    let database = TestDatabase::new().await;
    let refused = come_too_often(&database).await;
    page_of(&refused, 429);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("ratelimit"), Some("\"requests\";r=0;t=1"));
}

#[tokio::test]
async fn a_browser_gets_a_page_while_the_database_is_down() {
    let database = TestDatabase::new().await;
    let app = start_without_database(&database).await;
    for path in ["/some", "/some+"] {
        let page = page_of(&browse(&app, path).await, 503);
        assert!(!page.to_lowercase().contains("database"), "{page}");
        get(app.public, path)
            .await
            .problem(503, "database-unavailable");
    }
}

#[tokio::test]
async fn a_preview_shows_the_link_and_does_not_follow_it() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let url = "https://bücher.example/straße?a=1&b=\"><script>alert(1)</script>";
    let uri = shortener_app::location::ascii(url).into_owned();
    shorten(
        app.public,
        json!({"url": url, "code": "book", "ttl_seconds": 3600}),
    )
    .await;
    let preview = get(app.public, "/book+").await;
    assert_eq!(preview.status, 200, "{preview:?}");
    assert_eq!(preview.header("location"), None);
    assert_eq!(preview.header("cache-control"), Some("no-store"));
    assert_eq!(preview.header("x-robots-tag"), Some("noindex"));
    assert_eq!(preview.header("vary"), Some("accept"));
    let shown = preview.json();
    assert_eq!(shown["code"], "book");
    assert_eq!(shown["url"], uri);
    assert!(shown["expires_at"].as_str().unwrap().ends_with('Z'));

    let response = browse(&app, "/book+").await;
    assert_eq!(response.header("x-robots-tag"), Some("noindex"));
    let page = page_of(&response, 200);
    assert!(page.contains("<dd>xn--bcher-kva.example</dd>"), "{page}");
    assert!(!page.contains("<script"), "{page}");
    assert_eq!(page.matches("href=\"https://").count(), 1, "{page}");

    shorten(app.public, json!({"url": HOME, "code": "lasting"})).await;
    let lasting = get(app.public, "/lasting+?utm=x").await.json();
    assert!(lasting["expires_at"].is_null(), "{lasting}");
    for path in ["/+", "/book++", "/book%2B", "/bo+ok", "/health+"] {
        get(app.public, path).await.problem(404, "not-found");
    }
    let wrong = request(app.public, "POST", "/book+", "").await;
    wrong.problem(405, "method-not-allowed");
}

#[tokio::test]
async fn visitors_without_a_link_are_sent_to_the_targets() {
    let database = TestDatabase::new().await;
    let target = |path: &str| Some(HeaderValue::try_from(format!("{HOME}{path}")).unwrap());
    let app = App::start_with(&database, |config| {
        config.links.links_root_target = target("");
        config.links.links_unknown_target = target("unknown");
        config.links.links_expired_target = target("expired");
    })
    .await;
    expire_one(&database, &app).await;
    for (path, expected) in [
        ("/", HOME.to_owned()),
        ("/?x=1", HOME.to_owned()),
        ("/none", format!("{HOME}unknown")),
        ("/ended", format!("{HOME}expired")),
    ] {
        for method in ["GET", "HEAD"] {
            let response = request(app.public, method, path, BROWSER).await;
            assert_eq!(response.status, 302, "{path}");
            assert_eq!(response.header("location"), Some(expected.as_str()));
            assert_eq!(response.header("cache-control"), Some("no-store"));
        }
    }
    // What cannot be a code, and previews, stay errors.
    for path in ["/a/b", "/favicon.ico", "/robots.txt", "/%C3%A4", "/none+"] {
        get(app.public, path).await.problem(404, "not-found");
    }
    get(app.public, "/ended+")
        .await
        .problem(410, "link-expired");
}

#[tokio::test]
async fn a_query_is_forwarded_only_where_the_settings_say_so() {
    let database = TestDatabase::new().await;
    let forwarding = App::start_with(&database, |config| {
        config.links.links_forward_query = true;
    })
    .await;
    let plain = App::start(&database).await;
    let url = "https://example.com/a?b=c#d";
    shorten(plain.public, json!({"url": url, "code": "to"})).await;
    for (query, expected) in [
        ("", url),
        ("?", url),
        ("?utm=x&y", "https://example.com/a?b=c&utm=x&y#d"),
        (
            "?u=//evil.example",
            "https://example.com/a?b=c&u=//evil.example#d",
        ),
        ("?q=\u{fc}", "https://example.com/a?b=c&q=%C3%BC#d"),
    ] {
        let path = format!("/to{query}");
        let followed = get(forwarding.public, &path).await;
        assert_eq!(followed.header("location"), Some(expected), "{query}");
        let followed = get(plain.public, &path).await;
        assert_eq!(followed.header("location"), Some(url), "{query}");
    }
    let long = format!("/to?{}", "x".repeat(8 * 1024 - 20));
    get(forwarding.public, &long)
        .await
        .problem(414, "uri-too-long");
    assert_eq!(get(plain.public, &long).await.status, 302);
}

#[tokio::test]
async fn scripts_of_allowed_origins_read_answers_and_errors_without_a_key_for_the_preflight() {
    let database = TestDatabase::new().await;
    let folder = tempfile::tempdir().unwrap();
    let key = "1f0e4c8b2a6d49f7a3c5e1b09d7f6a52";
    std::fs::write(folder.path().join("shop"), key).unwrap();
    let app = App::start_with(&database, |config| {
        config.auth.auth_keys_directory = vec![folder.path().to_owned()];
        config.cors_allow_origins = vec!["https://app.example.com".parse().unwrap()];
    })
    .await;
    let asked = "origin: https://app.example.com\r\naccess-control-request-method: POST\r\n\
        access-control-request-headers: authorization,content-type\r\n";
    let preflight = request(app.public, "OPTIONS", "/shorten", asked).await;
    assert_eq!(preflight.status, 204, "{preflight:?}");
    let origin = "https://app.example.com";
    let allowed = "access-control-allow-origin";
    assert_eq!(preflight.header(allowed), Some(origin));
    assert_eq!(preflight.header("access-control-allow-credentials"), None);
    let fields = preflight.header("access-control-allow-headers").unwrap();
    assert!(fields.contains("authorization") && fields.contains("content-type"));

    let link = br#"{"url":"https://example.com/"}"#;
    for (key, status) in [(key, 201), ("", 401)] {
        let headers = format!("origin: {origin}\r\nx-api-key: {key}\r\n");
        let response = send(app.public, post_bytes("/shorten", &headers, link)).await;
        assert_eq!(response.status, status);
        assert_eq!(response.header(allowed), Some(origin), "{response:?}");
        assert_eq!(response.header("vary"), Some("origin"));
        let exposed = response.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("retry-after") && exposed.contains("ratelimit"));
    }
    let headers = format!("origin: https://evil.example\r\nx-api-key: {key}\r\n");
    let other = send(app.public, post_bytes("/shorten", &headers, link)).await;
    assert_eq!((other.status, other.header(allowed)), (201, None));
    let asked = asked.replace("app.example.com", "evil.example");
    let refused = request(app.public, "OPTIONS", "/shorten", &asked).await;
    refused.problem(401, "unauthorized");
    assert_eq!(refused.header(allowed), None);
    // No script gets at redirects or metrics.
    for path in ["/none", "/metrics", "/health"] {
        let response = request(app.public, "GET", path, &format!("origin: {origin}\r\n")).await;
        assert_eq!(response.header(allowed), None, "{path}");
    }
}

#[tokio::test]
async fn answers_tell_what_is_left_of_the_limit_and_redirects_do_not() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| {
        config.limit_shorten_per_minute = 1;
        config.limit_shorten_burst = 3;
        config.limit_requests_per_second = 1;
        config.limit_requests_burst = 100;
    })
    .await;
    let body = r#"{"url":"https://example.com/","code":"to"}"#;
    for left in [2, 1, 0, 0] {
        let response = post(app.public, "/shorten", body).await;
        let policy = response.header("ratelimit-policy");
        assert_eq!(policy, Some("\"shorten\";q=3;w=180"), "{response:?}");
        let told = response.header("ratelimit").unwrap();
        assert!(
            told.starts_with(&format!("\"shorten\";r={left};t=")),
            "{told}"
        );
    }
    for path in ["/health", "/none", "/to+", "/openapi.json"] {
        let response = get(app.public, path).await;
        let policy = response.header("ratelimit-policy");
        assert_eq!(policy, Some("\"requests\";q=100;w=100"), "{path}");
        assert!(response.header("ratelimit").is_some(), "{path}");
    }
    for path in ["/to", "/metrics"] {
        let response = get(app.public, path).await;
        assert_eq!(response.header("ratelimit-policy"), None, "{path}");
        assert_eq!(response.header("ratelimit"), None, "{path}");
    }
    let without = App::start(&database).await;
    let health = get(without.public, "/health").await;
    assert_eq!(health.header("ratelimit-policy"), None, "there is no limit");
}
