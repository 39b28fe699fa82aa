//! The parts that all requests of the public port have in common, around their handlers: limits before a request, and
//! problem body or page, metrics, log line and span after it. A request whose client left has the last three as well.
//!
//! [`public`] does it for the routes of the router, and [`crate::shortcut`] for what passes it by. [`internal`] and
//! [`management()`] are the little that the other ports need.

mod allowance;
mod facts;
mod lifecycle;
mod line;
mod management;
mod span;

use std::sync::Arc;

use axum::{
    Extension,
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use http::{StatusCode, header::ALLOW};
use shortener_common::{server::Client, trace::TraceContext};

pub use self::management::management;
pub(crate) use self::{facts::Head, lifecycle::RequestLifecycle};
use crate::{
    error::{Error, ErrorExtension},
    route::Route,
    state::AppState,
};

/// The maximum length of the path with its query, in bytes.
pub const MAX_URI: usize = 8 * 1024;
/// The maximum size of all header fields together, in bytes.
pub const MAX_HEADERS: usize = 16 * 1024;

/// Wraps every request of the public port that the router gets.
pub async fn public(
    State(state): State<AppState>,
    Extension(client): Extension<Client>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let template = request.extensions().get().map(MatchedPath::as_str);
    let head = Head {
        route: Route::of(template, uri.path()),
        method: &method,
        uri: &uri,
        client: &client,
    };
    let lifecycle = RequestLifecycle::begin(&state, head, request.headers());
    lifecycle.describe(request.extensions_mut());
    lifecycle.answer(next.run(request)).await
}

/// Wraps every request of the internal port: adds the body of an error, and nothing else.
pub async fn internal(request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    complete(next.run(request).await, uri.path(), None).0
}

/// Turns an error into its problem body. A bare 405 of the router becomes a problem too, and keeps `Allow`.
fn complete(
    mut response: Response,
    path: &str,
    trace: Option<TraceContext>,
) -> (Response, Option<ErrorExtension>) {
    let status = response.status();
    let failure = response
        .extensions_mut()
        .remove::<ErrorExtension>()
        .or_else(|| {
            let is_bare_refusal = status == StatusCode::METHOD_NOT_ALLOWED;
            is_bare_refusal.then(|| ErrorExtension(Arc::new(Error::MethodNotAllowed)))
        });
    let Some(failure) = failure else {
        return (response, None);
    };
    let mut problem = failure
        .0
        .to_problem(path, trace.map(|trace| trace.trace_id.to_string()));
    if let Some(allow) = response.headers_mut().remove(ALLOW) {
        problem.headers_mut().insert(ALLOW, allow);
    }
    (problem, Some(failure))
}
