//! The addresses of clients in the log and in spans.

use serde_json::{Value, json};
use shortener_testing::{database::TestDatabase, otlp::Sink};

use crate::{
    cache_server::Redis,
    client::{post_bytes, request, send},
    process::{addresses, migrated, serving, start},
    telemetry::trace,
};

/// A client by IPv4 and one by IPv6, with the beginnings of every address in their networks.
const CLIENTS: [(&str, &str); 2] = [
    ("203.0.113.9", "203.0.113."),
    ("2001:db8:1:2::7", "2001:db8:1:"),
];

/// Everything that an app wrote down about its requests.
struct Records {
    /// The lines of stdout.
    lines: Vec<Value>,
    sink: Sink,
}

/// Runs an app with this setting, which each client uses in every way in which the app looks at its address.
async fn records(url: &str, setting: &str) -> Records {
    let (cache, (sink, endpoint)) = (Redis::start().await, Sink::start().await);
    let cache_url = cache.url();
    let mut environment = serving(url);
    environment.extend([
        ("LOG_CLIENT_ADDRESS", setting),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("CACHE_URL", cache_url.as_str()),
        ("LIMIT_SHORTEN_BURST", "1"),
    ]);
    let mut process = start(&["serve"], &environment);
    let (public, _) = addresses(&mut process).await;
    for ((address, _), number) in CLIENTS.iter().zip(1..) {
        let (trace, header) = trace(number);
        let headers = format!("{header}x-forwarded-for: {address}\r\n");
        request(public, "GET", "/health", &headers).await;
        let body = br#"{"url":"https://example.com/"}"#;
        for expected in [201, 429] {
            let headers = format!("{headers}idempotency-key: {setting}\r\n");
            let response = send(public, post_bytes("/shorten", &headers, body)).await;
            assert_eq!(response.status, expected, "{response:?}");
        }
        sink.span(&trace, "GET /health").await;
        sink.log(&trace, "request").await;
    }
    process.terminate().await;
    let lines = process.rest().await;
    Records { lines, sink }
}

#[tokio::test]
async fn lines_and_spans_show_as_much_of_an_address_as_is_set() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    for (setting, expected) in [
        ("full", [json!("203.0.113.9"), json!("2001:db8:1:2::7")]),
        ("network", [json!("203.0.113.0"), json!("2001:db8:1::")]),
        ("none", [json!(null), json!(null)]),
    ] {
        let Records { lines, sink } = records(&url, setting).await;
        for (expected, number) in expected.iter().zip(1..) {
            let (trace, _) = trace(number);
            let span = sink.span(&trace, "GET /health").await;
            assert_eq!(&span["attributes"]["client.address"], expected, "{span}");
            let record = sink.log(&trace, "request").await;
            assert_eq!(&record["attributes"]["client.address"], expected);
            let mut of_trace = lines.iter().filter(|line| line["trace_id"] == trace);
            assert!(of_trace.all(|line| &line["client.address"] == expected));
        }
        let mut text = sink.everything();
        for line in &lines {
            text.push_str(&line.to_string());
        }
        assert!(text.contains("rate-limited"), "{text}");
        for (address, network) in CLIENTS {
            assert_eq!(text.contains(address), setting == "full", "{text}");
            assert_eq!(text.contains(network), setting != "none", "{text}");
        }
    }
}
