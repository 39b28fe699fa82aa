//! Links with arguments: a template that the further path of a request fills.

use serde_json::json;
use shortener_testing::{broker::until, database::TestDatabase, proxy::Path};
use sqlx::{ConnectOptions, Connection as _};

use crate::{
    cache::{assert_redirects, cache_is_up, counts},
    cache_server::Redis,
    client::{get, post, request, shorten},
    management::{Keys, manage, managed},
    process::{addresses, migrated, serving, start},
    support::{App, proxy_before},
};

const TEMPLATE: &str = "https://jira.example/browse/{1}?from={2}";

/// Creates a link with arguments.
async fn template(app: &App, code: &str) {
    let body = json!({"url": TEMPLATE, "code": code, "template": true});
    shorten(app.public, body).await;
}

#[tokio::test]
async fn the_further_path_fills_the_template_and_any_other_one_leads_nowhere() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let body = json!({"url": TEMPLATE, "code": "jira", "template": true}).to_string();
    let created = post(app.public, "/shorten", body).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["template"], true);
    shorten(app.public, json!({"url": TEMPLATE, "code": "plain"})).await;
    for (path, location) in [
        ("/jira/A-1/me", "https://jira.example/browse/A-1?from=me"),
        (
            "/jira/A-1/%41%26b%3D/",
            "https://jira.example/browse/A-1?from=A%26b%3D",
        ),
        ("/jira/A-1", "https://jira.example/browse/A-1?from="),
        ("/jira/", "https://jira.example/browse/?from="),
        ("/jira", "https://jira.example/browse/?from="),
        ("/%6aira/A-1?x=y", "https://jira.example/browse/A-1?from="),
        ("/plain", "https://jira.example/browse/%7B1%7D?from=%7B2%7D"),
    ] {
        for method in ["GET", "HEAD"] {
            assert_redirects(&request(app.public, method, path, "").await, location);
        }
    }
    for path in [
        "/jira/a/b/c",
        "/jira//a",
        "/jira/%2e%2e",
        "/jira/%0d%0a",
        "/plain/",
        "/plain/a",
        "/nothing/a",
        "/api/links/jira",
        "/api/links/jira/a",
        "/docs/jira/a",
    ] {
        get(app.public, path).await.problem(404, "not-found");
    }
    let long = format!("/jira/{}", "%20".repeat(2720));
    get(app.public, &long).await.problem(414, "uri-too-long");
    request(app.public, "POST", "/jira/a", "")
        .await
        .problem(404, "not-found");
    let preview = get(app.public, "/jira+").await.json();
    assert_eq!(
        (&preview["url"], &preview["template"]),
        (&json!(TEMPLATE), &json!(true))
    );
}

#[tokio::test]
async fn a_template_has_a_key_of_its_own_in_the_cache_and_works_without_the_database() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (proxy, through) = proxy_before(&database).await;
    let app = App::start_with(&through, |config| cache.configure(config)).await;
    cache_is_up(&app).await;
    get(app.public, "/jira/a").await.problem(404, "not-found");
    template(&app, "jira").await;
    let key = "{link:jira}:template";
    let location = "https://jira.example/browse/a?from=";
    assert_redirects(&get(app.public, "/jira/a").await, location);
    assert_eq!(counts(&app).await, (1, 1), "the link was written through");
    cache.ask::<()>(&["FLUSHALL"]).await;
    assert_redirects(&get(app.public, "/jira/a").await, location);
    until("the copy", async || {
        let copy = cache.ask::<Option<String>>(&["GET", key]).await;
        (copy.as_deref() == Some(TEMPLATE))
            .then_some(())
            .ok_or(format!("{copy:?}"))
    })
    .await;
    assert_eq!(cache.link("jira").await, None);
    proxy.set(Path::Refused);
    assert_redirects(&get(app.public, "/jira/a").await, location);
    assert_redirects(
        &get(app.public, "/jira").await,
        "https://jira.example/browse/?from=",
    );
    cache.ask::<()>(&["SET", key, "https://{1}.example/"]).await;
    get(app.public, "/jira/a")
        .await
        .problem(503, "database-unavailable");
}

