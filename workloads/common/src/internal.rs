//! The internal port of a process: `/livez`, `/readyz` and `/metrics`, neither counted nor logged.

use std::fmt;

use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, VARY},
};
use prometheus_client::registry::Registry;

use crate::exposition::Format;

/// What the internal port tells about a process.
pub trait Process: Clone + Send + Sync + 'static {
    /// Why it wants no work now; `None` when it is ready.
    fn unready(&self) -> Option<&'static str>;

    /// Its metrics.
    fn registry(&self) -> &Registry;
}

/// The routes of the internal port.
pub fn router<P: Process>(process: P) -> Router {
    Router::new()
        // The process can answer at all.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz::<P>))
        .route("/metrics", get(scrape::<P>))
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

/// Every metric of the registry, in the format that the request asks for.
///
/// # Errors
/// When a metric fails to encode itself.
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
