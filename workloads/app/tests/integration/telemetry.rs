//! Traces, log records and exemplars that refer to each other.

use std::time::Duration;

use serde_json::{Value, json};
use shortener_testing::{database::TestDatabase, otlp::Sink, proxy::Path};
use sqlx::postgres::PgConnectOptions;

use crate::{
    cache::cache_is_up,
    cache_server::{Redis, until},
    client::{Response, get, post_bytes, request, send, shorten},
    process::{addresses, migrated, serving, start},
    support::{App, Blocker, proxy_before},
};

/// The trace identifiers of a caller that does not sample.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Returns another trace identifier of the same caller, and its header.
pub fn trace(number: u32) -> (String, String) {
    let trace = format!("{TRACE:.24}{number:08x}");
    let header = format!("traceparent: 00-{trace}-{CALLER}-00\r\n");
    (trace, header)
}

pub async fn exporting(
    database: &PgConnectOptions,
    endpoint: String,
    change: impl FnOnce(&mut shortener_app::config::ServeArgs),
) -> App {
    App::start_with(database, |config| {
        config.telemetry.otel_exporter_otlp_endpoint = Some(endpoint);
        change(config);
    })
    .await
}

pub fn assert_attributes(span: &Value, expected: &[(&str, Value)]) {
    for (name, value) in expected {
        assert_eq!(span["attributes"][name], *value, "{name} in {span}");
    }
}

/// Checks the span of a call to a server, as a child of the request.
pub fn assert_call(call: &Value, request: &Value, system: &str, port: u16) {
    assert_eq!(call["kind"], "CLIENT", "{call}");
    assert_eq!(call["parent_span_id"], request["span_id"], "{call}");
    assert_eq!(call["status"], "UNSET", "{call}");
    let name = call["name"].as_str().unwrap();
    let operation = name.split(' ').next().unwrap();
    let expected = [
        ("db.system.name", json!(system)),
        ("db.operation.name", json!(operation)),
        ("server.port", json!(port)),
    ];
    assert_attributes(call, &expected);
}

