//! Redirects, the hot path: one query, no JSON, no formatting, no copy of the code.

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    response::Response,
};
use http::{
    HeaderValue, StatusCode,
    header::{CACHE_CONTROL, LOCATION},
};

use super::preview::preview;
use crate::{
    code::Code, error::Error, location, route::PREVIEW_SUFFIX, state::AppState, store::Resolved,
    target::MAX_LOCATION,
};

/// Redirects to the destination of a short link.
#[utoipa::path(
    get,
    path = "/{code}",
    operation_id = "follow",
    params(("code" = String, Path, description = "The short code", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    responses(
        (status = 302, description = "The destination is in `Location`, or the target for unknown or expired codes if there is one", headers(("Cache-Control" = String, description = "No cache keeps the redirect"), ("Location" = String, description = "The destination as a URI: as it was given, with characters that no URI contains encoded, and with the query of the request where queries are forwarded"))),
        (status = 404, description = "No such code, or not a valid code"),
        (status = 410, description = "The link has expired or was taken down"),
        (status = 414, description = "The destination is too long together with the query"),
        (status = 451, description = "The link was disabled for legal reasons", headers(("Link" = String, description = "The service, with `rel=\"blocked-by\"` (RFC 7725)"))),
        (status = 503, description = "The database is not available"),
    )
)]
pub async fn follow(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    // The raw path: a percent-encoded code is invalid.
    let text = request.uri().path().strip_prefix('/').unwrap_or_default();
    if text.ends_with(PREVIEW_SUFFIX) {
        // In a box, so that the future of a redirect does not contain that of a preview.
        return Box::pin(preview(State(state), request)).await;
    }
    let code = Code::parse(text).map_err(|_| Error::NotFound)?;
    let resolved = state.links.find(code).await?;
    let settings = &state.config.links;
    match resolved {
        Some(Resolved::To(url)) if settings.links_forward_query => {
            redirect(with_query(url, request.uri().query())?)
        }
        Some(Resolved::To(url)) => redirect(url),
        Some(Resolved::Gone) => target(settings.links_expired_target.as_ref(), Error::Expired),
        Some(Resolved::Down(takedown)) => Err(Error::taken_down(takedown, &state.public_base)),
        None => target(settings.links_unknown_target.as_ref(), Error::NotFound),
    }
}

/// Redirects to the home page of the service, if it has one.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "root",
    responses(
        (status = 302, description = "The home page of the service is in `Location`", headers(("Cache-Control" = String, description = "No cache keeps the redirect"), ("Location" = String, description = "The home page"))),
        (status = 404, description = "The service has no home page"),
    )
)]
pub async fn root(State(state): State<AppState>) -> Result<Response, Error> {
    let home = state.config.links.links_root_target.as_ref();
    target(home, Error::NotFound)
}

/// Redirects to a target of the settings, or returns the error if there is none.
fn target(target: Option<&HeaderValue>, error: Error) -> Result<Response, Error> {
    target.cloned().map(found).ok_or(error)
}

/// Returns a destination with the query of the request.
fn with_query(url: Bytes, query: Option<&str>) -> Result<Bytes, Error> {
    match query.filter(|query| !query.is_empty()) {
        Some(query) => location::with_query(&url, query)
            .map(Bytes::from)
            .ok_or(Error::QueryTooLong(MAX_LOCATION)),
        None => Ok(url),
    }
}

fn redirect(url: Bytes) -> Result<Response, Error> {
    // The bytes of the store become the header value as they are. Anything that could split a header is rejected here.
    let location = HeaderValue::from_maybe_shared(url).map_err(|_| {
        Error::Internal("a stored destination is not a valid header value".to_owned())
    })?;
    Ok(found(location))
}

fn found(location: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
