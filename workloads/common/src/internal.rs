//! The internal port of a process: `/livez`, `/readyz`, `/metrics` and `/backends`. Its requests are neither counted nor
//! logged.

use std::fmt;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, VARY},
};
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::{backends::Backends, exposition::Format};

/// The state of a process that the internal port exposes.
pub trait Process: Clone + Send + Sync + 'static {
    /// Returns the reason why the process is not ready, or `None` if it is ready.
    fn unready(&self) -> Option<&'static str>;

    /// Returns the registry of its metrics.
    fn registry(&self) -> &Registry;

    /// Returns the states of the stores that it uses.
    fn backends(&self) -> Backends;
}

/// Returns the routes of the internal port.
pub fn router<P: Process>(process: P) -> Router {
    Router::new()
        // Succeeds whenever the process can answer at all.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz::<P>))
        .route("/metrics", get(scrape::<P>))
        .route("/backends", get(backends::<P>))
        .with_state(process)
}

async fn readyz<P: Process>(State(process): State<P>) -> (StatusCode, String) {
    match process.unready() {
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        None => (StatusCode::OK, "ok\n".to_owned()),
    }
}

async fn scrape<P: Process>(State(process): State<P>, headers: HeaderMap) -> Response {
    match metrics(process.registry(), &headers) {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(event = "metrics_failed", error.message = %error, "metrics_failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Answers always with 200: a store that is down is the content, and not an error of this process.
async fn backends<P: Process>(State(process): State<P>) -> Json<Value> {
    Json(process.backends().to_json())
}

/// Encodes every metric of the registry, in the format that the request accepts.
///
/// # Errors
/// Fails if a metric cannot be encoded.
pub fn metrics(registry: &Registry, headers: &HeaderMap) -> Result<Response, fmt::Error> {
    let format = Format::negotiate(headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
    let text = format.encode(registry)?;
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static(format.content_type()),
        ),
        (VARY, HeaderValue::from_static("accept")),
    ];
    Ok((headers, text).into_response())
}
