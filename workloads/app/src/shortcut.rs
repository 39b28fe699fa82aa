//! The way of redirects, which nearly all requests take, and of new jobs.
//!
//! ```text
//!  connection (common/src/server.rs)
//!      |  a request: head and body
//!      v
//!  Unescaped::answer            (unescaped.rs)  the path without escapes of unreserved characters
//!      v
//!  Shortcut::answer --- neither GET or HEAD of a plausible code, ---> router: routes, extensions, boxes
//!      |                nor POST /jobs                                   |
//!      |  code, query, memory of the header fields; or a job             |
//!      v                                                                 v
//!  RequestLifecycle::begin       (observe/lifecycle.rs)  time, facts, key, span, limit of this replica   <- one code for both
//!      |
//!      v
//!  RequestLifecycle::answer      limit of all replicas, beside or before
//!      |    follow    (redirect.rs)       a look-up, and the response                     <- one code for both
//!      |    enqueue   (routes/jobs.rs)    a publication, and the response                 <- one code for both
//!      v
//!  RequestLifecycle::end         problem or page, fields for the client, metrics, log line, span     <- one code for both
//!      |
//!      |    Clicks::count (clicks.rs)        a redirect to the destination of a link: the router has none
//!      |
//!      v
//!  connection
//! ```
//!
//! The router stands apart because of what it costs: it clones the route and boxes the body, the state and each future,
//! some twenty allocations. It never follows a link: what is no code here is none there, and it has no route for links with
//! arguments. The ways differ in nothing else; a test sends the same requests along both.

use std::{mem, pin::pin};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::State,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header::CONTENT_LENGTH};
use shortener_common::server::{Client, Handler, Request};

use crate::{
    clicks::Visit,
    observe::{Head, RequestLifecycle},
    redirect::{Target, follow},
    route::{JOBS, Route},
    routes::jobs::enqueue,
    state::AppState,
};

/// The number of fields up to which the memory of a request's header is used for its response. The connection keeps it
/// afterwards, so it has to be small.
const FEW: usize = 24;

/// The public port: answers redirects and accepts jobs by itself, and leaves everything else to the router.
#[derive(Clone)]
pub struct Shortcut {
    state: AppState,
    router: Router,
}

impl Shortcut {
    /// Returns the shortcut before this router.
    pub fn new(state: AppState, router: Router) -> Self {
        Self { state, router }
    }

    async fn enqueue(&self, request: Request, client: &Client) -> Response {
        let mut request = client.with_body(request);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let head = Head {
            route: Route::JOBS,
            method: &method,
            uri: &uri,
            client,
        };
        let lifecycle = RequestLifecycle::begin(&self.state, head, request.headers());
        lifecycle.describe(request.extensions_mut());
        let handler = enqueue(State(self.state.clone()), request);
        let handler = handler.map(IntoResponse::into_response);
        lifecycle.answer(pin!(handler)).await
    }
}

impl Handler for Shortcut {
    async fn answer(&self, request: Request, client: &Client) -> Response {
        if request.method() == Method::POST && request.uri().path() == JOBS {
            // In a box, so that the future of a redirect does not contain that of a job.
            return Box::pin(self.enqueue(request, client)).await;
        }
        // The body is dropped last, as in the router.
        let (mut head, body) = request.into_parts();
        let Some(target) = target_of(&head.method, &head.uri) else {
            let request = Request::from_parts(head, body);
            // In a box, so that the future of a redirect does not contain that of the router.
            return Box::pin(self.router.answer(request, client)).await;
        };
        let known = Head {
            route: match target.arguments {
                Some(_) => Route::WITH_ARGUMENTS,
                None => Route::REDIRECT,
            },
            method: &head.method,
            uri: &head.uri,
            client,
        };
        let lifecycle = RequestLifecycle::begin(&self.state, known, &head.headers);
        let clicks = self.state.clicks.as_ref();
        let visit = clicks.and_then(|_| Visit::of(&head.method, &head.headers));
        let fields = emptied(mem::take(&mut head.headers));
        let mut is_live = false;
        let handler = async {
            match follow(&self.state, target, head.uri.query(), fields).await {
                Ok(followed) => {
                    is_live = followed.is_live;
                    followed.response
                }
                Err(error) => error.into_response(),
            }
        };
        // Each step on its way would otherwise keep a handler of its own size, twice.
        let response = lifecycle.answer(pin!(handler)).await;
        // The limit of all replicas may have replaced what the handler returned.
        let is_followed = is_live && response.status() == StatusCode::FOUND;
        if let (true, Some(clicks), Some(visit)) = (is_followed, clicks, visit) {
            clicks.count(target.code, &visit);
        }
        if head.method == Method::HEAD {
            return without_body(response);
        }
        response
    }
}

/// Returns the link that a request follows. `None` says nothing but that the router has to decide.
fn target_of<'a>(method: &Method, uri: &'a Uri) -> Option<Target<'a>> {
    let follows = matches!(*method, Method::GET | Method::HEAD);
    Target::of(uri.path()).filter(|_| follows)
}

/// Returns a map without fields, with the memory of this one if it is little.
fn emptied(mut fields: HeaderMap) -> HeaderMap {
    if fields.capacity() > FEW {
        return HeaderMap::new();
    }
    fields.clear();
    fields
}

/// Removes the body of a response to HEAD, and leaves its length, as the router does. The connection adds the length of
/// other responses.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        let fields = response.headers_mut();
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::RESERVED;

    fn code(method: &Method, target: &str) -> Option<String> {
        let uri = target.parse().unwrap();
        target_of(method, &uri).map(|target| target.code.as_str().to_owned())
    }

    #[test]
    fn only_a_plausible_code_is_followed_past_the_router() {
        for target in ["/k7Qm2xB", "/k7Qm2xB?a=b/c", "http://host/k7Qm2xB"] {
            for method in [Method::GET, Method::HEAD] {
                assert_eq!(code(&method, target).as_deref(), Some("k7Qm2xB"));
            }
            for method in [Method::POST, Method::OPTIONS, Method::DELETE] {
                assert_eq!(code(&method, target), None, "{method}");
            }
        }
        for (target, arguments) in [
            ("/a", None),
            ("/a/", Some("")),
            ("/a/b//c+?d", Some("b//c+")),
        ] {
            let uri = target.parse().unwrap();
            let found = target_of(&Method::GET, &uri).unwrap();
            assert_eq!((found.code.as_str(), found.arguments), ("a", arguments));
        }
        for target in ["/", "/a+", "//a", "/%61", "/a.b", "/a.b/c", "*", "host:80"] {
            assert_eq!(code(&Method::GET, target), None, "{target}");
        }
    }

    #[test]
    fn no_route_of_the_router_is_taken_for_a_code() {
        for reserved in RESERVED {
            for target in [format!("/{reserved}"), format!("/{reserved}/a")] {
                assert_eq!(code(&Method::GET, &target), None, "{target}");
            }
        }
    }

    #[test]
    fn the_memory_of_a_small_header_is_used_again() {
        let mut fields = HeaderMap::new();
        fields.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let capacity = fields.capacity();
        let fields = emptied(fields);
        assert!(fields.is_empty() && fields.capacity() == capacity);
        assert_eq!(emptied(HeaderMap::with_capacity(2 * FEW)).capacity(), 0);
    }
}