#[tokio::test]
async fn a_takedown_ends_a_template_with_all_its_arguments() {
    let database = TestDatabase::new().await;
    let (cache, keys) = (Redis::start().await, Keys::new());
    let app = App::start_with(&database, |config| {
        keys.configure(config);
        cache.configure(config);
    })
    .await;
    cache_is_up(&app).await;
    template(&app, "jira").await;
    let location = "https://jira.example/browse/a?from=";
    assert_redirects(&get(app.public, "/jira/a").await, location);
    let reason = Some(json!({"reason": "moved"}));
    let disabled = manage(&app, "POST", "/jira/disable", reason).await;
    assert_eq!(
        (disabled.status, &disabled.json()["template"]),
        (200, &json!(true))
    );
    for path in ["/jira", "/jira/a", "/jira/a/b/c"] {
        get(app.public, path).await.problem(410, "link-disabled");
    }
    assert_eq!(manage(&app, "POST", "/jira/enable", None).await.status, 200);
    assert_redirects(&get(app.public, "/jira/a").await, location);
}

#[tokio::test]
async fn faults_of_a_template_name_the_field_and_the_remedy() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    for (url, flag, field, rule) in [
        (
            "https://example.com/",
            json!(true),
            "url",
            "must have a placeholder",
        ),
        (
            "https://{1}.example/",
            json!(true),
            "url",
            "behind the host",
        ),
        (
            "https://example.com/{user}",
            json!(true),
            "url",
            "{1} to {9}, and {path}",
        ),
        (
            "https://example.com/{1}",
            json!("yes"),
            "template",
            "must be true or false",
        ),
    ] {
        let body = json!({"url": url, "template": flag}).to_string();
        let refused = post(app.public, "/shorten", body).await;
        let fault = refused.problem(400, "invalid-fields")["errors"][0].clone();
        assert_eq!(fault["field"], field, "{fault}");
        assert!(fault["reason"].as_str().unwrap().contains(rule), "{fault}");
    }
}

#[tokio::test]
async fn a_template_and_a_plain_link_with_the_same_text_are_never_one() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let mut codes = Vec::new();
    for template in [true, false, true, false] {
        let body = json!({"url": TEMPLATE, "template": template, "reuse": true}).to_string();
        let answer = post(app.public, "/shorten", body).await.json();
        let code = answer["code"].as_str().unwrap().to_owned();
        assert_eq!(answer["template"] == true, template);
        let details = manage(&app, "GET", &format!("/{code}"), None).await.json();
        assert_eq!(details["template"], template);
        codes.push(code);
    }
    assert_eq!(codes[..2], codes[2..]);
    assert_ne!(codes[0], codes[1]);
}

#[tokio::test]
async fn arguments_are_counted_and_neither_stored_nor_logged() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut process = start(&["serve"], &serving(&url));
    let (public, _) = addresses(&mut process).await;
    let body = json!({"url": TEMPLATE, "code": "jira", "template": true});
    shorten(public, body).await;
    let browser =
        "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n";
    for path in ["/jira/secret-1", "/jira/secret-2/secret-3", "/jira"] {
        assert_eq!(request(public, "GET", path, browser).await.status, 302);
    }
    process.terminate().await;
    let lines = process.rest().await;
    assert!(
        !lines.iter().any(|line| line.to_string().contains("secret")),
        "{lines:?}"
    );
    let route = |line: &&serde_json::Value| line["http.route"] == "/{code}/{arguments}";
    let followed: Vec<_> = lines.iter().filter(route).collect();
    assert_eq!(followed.len(), 2);
    assert!(
        followed.iter().all(|line| line["url.path"] == "/jira"),
        "{followed:?}"
    );
    let mut connection = database.connect().await.unwrap();
    let clicks = "SELECT sum(people)::bigint FROM clicks WHERE code = 'jira'";
    let clicks: i64 = sqlx::query_scalar(clicks)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    assert_eq!(clicks, 3);
}
