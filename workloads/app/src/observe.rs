//! The middleware of the public port: limits before a request, and problem body, metrics, log line and span after
//! it.

mod span;

use std::{
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    time::Duration,
};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::{FutureExt, future::try_join};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{ALLOW, CONNECTION},
};
use shortener_common::{
    server::Peer,
    telemetry::span::in_span,
    trace::{Caller, TraceContext},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    body::Deadline,
    client,
    config::ServeArgs,
    error::{Error, ErrorExtension},
    limits::Limit,
    metrics::{Route, method_label},
    state::{AppState, Shared},
};

/// The maximum length of the path with its query, in bytes.
pub const MAX_URI: usize = 8 * 1024;
/// The maximum size of all header fields together, in bytes.
pub const MAX_HEADERS: usize = 16 * 1024;
/// The maximum length of a path in the log line and the span, in bytes.
const MAX_PATH: usize = 256;

/// Wraps every request of the public port.
pub async fn public(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let deadline = Deadline {
        start: Instant::now(),
        budget: state.config.request_timeout,
    };
    let facts = Facts::of(&request, &state.config);
    let span = span::begin(&state.tracer, &facts);
    let response = match admit(&state, &request, &facts) {
        Err(error) => error.into_response(),
        Ok(limit) => {
            request.extensions_mut().insert(deadline);
            request.extensions_mut().insert(facts.trace);
            let answer = answer(request, next, deadline.end());
            in_span(&span, rate_limited(limit, &facts, answer)).await
        }
    };
    let (mut response, failure) = complete(response, facts.uri.path(), Some(facts.trace));
    if state.is_draining() {
        // Proxies keep connections open; this one has to end before the replica does.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let duration = deadline.start.elapsed();
    state.metrics.request(
        facts.route,
        &facts.method,
        response.status(),
        duration,
        facts.trace,
    );
    let failure = failure.as_ref().map(|failure| failure.0.for_log());
    span::end(span, response.status(), failure);
    facts.log(response.status(), duration, failure);
    response
}

/// Wraps every request of the internal port: adds the body of an error, and nothing else.
pub async fn internal(request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    complete(next.run(request).await, uri.path(), None).0
}

/// The facts about a request that are known before it is handled.
struct Facts {
    trace: TraceContext,
    /// The caller, if its trace is not continued.
    caller: Option<Caller>,
    route: Route,
    method: Method,
    uri: Uri,
    client: IpAddr,
}

impl Facts {
    fn of(request: &Request, config: &ServeArgs) -> Self {
        let (trace, caller) = if config.trust_incoming_trace {
            (TraceContext::from_headers(request.headers()), None)
        } else {
            let caller = Caller::from_headers(request.headers());
            (TraceContext::root(), caller)
        };
        let template = request
            .extensions()
            .get::<MatchedPath>()
            .map(MatchedPath::as_str);
        let peer = request
            .extensions()
            .get::<Peer>()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
        Self {
            trace,
            caller,
            route: Route::from_template(template),
            method: request.method().clone(),
            uri: request.uri().clone(),
            client: client::address(peer, request.headers(), config.trusted_hops),
        }
    }

    /// Returns the path, cut to [`MAX_PATH`] bytes at most: a path may contain characters of several bytes.
    fn path(&self) -> &str {
        let path = self.uri.path();
        &path[..path.floor_char_boundary(MAX_PATH)]
    }

    /// Writes the log line of a request; its body is exactly `request`.
    fn log(
        &self,
        status: StatusCode,
        duration: Duration,
        failure: Option<(&'static str, Option<&str>)>,
    ) {
        let (kind, reason) = failure.unzip();
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    event = "request",
                    trace_id = %self.trace.trace_id,
                    span_id = %self.trace.span_id,
                    http.request.method = method_label(&self.method),
                    http.route = self.route.as_str(),
                    http.response.status_code = status.as_u16(),
                    url.path = self.path(),
                    client.address = %self.client,
                    duration = duration.as_secs_f64(),
                    error.r#type = kind,
                    error.message = reason.flatten(),
                    "request"
                )
            };
        }
        if status.is_server_error() {
            line!(error)
        } else {
            line!(info)
        }
    }
}

/// Rejects requests that are too large or exceed the limit of this replica. Returns the rate limit that applies.
fn admit<'a>(
    state: &'a Shared,
    request: &Request,
    facts: &Facts,
) -> Result<Option<&'a Limit>, Error> {
    let creates = facts.method == Method::POST && facts.route.as_str() == "/shorten";
    let limit = if creates {
        &state.shorten_limit
    } else {
        &state.requests_limit
    };
    if let Some(limit) = limit {
        limit.take(facts.client).map_err(Error::RateLimited)?;
    }
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
    Ok(limit.as_ref())
}

/// Handles the request unless the client has exceeded the shared rate limit.
async fn rate_limited(
    limit: Option<&Limit>,
    facts: &Facts,
    answer: impl Future<Output = Response>,
) -> Response {
    let admitted = async {
        match limit {
            Some(limit) => limit
                .take_shared(facts.client)
                .await
                .map_err(Error::RateLimited),
            None => Ok(()),
        }
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_is_longer_in_the_log_than_its_limit() {
        // Byte 256 is the second byte of a character, the third one, and the first one.
        for (ascii, expected) in [(254, 255), (253, 254), (255, 256)] {
            let path = format!("/{}{}", "a".repeat(ascii), "\u{20ac}".repeat(2000));
            let facts = Facts {
                trace: TraceContext::root(),
                caller: None,
                route: Route::from_template(None),
                method: Method::GET,
                uri: path.parse().unwrap(),
                client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            };
            assert_eq!(facts.path(), &path[..expected]);
        }
    }
}