/// Compares the server span of a redirect.
fn assert_redirect(span: &Value, code: &str) {
    assert_eq!(span["kind"], "SERVER");
    assert_eq!(
        span["parent_span_id"], CALLER,
        "the sampled flag of the caller is ignored"
    );
    assert_eq!(
        (&span["service"], &span["status"]),
        (&json!("app"), &json!("UNSET"))
    );
    assert_eq!(span["resource"]["service.instance.id"], "replica-7");
    let expected = [
        ("http.request.method", json!("GET")),
        ("http.request.method_original", Value::Null),
        ("http.route", json!("/{code}")),
        ("http.response.status_code", json!(302)),
        ("url.path", json!(format!("/{code}"))),
        ("url.scheme", json!("http")),
        ("client.address", json!("203.0.113.9")),
    ];
    assert_attributes(span, &expected);
    assert!(span["duration"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn a_request_is_one_trace_with_every_call_that_was_made_for_it() {
    let database = TestDatabase::new().await;
    let (redis, (sink, endpoint)) = (Redis::start().await, Sink::start().await);
    let port = database.get_port();
    let app = exporting(&database, endpoint, |config| {
        redis.configure(config);
        config.limit_requests_per_second = 1000;
        // So few that every request asks the cache.
        config.limit_requests_burst = 4;
    })
    .await;
    cache_is_up(&app).await;

    let (created, header) = trace(1);
    let body = br#"{"url":"https://example.com/"}"#;
    let response = send(app.public, post_bytes("/shorten", &header, body)).await;
    let code = response.json()["code"].as_str().unwrap().to_owned();
    let span = sink.span(&created, "POST /shorten").await;
    let insert = sink.span(&created, "INSERT links").await;
    assert_call(&insert, &span, "postgresql", port);
    let written = sink.span(&created, "EVALSHA").await;
    assert_call(&written, &span, "redis", redis.port);

    redis.ask::<()>(&["DEL", &format!("link:{code}")]).await;
    let (missed, header) = trace(2);
    let header = format!("{header}x-forwarded-for: 203.0.113.9\r\n");
    let path = format!("/{code}?token=hidden");
    assert_eq!(request(app.public, "GET", &path, &header).await.status, 302);
    let span = sink.span(&missed, "GET /{code}").await;
    assert_redirect(&span, &code);
    for name in ["EVALSHA", "MGET"] {
        assert_call(&sink.span(&missed, name).await, &span, "redis", redis.port);
    }
    let query = sink.span(&missed, "SELECT links").await;
    assert_call(&query, &span, "postgresql", port);
    assert_attributes(&query, &[("db.collection.name", json!("links"))]);
    // The rate limit and the write to the cache are scripts, and the latter ends after the request.
    until(5, || async { sink.spans(&missed).len() }).await;

    let (hit, header) = trace(3);
    request(app.public, "GET", &path, &header).await;
    let span = sink.span(&hit, "GET /{code}").await;
    assert_call(&sink.span(&hit, "MGET").await, &span, "redis", redis.port);
    assert_eq!(sink.spans(&hit).len(), 3, "the database is not read");
}

#[tokio::test]
async fn an_exemplar_leads_to_the_span_of_its_request() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let app = exporting(&database, endpoint, |_| {}).await;
    let (trace, header) = trace(1);
    request(app.public, "GET", "/health", &header).await;
    let accept = "accept: application/openmetrics-text; version=1.0.0\r\n";
    let metrics = request(app.internal, "GET", "/metrics", accept)
        .await
        .text();
    let exemplar = metrics
        .split(&format!("# {{trace_id=\"{trace}\",span_id=\""))
        .nth(1);
    let span_id = exemplar.unwrap_or_else(|| panic!("{metrics}")).get(..16);
    let span = sink.span(&trace, "GET /health").await;
    assert_eq!(span["span_id"].as_str(), span_id);
    assert!(
        metrics.contains("\notel_dropped_total{signal=\"traces\"} 0\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_log_record_leads_to_the_span_of_its_request() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let url = migrated(&database).await;
    let mut environment = serving(&url);
    environment.extend([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "k8s.pod.name=demo-app-1,shortener.stack=demo",
        ),
        // The crates that send records must not create more of them.
        (
            "RUST_LOG",
            "info,h2=trace,hyper_util=trace,tonic=trace,tower=trace",
        ),
    ]);
    let mut process = start(&[], &environment);
    let (public, _) = addresses(&mut process).await;
    let (trace, header) = trace(1);
    request(public, "GET", "/unknown", &header).await;
    let line = process.event("request").await;
    let (span, record) = (
        sink.span(&trace, "GET /{code}").await,
        sink.log(&trace, "request").await,
    );
    for (about, id) in [("line", &line["span_id"]), ("record", &record["span_id"])] {
        assert_eq!(*id, span["span_id"], "{about}");
    }
    assert_eq!(
        (&record["severity"], &record["service"]),
        (&json!("INFO"), &json!("app"))
    );
    assert_eq!(record["resource"], span["resource"]);
    let resource = &record["resource"];
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(resource["service.instance.id"], "replica-9");
    assert_eq!(resource["k8s.pod.name"], "demo-app-1");
    assert_eq!(resource["shortener.stack"], "demo");
    for (name, value) in [
        ("event", json!("request")),
        ("host", json!("replica-9")),
        ("trace_id", json!(trace)),
        ("http.route", json!("/{code}")),
        ("http.response.status_code", json!(404)),
        ("error.type", json!("not-found")),
    ] {
        assert_eq!(record["attributes"][name], value, "{name} in {record}");
        assert_eq!(line[name], value, "{name} in {line}");
    }
    process.terminate().await;
    process.event("stopped").await;
    // The last line was sent at the last moment, and so was everything before it.
    sink.wait_for("the last line", |sink| {
        sink.everything().contains("\"stopped\"").then_some(())
    })
    .await;
    let everything = sink.everything();
    assert!(
        !everything.contains("h2::") && !everything.contains("Connection"),
        "{everything}"
    );
}

#[tokio::test]
async fn only_a_fault_of_the_service_is_an_error() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let (proxy, through) = proxy_before(&database).await;
    let app = exporting(&through, endpoint, |_| {}).await;
    let (unknown, header) = trace(1);
    request(app.public, "GET", "/unknown", &header)
        .await
        .problem(404, "not-found");
    let span = sink.span(&unknown, "GET /{code}").await;
    assert_eq!(span["status"], "UNSET", "{span}");
    let (unmatched, header) = trace(2);
    request(app.public, "BREW", "/a/b", &header).await;
    let span = sink.span(&unmatched, "HTTP").await;
    let expected = [
        ("http.route", Value::Null),
        ("http.request.method", json!("_OTHER")),
        ("http.request.method_original", json!("BREW")),
    ];
    assert_attributes(&span, &expected);

    proxy.set(Path::Silent);
    let (failed, header) = trace(3);
    let response = request(app.public, "GET", "/unknown", &header).await;
    response.problem(503, "database-unavailable");
    let span = sink.span(&failed, "GET /{code}").await;
    assert_eq!(span["status"], "ERROR", "{span}");
    let expected = [
        ("http.response.status_code", json!(503)),
        ("error.type", json!("database-unavailable")),
    ];
    assert_attributes(&span, &expected);
    let query = sink.span(&failed, "SELECT links").await;
    assert_eq!(
        (&query["status"], &query["parent_span_id"]),
        (&json!("ERROR"), &span["span_id"])
    );
}

#[tokio::test]
async fn a_call_that_outlasts_its_request_was_given_up() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let app = exporting(&database, endpoint, |config| {
        config.request_timeout = Duration::from_millis(300);
    })
    .await;
    let blocker = Blocker::hold(&database).await;
    let (trace, header) = trace(1);
    let response = request(app.public, "GET", "/unknown", &header).await;
    response.problem(503, "deadline-exceeded");
    let query = sink.span(&trace, "SELECT links").await;
    assert_attributes(
        &query,
        &[("cancelled", json!(true)), ("error.type", Value::Null)],
    );
    assert_eq!(query["status"], "UNSET", "{query}");
    let span = sink.span(&trace, "GET /{code}").await;
    assert_attributes(&span, &[("error.type", json!("deadline-exceeded"))]);
    blocker.release().await;
}

#[tokio::test]
async fn a_request_over_the_shared_limit_leaves_no_span_of_an_error() {
    let database = TestDatabase::new().await;
    let (redis, (sink, endpoint)) = (Redis::start().await, Sink::start().await);
    let limited = async |endpoint: String| {
        let app = exporting(&database, endpoint, |config| {
            redis.configure(config);
            config.limit_requests_per_second = 1;
            config.limit_requests_burst = 1;
        });
        let app = app.await;
        cache_is_up(&app).await;
        app
    };
    let (first, second) = (limited(endpoint.clone()).await, limited(endpoint).await);
    // Each replica has a token of its own, and both share one.
    request(first.public, "GET", "/unknown", "")
        .await
        .problem(404, "not-found");
    let (refused, header) = trace(1);
    request(second.public, "GET", "/unknown", &header)
        .await
        .problem(429, "rate-limited");
    sink.span(&refused, "GET /{code}").await;
    let look_up = sink.span(&refused, "MGET").await;
    assert_attributes(&look_up, &[("cancelled", json!(true))]);
    for span in sink.spans(&refused) {
        assert_eq!(span["status"], "UNSET", "{span}");
    }
}

#[tokio::test]
async fn an_untrusted_caller_is_linked_and_its_trace_is_not_continued() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let app = exporting(&database, endpoint, |config| {
        config.trust_incoming_trace = false;
    })
    .await;
    let (of_caller, header) = trace(1);
    let problem = request(app.public, "GET", "/unknown", &header)
        .await
        .problem(404, "not-found");
    let own = problem["trace_id"].as_str().unwrap();
    assert_ne!(own, of_caller);
    let span = sink.span(own, "GET /{code}").await;
    assert_eq!(span["parent_span_id"], "", "{span}");
    let links = json!([{"trace_id": of_caller, "span_id": CALLER}]);
    assert_eq!(span["links"], links, "{span}");
    assert!(sink.spans(&of_caller).is_empty());
    // A malformed header names no caller.
    let problem = request(app.public, "GET", "/other", "traceparent: x\r\n")
        .await
        .problem(404, "not-found");
    let span = sink
        .span(problem["trace_id"].as_str().unwrap(), "GET /{code}")
        .await;
    assert_eq!(span["links"], json!([]), "{span}");
}

