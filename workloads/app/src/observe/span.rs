//! The server span of a request, by the semantic conventions for HTTP servers.
//!
//! <https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server>

use http::StatusCode;
use shortener_common::telemetry::span::{OTHER, Span, SpanKind, Tracer};

use super::facts::RequestFacts;
use crate::{metrics::method_label, route::Route};

/// The maximum length of an unknown method in the span, in characters.
const MAX_METHOD: usize = 32;

/// Starts the span with the same identifiers as the log line, the exemplar and the problem body.
pub(super) fn begin(tracer: &Tracer, facts: &RequestFacts<'_>) -> Span {
    let method = method_label(facts.method);
    if !tracer.is_on() {
        return tracer.start(facts.trace, SpanKind::Server, method);
    }
    let mut span = tracer.start(facts.trace, SpanKind::Server, name(method, facts.route));
    span.set("http.request.method", method)
        .set("url.scheme", "http")
        // Without the query, which may contain private data.
        .set("url.path", facts.path().to_owned());
    if let Some(address) = facts.shown_client {
        span.set("client.address", address.to_string());
    }
    if let Some(name) = facts.client_name() {
        span.set("auth.client", name.to_owned());
    }
    if let Some(caller) = facts.caller {
        span.link_caller(caller);
    }
    if facts.route.is_known() {
        span.set("http.route", facts.route.as_str());
    }
    if method != facts.method.as_str() {
        let original: String = facts.method.as_str().chars().take(MAX_METHOD).collect();
        span.set("http.request.method_original", original);
    }
    span
}

/// Ends the span. Only a server error sets the error status; a client error does not.
pub(super) fn end(
    mut span: Span,
    status: StatusCode,
    failure: Option<(&'static str, Option<&str>)>,
) {
    span.set("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        let (kind, reason) = failure.unwrap_or((OTHER, None));
        span.fail(kind, reason.unwrap_or_default());
    }
    span.end();
}

fn name(method: &'static str, route: Route) -> String {
    // An unknown method must not become a span name.
    let method = if method == "_OTHER" { "HTTP" } else { method };
    if route.is_known() {
        [method, " ", route.as_str()].concat()
    } else {
        method.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_few() {
        for (method, template, expected) in [
            ("GET", Some("/{code}"), "GET /{code}"),
            ("POST", Some("/shorten"), "POST /shorten"),
            ("_OTHER", Some("/health"), "HTTP /health"),
            ("GET", None, "GET"),
            ("_OTHER", None, "HTTP"),
        ] {
            assert_eq!(name(method, Route::from_template(template)), expected);
        }
    }
}
