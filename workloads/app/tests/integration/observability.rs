//! Health, metrics, the OpenAPI document and the probes.

use std::collections::BTreeSet;

use serde_json::json;
use shortener_testing::database::TestDatabase;

use crate::{
    client::{get, request, shorten},
    management::{Keys, administer},
    support::App,
};

#[tokio::test]
async fn health_names_the_replica_and_its_role() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let response = get(app.public, "/health").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.json(), json!({"host": "replica-7", "role": "app"}));
}

#[tokio::test]
async fn every_request_is_counted_under_its_route_and_never_under_its_path() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let code = shorten(app.public, json!({"url": "https://example.com/"})).await;
    get(app.public, &format!("/{code}")).await;
    get(app.public, "/no-such-code").await;
    get(app.public, "/docs/b/c").await;
    get(app.public, "/a/b/c").await;
    request(app.public, "BREW", "/health", "").await;
    get(app.internal, "/readyz").await;
    let metrics = get(app.public, "/metrics").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = metrics.text();
    for (method, route, status) in [
        ("POST", "/shorten", 201),
        ("GET", "/{code}", 302),
        ("GET", "/{code}", 404),
        ("GET", "unmatched", 404),
        ("GET", "/{code}/{arguments}", 404),
        ("_OTHER", "/health", 405),
    ] {
        let labels = format!(
            "{{http_request_method=\"{method}\",http_route=\"{route}\",http_response_status_code=\"{status}\"}}"
        );
        for series in [
            format!("http_requests_total{labels} 1"),
            format!("http_server_request_duration_seconds_count{labels} 1"),
        ] {
            assert!(
                text.lines().any(|line| line == series),
                "{series} is missing in\n{text}"
            );
        }
    }
    assert!(
        !text.contains(&code) && !text.contains("readyz") && !text.contains("# EOF"),
        "{text}"
    );
    assert!(text.contains("\ndatabase_up 1\n"), "{text}");
    assert_eq!(get(app.internal, "/metrics").await.status, 200);
}

#[tokio::test]
async fn open_metrics_carry_the_trace_of_a_request_as_its_exemplar() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    request(
        app.public,
        "GET",
        "/health",
        &format!("traceparent: 00-{trace}-b7ad6b7169203331-00\r\n"),
    )
    .await;
    let metrics = request(
        app.public,
        "GET",
        "/metrics",
        "accept: application/openmetrics-text; version=1.0.0\r\n",
    )
    .await;
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(
        metrics
            .text()
            .contains(&format!("# {{trace_id=\"{trace}\",span_id=\"")),
        "{}",
        metrics.text()
    );
    assert!(metrics.text().ends_with("# EOF\n"));
}

#[tokio::test]
async fn metrics_can_be_kept_off_the_public_port() {
    let database = TestDatabase::new().await;
    let app = App::start_with(&database, |config| config.expose_metrics = false).await;
    get(app.public, "/metrics").await.problem(404, "not-found");
    assert_eq!(get(app.internal, "/metrics").await.status, 200);
}

#[tokio::test]
async fn a_caller_s_trace_reaches_the_problem() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let response = request(
        app.public,
        "GET",
        "/unknown",
        &format!("traceparent: 00-{trace}-b7ad6b7169203331-00\r\n"),
    )
    .await;
    assert_eq!(response.problem(404, "not-found")["trace_id"], trace);
}

#[tokio::test]
async fn every_route_takes_the_documented_methods_and_no_others() {
    let (database, keys) = (TestDatabase::new().await, Keys::new());
    let app = App::start_with(&database, |config| keys.configure(config)).await;
    let document = get(app.public, "/openapi.json").await.json();
    assert_eq!(document["servers"][0]["url"], "http://sho.rt:8080");
    for (template, item) in document["paths"].as_object().unwrap() {
        let path = template.replace("{code}", "k7Qm2xB").replace("{id}", "1");
        let methods = item.as_object().unwrap().keys();
        let mut documented: BTreeSet<String> = methods.map(|name| name.to_uppercase()).collect();
        if documented.contains("GET") {
            documented.insert("HEAD".to_owned());
        }
        let refused = administer(&app, "TRACE", &path, None).await;
        if template.ends_with("/{arguments}") {
            // Only a GET takes arguments, and every other request to such a path is one to an unknown path.
            refused.problem(404, "not-found");
            continue;
        }
        let allowed = refused.header("allow").unwrap_or_default();
        let allowed = allowed.split(',').map(ToOwned::to_owned);
        assert_eq!(allowed.collect::<BTreeSet<_>>(), documented, "{path}");
    }
}
