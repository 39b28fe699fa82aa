//! A request between its arrival and its response, the same for every way that leads to a handler.

use std::panic::AssertUnwindSafe;

use axum::response::{IntoResponse, Response};
use futures::{FutureExt, future::try_join};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, header::CONNECTION};
use shortener_common::telemetry::span::{Span, in_span};
use tokio::time::{Instant, timeout_at};

use super::{
    MAX_HEADERS, MAX_URI,
    allowance::Allowance,
    complete,
    facts::{Head, RequestFacts},
    line, span,
};
use crate::{
    body::Deadline,
    cors,
    error::{Error, ErrorExtension},
    page,
    state::SharedState,
};

/// The status in the metrics, the log and the span of a request whose client left before the response, as nginx has it.
const CLIENT_LEFT: u16 = 499;
/// The error type of such a request.
const CANCELLED: &str = "cancelled";

/// A request that has arrived. If it is dropped before its response, its client has left.
pub(crate) struct RequestLifecycle<'a> {
    state: &'a SharedState,
    deadline: Deadline,
    facts: RequestFacts<'a>,
    /// `None` once the request has ended.
    span: Option<Span>,
    allowance: Allowance<'a>,
    /// The error of a request that is too large or exceeds the limit of this replica.
    refusal: Option<Error>,
    /// The answer without a handler.
    early: Option<Response>,
}

impl<'a> RequestLifecycle<'a> {
    /// Starts the time, the span and the limits of a request.
    pub(crate) fn begin(state: &'a SharedState, head: Head<'a>, headers: &HeaderMap) -> Self {
        let deadline = Deadline {
            start: Instant::now(),
            budget: state.config.request_timeout,
        };
        let mut facts = RequestFacts::of(&head, headers, &state.config);
        let early = if state.cors.is_preflight(facts.route, facts.method, headers) {
            // A browser sends no key with it.
            Some(cors::preflight())
        } else {
            let denial = facts.identify(&state.guard, headers);
            let denial = denial
                .or_else(|| facts.cross_origin(headers))
                .or_else(|| facts.reserved(&state.storage));
            denial.map(IntoResponse::into_response)
        };
        let span = span::begin(&state.tracer, &facts);
        let mut allowance = Allowance::of(state, &facts);
        let admitted = allowance
            .take(&facts)
            .and_then(|()| check_size(&facts, headers));
        Self {
            state,
            deadline,
            facts,
            span: Some(span),
            allowance,
            refusal: admitted.err(),
            early,
        }
    }

    /// Adds what handlers read. A request without a client is anonymous.
    pub(crate) fn describe(&self, extensions: &mut Extensions) {
        extensions.insert(self.deadline);
        extensions.insert(self.facts.trace);
        extensions.insert(self.facts.bucket());
        if let Some(client) = &self.facts.identity {
            extensions.insert(client.clone());
        }
        if let Some(rights) = self.facts.rights() {
            extensions.insert(rights);
        }
    }

    /// Answers the request: by its handler, unless it is refused before.
    pub(crate) async fn answer(mut self, handler: impl Future<Output = Response>) -> Response {
        let response = match self.refusal.take() {
            Some(error) => error.into_response(),
            None => self.admitted(handler).await,
        };
        self.end(response)
    }

    async fn admitted(&mut self, handler: impl Future<Output = Response>) -> Response {
        let (early, end) = (self.early.take(), self.deadline.end());
        let answer = async move {
            match early {
                Some(response) => response,
                None => in_time(end, handler).await,
            }
        };
        let answer = rate_limited(&mut self.allowance, &self.facts, answer);
        match &self.span {
            Some(span) => in_span(span, answer).await,
            None => answer.await,
        }
    }

    /// Completes the response, and records the request.
    fn end(mut self, response: Response) -> Response {
        let facts = &self.facts;
        let (response, failure) = complete(response, facts.uri.path(), Some(facts.trace));
        let response = self.addressed(response, failure.as_ref());
        let status = response.status();
        let failure = failure.as_ref().map(|failure| failure.0.for_log());
        self.record(status, failure);
        if let Some(span) = self.span.take() {
            span::end(span, status, failure);
        }
        response
    }

    /// Counts and logs the request.
    fn record(&self, status: StatusCode, failure: Option<(&'static str, Option<&str>)>) {
        let (facts, duration) = (&self.facts, self.deadline.start.elapsed());
        let what = (facts.method, facts.route, status);
        self.state.metrics.ended(what, duration, facts.trace);
        line::log(facts, status, duration, failure);
    }

    /// Fits a complete response to the client: a page for a browser, the permission for a script, and the rate limit.
    fn addressed(&self, mut response: Response, failure: Option<&ErrorExtension>) -> Response {
        let (state, facts) = (self.state, &self.facts);
        if let Some(failure) = failure.filter(|_| facts.can_be_a_page()) {
            response = page::negotiated(response, &failure.0, facts.accept.as_ref());
        }
        let status = response.status();
        let headers = response.headers_mut();
        if facts.route.row().is_for_scripts() {
            state.cors.permit(facts.origin.as_ref(), headers);
        }
        if facts.tells_limit(status) {
            self.allowance.tell(headers);
        }
        if state.is_draining() {
            // Proxies keep connections open; this one has to end before the replica does.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl Drop for RequestLifecycle<'_> {
    fn drop(&mut self) {
        let (Some(mut span), Ok(status)) = (self.span.take(), StatusCode::from_u16(CLIENT_LEFT))
        else {
            return;
        };
        self.record(status, Some((CANCELLED, None)));
        // A span that is dropped without its end is marked as cancelled.
        span.set("http.response.status_code", i64::from(CLIENT_LEFT));
    }
}

/// Rejects requests that are too large.
fn check_size(facts: &RequestFacts<'_>, headers: &HeaderMap) -> Result<(), Error> {
    let path = facts.uri.path_and_query();
    if path.is_some_and(|path| path.as_str().len() > MAX_URI) {
        return Err(Error::UriTooLong(MAX_URI));
    }
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    if sizes.sum::<usize>() > MAX_HEADERS {
        return Err(Error::HeadersTooLarge(MAX_HEADERS));
    }
    Ok(())
}

/// Handles the request unless the client has exceeded the shared rate limit.
async fn rate_limited(
    allowance: &mut Allowance<'_>,
    facts: &RequestFacts<'_>,
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

/// Runs the handler with its deadline; a panic becomes an internal error.
pub(super) async fn in_time(
    deadline: Instant,
    handler: impl Future<Output = Response>,
) -> Response {
    let handler = AssertUnwindSafe(handler).catch_unwind();
    match timeout_at(deadline, handler).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Error::Internal("the handler panicked".to_owned()).into_response(),
        Err(_) => Error::Deadline.into_response(),
    }
}
