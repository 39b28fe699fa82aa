//! Redirects, the hot path: one query, no JSON, no formatting, no copy of the code.

use axum::{
    body::{Body, Bytes},
    extract::State,
    response::Response,
};
use http::{
    HeaderValue, StatusCode, Uri,
    header::{CACHE_CONTROL, LOCATION},
};

use crate::{
    code::Code,
    error::{Error, PROBLEM_JSON, Problem},
    state::AppState,
    store::Resolved,
};

/// Redirects to the destination of a short link.
#[utoipa::path(
    get,
    path = "/{code}",
    operation_id = "follow",
    params(("code" = String, Path, description = "The short code", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    responses(
        (status = 302, description = "The destination is in `Location`", headers(("Location" = String, description = "The destination as a URI: as it was given, with characters that no URI contains encoded"))),
        (status = 404, description = "No such code, or not a valid code", body = Problem, content_type = PROBLEM_JSON),
        (status = 410, description = "The link has expired or was taken down", body = Problem, content_type = PROBLEM_JSON),
        (status = 451, description = "The link was disabled for legal reasons", body = Problem, content_type = PROBLEM_JSON, headers(("Link" = String, description = "The service, with `rel=\"blocked-by\"` (RFC 7725)"))),
        (status = 503, description = "The database is not available", body = Problem, content_type = PROBLEM_JSON),
    )
)]
pub async fn follow(State(state): State<AppState>, uri: Uri) -> Result<Response, Error> {
    // The raw path: a percent-encoded code is invalid.
    let text = uri.path().strip_prefix('/').unwrap_or_default();
    let code = Code::parse(text).map_err(|_| Error::NotFound)?;
    match state.links.find(code).await? {
        Some(Resolved::To(url)) => redirect(url),
        Some(Resolved::Gone) => Err(Error::Expired),
        Some(Resolved::Down(takedown)) => Err(Error::taken_down(takedown, &state.public_base)),
        None => Err(Error::NotFound),
    }
}

fn redirect(url: Bytes) -> Result<Response, Error> {
    // The bytes of the store become the header value as they are. Anything that could split a header is rejected here.
    let location = HeaderValue::from_maybe_shared(url).map_err(|_| {
        Error::Internal("a stored destination is not a valid header value".to_owned())
    })?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
