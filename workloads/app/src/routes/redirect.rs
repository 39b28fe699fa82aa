//! Redirects as routes of the router. What answers a code is [`crate::redirect`], which also
//! answers most redirects before the router.

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::HeaderMap;

use super::{console, preview::preview};
use crate::{
    error::Error,
    redirect::{self, Target},
    route::PREVIEW_SUFFIX,
    state::AppState,
};

/// Redirects to the destination of a short link.
pub async fn follow(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let text = request.uri().path().strip_prefix('/').unwrap_or_default();
    if text.ends_with(PREVIEW_SUFFIX) {
        // In a box, so that the future of a redirect does not contain that of a preview.
        return Box::pin(preview(State(state), request)).await;
    }
    let target = Target::of(request.uri().path()).ok_or(Error::NotFound)?;
    let followed = redirect::follow(&state, target, request.uri().query(), HeaderMap::new());
    Ok(followed.await?.response)
}

/// Redirects to the home page of the service, if it has one. On the host of the console that is the console.
pub async fn root(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Error> {
    if state.config.console.is_own_host(&headers) {
        return console::open(State(state), headers).await;
    }
    let home = state.config.links.links_root_target.as_ref();
    redirect::target(home, Error::NotFound)
}
