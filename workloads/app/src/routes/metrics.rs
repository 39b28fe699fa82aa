//! The metrics of this process as text.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE, VARY},
};
use shortener_common::exposition::Format;

use crate::{error::Error, state::AppState};

/// Metrics in the classic text format, or in OpenMetrics with exemplars when `Accept` asks for it.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    responses(
        (status = 200, description = "All metrics of the replica", body = String, content_type = "text/plain"),
        (status = 404, description = "Metrics are not shown on the public port"),
    )
)]
pub async fn public(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Error> {
    if !state.config.expose_metrics {
        return Err(Error::NotFound);
    }
    internal(State(state), headers).await
}

/// The same for scrapers inside the cluster, whatever the public port shows.
///
/// # Errors
/// When a metric fails to encode itself.
pub async fn internal(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let format = Format::negotiate(headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
    let text = format
        .encode(state.metrics.registry())
        .map_err(|error| Error::Internal(error.to_string()))?;
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static(format.content_type()),
        ),
        (VARY, HeaderValue::from_static("accept")),
    ];
    Ok((headers, text).into_response())
}
