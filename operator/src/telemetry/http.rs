//! Spans of HTTP requests, by OpenTelemetry's semantic conventions for clients.
//!
//! <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>

use std::borrow::Cow;

use http::{Method, Response, StatusCode, Uri};
use tower::BoxError;

use super::span::{self, OTHER, SpanKind};

/// Waits for the answer to a request, in a child of the current span. `target` names the kind of object that the request
/// is about; it is called for traced work only.
///
/// # Errors
/// Returns the error of the request.
pub async fn request<B>(
    method: &Method,
    uri: &Uri,
    target: impl FnOnce() -> Cow<'static, str>,
    answer: impl Future<Output = Result<Response<B>, BoxError>>,
) -> Result<Response<B>, BoxError> {
    let name = || format!("{method} {}", target());
    let Some(mut span) = span::child(SpanKind::Client, name) else {
        return answer.await;
    };
    span.set("http.request.method", method.as_str().to_owned());
    if let Some(host) = uri.host() {
        span.set("server.address", host.to_owned());
    }
    if let Some(port) = uri.port_u16() {
        span.set("server.port", i64::from(port));
    }
    span.set("url.path", uri.path().to_owned());
    let answer = answer.await;
    match &answer {
        Ok(response) => {
            let status = response.status();
            span.set("http.response.status_code", i64::from(status.as_u16()));
            // The status code says why, so there is no description.
            if is_failure(method, status) {
                span.fail(status.as_str().to_owned(), "");
            }
        }
        Err(error) => {
            span.fail(OTHER, &error.to_string());
        }
    }
    span.end();
    answer
}

/// Returns true for a status that is a failure. A read of an object that does not exist is none: most reads of that kind
/// ask if it does.
fn is_failure(method: &Method, status: StatusCode) -> bool {
    let missing = method == Method::GET && status == StatusCode::NOT_FOUND;
    !missing && (status.is_client_error() || status.is_server_error())
}

#[cfg(test)]
mod tests {
    use opentelemetry::{KeyValue, trace::Status};

    use super::*;
    use crate::testing::collector::FakeCollector;

    #[tokio::test]
    async fn a_request_has_a_span_with_its_result() {
        let collector = FakeCollector::default();
        let telemetry = collector.telemetry();
        let whole = telemetry.tracer().root("whole").unwrap();
        let uri = Uri::from_static("http://broker.test:15672/api/queues/%2F?columns=name");
        let answers: [(Method, Result<u16, &str>); 4] = [
            (Method::GET, Ok(200)),
            (Method::GET, Ok(404)),
            (Method::PATCH, Ok(404)),
            (Method::PUT, Err("closed")),
        ];
        for (method, answer) in answers {
            let answer = async {
                let status = answer.map_err(BoxError::from)?;
                Ok::<_, BoxError>(Response::builder().status(status).body(())?)
            };
            let request = request(&method, &uri, || "queues".into(), answer);
            let _ = span::in_span(&whole, request).await;
        }
        let spans = collector.spans();
        let shown: Vec<_> = spans
            .iter()
            .map(|span| (span.name.as_ref(), &span.status))
            .collect();
        let (unset, silent) = (Status::Unset, Status::error(""));
        let closed = Status::error("closed");
        let expected = [
            ("GET queues", &unset),
            ("GET queues", &unset),
            ("PATCH queues", &silent),
            ("PUT queues", &closed),
        ];
        assert_eq!(shown, expected);
        let expected = [
            KeyValue::new("http.request.method", "PATCH"),
            KeyValue::new("server.address", "broker.test"),
            KeyValue::new("server.port", 15672_i64),
            KeyValue::new("url.path", "/api/queues/%2F"),
            KeyValue::new("http.response.status_code", 404_i64),
            KeyValue::new("error.type", "404"),
        ];
        assert_eq!(spans[2].attributes, expected);
    }
}