#[tokio::test]
async fn probes_are_not_traced() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let app = exporting(&database, endpoint, |_| {}).await;
    let (trace, header) = trace(1);
    for path in ["/livez", "/readyz", "/metrics", "/backends"] {
        assert_eq!(
            request(app.internal, "GET", path, &header).await.status,
            200
        );
    }
    request(app.public, "GET", "/health", &header).await;
    sink.span(&trace, "GET /health").await;
    assert_eq!(sink.spans(&trace).len(), 1);
}

#[tokio::test]
async fn nothing_secret_is_exported() {
    let database = TestDatabase::new().await;
    let (sink, endpoint) = Sink::start().await;
    let url = migrated(&database.clone().password("hidden-1")).await;
    let redis = Redis::start_with(&["--requirepass", "hidden-2"]).await;
    let cache = redis.url().replace("redis://", "redis://:hidden-2@");
    let mut environment = serving(&url);
    environment.extend([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hidden-3"),
        ("CACHE_URL", cache.as_str()),
        ("QUEUE_URL", "amqp://u:hidden-4@127.0.0.1:1/%2f"),
        ("CACHE_TIMEOUT_SECONDS", "10"),
    ]);
    let mut process = start(&[], &environment);
    let (public, _) = addresses(&mut process).await;
    let (trace, header) = trace(1);
    let header = format!("{header}authorization: Bearer hidden-5\r\ncookie: a=hidden-6\r\n");
    let body = br#"{"url":"https://example.com/hidden-7","code":"secret-link"}"#;
    assert_eq!(
        send(public, post_bytes("/shorten", &header, body))
            .await
            .status,
        201
    );
    request(public, "GET", "/secret-link?key=hidden-8", &header).await;
    let job = post_bytes("/jobs", &header, br#"{"task":"hidden-9"}"#);
    assert_eq!(send(public, job).await.status, 503);
    for name in [
        "POST /shorten",
        "INSERT links",
        "EVALSHA",
        "GET /{code}",
        "MGET",
        "publish jobs",
    ] {
        sink.span(&trace, name).await;
    }
    sink.log(&trace, "request").await;
    process.terminate().await;
    assert!(process.exit().await.success());
    let everything = sink.everything();
    assert!(!everything.contains("hidden"), "{everything}");
}

#[tokio::test]
async fn without_an_endpoint_there_is_no_exporter() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    let response: Response = get(app.public, "/health").await;
    assert_eq!(response.status, 200);
    shorten(app.public, json!({"url": "https://example.com/"})).await;
    let metrics = get(app.internal, "/metrics").await.text();
    assert!(!metrics.contains("otel_dropped"), "{metrics}");
}
