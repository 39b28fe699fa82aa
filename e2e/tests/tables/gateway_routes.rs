//! Table 4.1: the routes of the gateway.

use reqwest::Method;
use serde_json::json;
use shortener_e2e::GatewayClient;

use crate::{TARGET, code_of, report::Report};

pub(crate) async fn rows(report: &mut Report, gateway: &GatewayClient) {
    let table = "4.1";
    report.row(
        table,
        "GET /gateway-health is answered by the gateway: text `gateway ok`",
    );
    let answer = report
        .ask(gateway, Method::GET, "/gateway-health", None)
        .await;
    report.expect_status(&answer, 200);
    report.expect(
        "the text `gateway ok`",
        answer.body.trim_end() == "gateway ok",
    );

    report.row(table, "GET /api/health: JSON object with host, role");
    let answer = report.ask(gateway, Method::GET, "/api/health", None).await;
    report.expect_status(&answer, 200);
    report.expect_body(&answer, "an object with a host and the role app", |body| {
        body["host"].as_str().is_some_and(|host| !host.is_empty()) && body["role"] == "app"
    });

    report.row(table, "GET /api/metrics: plain-text metrics");
    let answer = report.ask(gateway, Method::GET, "/api/metrics", None).await;
    report.expect_status(&answer, 200);
    report.expect_metrics(&answer);

    report.row(table, "POST /api/shorten: JSON body; creates a code");
    let link = json!({"url": TARGET});
    let answer = report
        .ask(gateway, Method::POST, "/api/shorten", Some(&link))
        .await;
    report.expect_status(&answer, 201);
    report.expect_body(&answer, "a code and its short URL", |body| {
        let (code, url) = (body["code"].as_str(), body["short_url"].as_str());
        code.zip(url)
            .is_some_and(|(code, url)| is_code(code) && url.ends_with(&format!("/{code}")))
    });
    let code = code_of(&answer);

    report.row(table, "POST /api/jobs: 202, JSON object with status");
    let job = json!({"task": "email", "id": 1});
    let answer = report
        .ask(gateway, Method::POST, "/api/jobs", Some(&job))
        .await;
    report.expect_status(&answer, 202);
    report.expect_body(&answer, "the status enqueued", |body| {
        body["status"] == "enqueued"
    });

    report.row(table, "GET /api/links/<code>: 302 with Location");
    let path = format!("/api/links/{code}");
    let answer = report.ask(gateway, Method::GET, &path, None).await;
    report.expect_redirect(&answer);

    report.row(table, "the explicit paths match exactly");
    let answer = report
        .ask(gateway, Method::GET, "/api/health/x", None)
        .await;
    report.expect_status(&answer, 404);
}

fn is_code(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    !text.is_empty() && text.chars().all(allowed)
}
