//! The console: its page, and the files of the page.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, StatusCode, Uri,
    header::{CACHE_CONTROL, LOCATION},
};

use crate::{
    console::{self, INDEX},
    error::Error,
    state::AppState,
};

/// The path of the page. Its files have names relative to it.
const PATH: &str = "/console/";

/// Leads to the page.
pub async fn open(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Error> {
    if !state.config.console.answers(&headers) {
        return Err(Error::NotFound);
    }
    let fields = [
        (LOCATION, HeaderValue::from_static(PATH)),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((StatusCode::FOUND, fields).into_response())
}

/// Returns the page, or one of its files.
pub async fn file(
    State(state): State<AppState>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let name = uri.path().strip_prefix(PATH).unwrap_or_default();
    let name = if name.is_empty() { INDEX } else { name };
    let file = state
        .config
        .console
        .answers(&headers)
        .then(|| console::file(name, &headers));
    file.flatten().ok_or(Error::NotFound)
}
