//! Redirects as routes of the router, with their documentation. What answers a code is [`crate::redirect`], which also
//! answers most redirects before the router.

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::HeaderMap;

use super::preview::preview;
use crate::{code::Code, error::Error, redirect, route::PREVIEW_SUFFIX, state::AppState};

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
    redirect::follow(&state, code, request.uri().query(), HeaderMap::new()).await
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
    redirect::target(home, Error::NotFound)
}
