//! The metrics of this process on the public port.

use axum::{extract::State, response::Response};
use http::HeaderMap;
use shortener_common::internal;

use crate::{error::Error, state::AppState};

/// Returns metrics in the classic text format, or in OpenMetrics with exemplars if `Accept` requests it.
pub async fn public(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Error> {
    if !state.config.expose_metrics {
        return Err(Error::NotFound);
    }
    internal::metrics(&state.metrics.registry, &headers)
        .map_err(|error| Error::Internal(error.to_string()))
}
