//! Answers to scripts of other origins: the CORS protocol of the Fetch standard.
//!
//! It stands before the check of keys, because a browser sends a preflight without one, and after the body of a
//! problem is written, because scripts should read errors too. Credentials of the browser are never allowed.
//!
//! <https://fetch.spec.whatwg.org/#http-cors-protocol>

use axum::response::{IntoResponse, Response};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
        ORIGIN, VARY,
    },
};
use url::Url;

use crate::route::Route;

/// The word for every origin.
pub const ANY: &str = "*";
/// The methods of the routes for scripts.
const METHODS: &str = "GET, POST, PUT, DELETE";
/// The fields that a request may have.
const FIELDS: &str =
    "authorization, content-type, idempotency-key, traceparent, tracestate, x-api-key";
/// The fields of a response that a script may read.
const EXPOSED: &str = "location, ratelimit, ratelimit-policy, retry-after";
/// The time in seconds for which a browser may remember the answer to a preflight.
const MAX_AGE: &str = "3600";

/// The origins whose scripts may use the API; none by default.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    origins: Vec<HeaderValue>,
    is_open: bool,
}

impl Cors {
    /// Returns the rules for these origins.
    pub fn of(origins: &[HeaderValue]) -> Self {
        Self {
            origins: origins.to_vec(),
            is_open: origins.iter().any(|origin| origin == ANY),
        }
    }

    /// Returns true if a request is a preflight for a script that may use the route.
    pub fn is_preflight(&self, route: Route, method: &Method, headers: &HeaderMap) -> bool {
        route.row().is_for_scripts()
            && *method == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && self.allowed(headers.get(ORIGIN)).is_some()
    }

    /// Adds to the response of a route for scripts what lets those of an allowed origin read it.
    pub fn permit(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        if !self.is_open {
            // A cache must not give the response for one origin to another.
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(allowed) = self.allowed(origin) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            let exposed = HeaderValue::from_static(EXPOSED);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }

    fn allowed(&self, origin: Option<&HeaderValue>) -> Option<HeaderValue> {
        let origin = origin?;
        if self.is_open {
            return Some(HeaderValue::from_static(ANY));
        }
        self.origins.iter().find(|known| *known == origin).cloned()
    }
}

/// Returns the answer to a preflight. [`Cors::permit`] adds the origin.
pub fn preflight() -> Response {
    let fields = [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, FIELDS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    (StatusCode::NO_CONTENT, fields).into_response()
}

/// Parses an origin as a browser writes it, or `*`.
///
/// # Errors
/// Fails if the text is anything else, because no browser would ever send it.
pub fn origin(text: &str) -> Result<HeaderValue, String> {
    let url = text.parse::<Url>().ok();
    // A host may contain `*`, but that would not stand for anything.
    let origin = url.filter(|url| matches!(url.scheme(), "http" | "https") && !text.contains(ANY));
    let is_origin = origin.is_some_and(|url| url.origin().ascii_serialization() == text);
    let value = HeaderValue::from_str(text).ok();
    value.filter(|_| is_origin || text == ANY).ok_or_else(|| {
        "must be * or an origin like https://app.example.com, without a path and without a default port"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "https://app.example.com";

    fn cors(origins: &[&str]) -> Cors {
        let origins: Vec<_> = origins.iter().map(|text| origin(text).unwrap()).collect();
        Cors::of(&origins)
    }

    fn permitted(cors: &Cors, from: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        cors.permit(Some(&HeaderValue::from_str(from).unwrap()), &mut headers);
        headers
    }

    fn is_preflight(cors: &Cors, template: &str, method: &Method, from: &str) -> bool {
        let headers = [
            (ORIGIN, HeaderValue::from_str(from).unwrap()),
            (
                ACCESS_CONTROL_REQUEST_METHOD,
                HeaderValue::from_static("POST"),
            ),
        ];
        let headers = HeaderMap::from_iter(headers);
        cors.is_preflight(Route::from_template(Some(template)), method, &headers)
    }

    #[test]
    fn only_what_a_browser_sends_is_an_origin() {
        for good in [
            "*",
            APP,
            "http://localhost:3000",
            "https://a.b:8443",
            "http://[::1]:8080",
        ] {
            assert!(origin(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "null",
            "app.example.com",
            "https://app.example.com/",
            "https://app.example.com:443",
            "https://App.example.com",
            "https://me@app.example.com",
            "https://*.example.com",
            "ftp://app.example.com",
            "https://a.example.com https://b.example.com",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn scripts_of_an_allowed_origin_may_read_answers_and_others_may_not() {
        let cors = cors(&["https://other.example.com", APP]);
        let headers = permitted(&cors, APP);
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], APP);
        assert_eq!(headers[VARY], "origin");
        assert!(!headers.contains_key("access-control-allow-credentials"));
        for other in [
            "https://evil.example",
            "null",
            "https://app.example.com.evil.example",
        ] {
            let headers = permitted(&cors, other);
            assert!(
                !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN),
                "{other}"
            );
            assert_eq!(headers[VARY], "origin");
        }
        let mut headers = HeaderMap::new();
        cors.permit(None, &mut headers);
        assert_eq!(headers.len(), 1, "{headers:?}");
    }

    #[test]
    fn a_service_for_every_origin_answers_all_of_them_alike() {
        let headers = permitted(&cors(&["*"]), APP);
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(!headers.contains_key(VARY));
    }

    #[test]
    fn without_origins_no_answer_changes() {
        let cors = Cors::default();
        assert!(permitted(&cors, APP).is_empty());
        assert!(!is_preflight(&cors, "/shorten", &Method::OPTIONS, APP));
    }

    #[test]
    fn a_preflight_is_answered_on_the_routes_for_scripts_only() {
        let cors = cors(&[APP]);
        for template in [
            "/shorten",
            "/jobs",
            "/jobs/{id}",
            "/docs/{id}",
            "/docs/query",
        ] {
            assert!(
                is_preflight(&cors, template, &Method::OPTIONS, APP),
                "{template}"
            );
        }
        for template in ["unmatched", "/{code}", "/metrics", "/health"] {
            assert!(
                !is_preflight(&cors, template, &Method::OPTIONS, APP),
                "{template}"
            );
        }
        assert!(!is_preflight(&cors, "/shorten", &Method::POST, APP));
        assert!(!is_preflight(
            &cors,
            "/shorten",
            &Method::OPTIONS,
            "https://evil.example"
        ));
    }

    #[test]
    fn a_script_may_send_a_key_and_json() {
        let response = preflight();
        assert_eq!(response.status(), 204);
        let fields = &response.headers()[ACCESS_CONTROL_ALLOW_HEADERS];
        for field in ["authorization", "x-api-key", "content-type"] {
            assert!(fields.to_str().unwrap().contains(field), "{field}");
        }
    }
}
