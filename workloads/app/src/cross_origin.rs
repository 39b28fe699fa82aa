//! The check that a change by management does not come from a page of another origin.
//!
//! Such a page cannot send a key, because no preflight allows it to. The check is for what a browser adds by itself, such as
//! the cookie of a proxy before the gateway. It is that of Go's `CrossOriginProtection`.
//!
//! <https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header>

use http::{
    HeaderMap, HeaderName, Method,
    header::{HOST, ORIGIN},
};
use url::Url;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns true if a browser sends the request for a page of another origin. Programs send neither header. A browser without
/// `Sec-Fetch-Site` sends `Origin` with every request that is not safe.
pub fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    if method.is_safe() {
        return false;
    }
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return false;
    };
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| Url::parse(origin).ok());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    !origin
        .zip(host)
        .is_some_and(|(origin, host)| is_at(&origin, host))
}

/// Returns true if a page of this origin has the host of the request. The gateway may end TLS, so the scheme of the request is
/// unknown.
fn is_at(origin: &Url, host: &str) -> bool {
    let own = Url::parse(&format!("{}://{host}", origin.scheme()));
    let place = |url: &Url| {
        (
            url.host_str().map(str::to_owned),
            url.port_or_known_default(),
        )
    };
    origin.has_host() && own.is_ok_and(|own| place(&own) == place(origin))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn foreign(method: &Method, fields: &[(HeaderName, &'static str)]) -> bool {
        let fields = fields.iter().cloned();
        let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
        is_foreign(method, &fields.collect())
    }

    #[test]
    fn only_pages_of_the_same_origin_and_programs_may_change_something() {
        let host = (HOST, "go.example.com:8443");
        for (fields, expected) in [
            (vec![], false),
            (vec![(SEC_FETCH_SITE, "same-origin")], false),
            (vec![(SEC_FETCH_SITE, "none")], false),
            (vec![(SEC_FETCH_SITE, "same-site")], true),
            (vec![(SEC_FETCH_SITE, "cross-site")], true),
            (vec![(SEC_FETCH_SITE, "")], true),
            // The browser knows better than the text of an origin.
            (
                vec![
                    (SEC_FETCH_SITE, "same-origin"),
                    (ORIGIN, "https://evil.example"),
                ],
                false,
            ),
            (
                vec![
                    (SEC_FETCH_SITE, "cross-site"),
                    (ORIGIN, "https://go.example.com:8443"),
                ],
                true,
            ),
            (vec![(ORIGIN, "https://go.example.com:8443")], false),
            (vec![(ORIGIN, "https://GO.example.com:8443")], false),
            (vec![(ORIGIN, "https://go.example.com")], true),
            (vec![(ORIGIN, "data:go.example.com:8443")], true),
            (vec![(ORIGIN, "https://evil.example")], true),
            (vec![(ORIGIN, "null")], true),
            (vec![(ORIGIN, "")], true),
        ] {
            let mut all = vec![host.clone()];
            all.extend(fields.clone());
            for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
                assert_eq!(foreign(&method, &all), expected, "{method} {fields:?}");
            }
            for method in [Method::GET, Method::HEAD] {
                assert!(!foreign(&method, &all), "{method} {fields:?}");
            }
        }
        assert!(foreign(
            &Method::POST,
            &[(ORIGIN, "https://go.example.com")]
        ));
    }
}
