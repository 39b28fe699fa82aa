//! The middleware of the public port: limits before a request, and problem body or page, metrics, log line and span
//! after it.

mod allowance;
mod facts;
mod line;
mod span;

use std::panic::AssertUnwindSafe;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::{FutureExt, future::try_join};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ALLOW, CONNECTION},
};
use shortener_common::{telemetry::span::in_span, trace::TraceContext};
use tokio::time::{Instant, timeout_at};

pub use self::line::REQUESTS;
use self::{allowance::Allowance, facts::Facts, line::Line};
use crate::{
    auth::Identity,
    body::Deadline,
    cors,
    error::{Error, ErrorExtension},
    metrics::Answered,
    page,
    state::{AppState, Shared},
};

/// The maximum length of the path with its query, in bytes.
pub const MAX_URI: usize = 8 * 1024;
/// The maximum size of all header fields together, in bytes.
pub const MAX_HEADERS: usize = 16 * 1024;

/// Wraps every request of the public port.
pub async fn public(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let deadline = Deadline {
        start: Instant::now(),
        budget: state.config.request_timeout,
    };
    let mut facts = Facts::of(&request, &state.config);
    let is_preflight = state.cors.is_preflight(facts.route, &request);
    // A browser sends no key with a preflight.
    let denial = match is_preflight {
        true => None,
        false => facts.identify(&state.guard, request.headers()),
    };
    let span = span::begin(&state.tracer, &facts);
    let mut allowance = Allowance::of(&state, &facts);
    let response = match admit(&mut allowance, &request, &facts) {
        Err(error) => error.into_response(),
        Ok(()) => {
            request.extensions_mut().insert(deadline);
            request.extensions_mut().insert(facts.trace);
            // A request without this extension is anonymous.
            if let Identity::Client(_) = facts.identity {
                request.extensions_mut().insert(facts.identity.clone());
            }
            let answer = async {
                match denial {
                    Some(denial) => Error::from(denial).into_response(),
                    None if is_preflight => cors::preflight(),
                    None => answer(request, next, deadline.end()).await,
                }
            };
            in_span(&span, rate_limited(&mut allowance, &facts, answer)).await
        }
    };
    let (response, failure) = complete(response, facts.uri.path(), Some(facts.trace));
    let response = addressed(response, failure.as_ref(), &state, &facts, &allowance);
    let duration = deadline.start.elapsed();
    state.metrics.request(&Answered {
        route: facts.route,
        method: &facts.method,
        status: response.status(),
        trace: facts.trace,
        start: deadline.start,
        duration,
    });
    let failure = failure.as_ref().map(|failure| failure.0.for_log());
    span::end(span, response.status(), failure);
    state.requests.write(&Line {
        facts: &facts,
        status: response.status(),
        duration,
        failure,
    });
    response
}

/// Fits a complete response to the client: a page for a browser, the permission for a script, and the rate limit.
fn addressed(
    mut response: Response,
    failure: Option<&ErrorExtension>,
    state: &Shared,
    facts: &Facts,
    allowance: &Allowance<'_>,
) -> Response {
    if let Some(failure) = failure.filter(|_| facts.can_be_a_page()) {
        response = page::negotiated(response, &failure.0, facts.accept.as_ref());
    }
    let status = response.status();
    let headers = response.headers_mut();
    if facts.route.row().is_for_scripts() {
        state.cors.permit(facts.origin.as_ref(), headers);
    }
    if facts.tells_limit(status) {
        allowance.tell(headers);
    }
    if state.is_draining() {
        // Proxies keep connections open; this one has to end before the replica does.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Wraps every request of the internal port: adds the body of an error, and nothing else.
pub async fn internal(request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    complete(next.run(request).await, uri.path(), None).0
}

/// Rejects requests that are too large or exceed the limit of this replica.
fn admit(allowance: &mut Allowance<'_>, request: &Request, facts: &Facts) -> Result<(), Error> {
    allowance.take(facts)?;
    if request
        .uri()
        .path_and_query()
        .is_some_and(|path| path.as_str().len() > MAX_URI)
    {
        return Err(Error::UriTooLong(MAX_URI));
    }
    if header_bytes(request.headers()) > MAX_HEADERS {
        return Err(Error::HeadersTooLarge(MAX_HEADERS));
    }
    Ok(())
}

/// Handles the request unless the client has exceeded the shared rate limit.
async fn rate_limited(
    allowance: &mut Allowance<'_>,
    facts: &Facts,
    answer: impl Future<Output = Response>,
) -> Response {
    let admitted = allowance.take_shared(facts);
    let answered = if facts.method.is_safe() {
        // Discarding the response to a safe request is harmless. The check and the handler therefore run concurrently,
        // which saves a round trip to the cache.
        try_join(admitted, answer.map(Ok))
            .await
            .map(|((), response)| response)
    } else {
        match admitted.await {
            Ok(()) => Ok(answer.await),
            Err(error) => Err(error),
        }
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum()
}

/// Runs the handler with its deadline; a panic becomes an internal error.
async fn answer(request: Request, next: Next, deadline: Instant) -> Response {
    match timeout_at(deadline, AssertUnwindSafe(next.run(request)).catch_unwind()).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Error::Internal("the handler panicked".to_owned()).into_response(),
        Err(_) => Error::Deadline.into_response(),
    }
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
            is_bare_refusal.then(|| ErrorExtension(std::sync::Arc::new(Error::from_status(status))))
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
