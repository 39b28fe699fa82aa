//! The requests that are clicks.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{HeaderName as Name, USER_AGENT},
};

/// The fields by which a browser announces a request ahead of a click.
const ANNOUNCEMENTS: [HeaderName; 3] = [
    Name::from_static("sec-purpose"),
    Name::from_static("purpose"),
    Name::from_static("x-moz"),
];
/// The words for it. Others may follow, as in `prefetch;prerender`.
const AHEAD: [&[u8]; 2] = [b"prefetch", b"preview"];

/// A request that is a click if its answer is a redirect.
#[derive(Clone, Debug)]
pub struct Visit(Option<HeaderValue>);

impl Visit {
    /// Returns `None` for a request that is no click: one that is not a GET, or that a browser sends ahead of a click.
    pub fn of(method: &Method, headers: &HeaderMap) -> Option<Self> {
        if *method != Method::GET {
            return None;
        }
        let is_ahead = ANNOUNCEMENTS.iter().any(|name| {
            let mut values = headers.get_all(name).iter();
            values.any(announces)
        });
        (!is_ahead).then(|| Self(headers.get(USER_AGENT).cloned()))
    }

    /// Returns the user agent; empty if there is none.
    pub fn agent(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], HeaderValue::as_bytes)
    }
}

fn announces(value: &HeaderValue) -> bool {
    AHEAD.iter().any(|word| {
        let mut parts = value.as_bytes().windows(word.len());
        parts.any(|part| part.eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_get_that_no_browser_sends_ahead_is_a_click() {
        for (method, field, expected) in [
            (Method::GET, ("accept", "text/html"), true),
            (Method::HEAD, ("accept", "text/html"), false),
            (Method::GET, ("sec-purpose", "prefetch"), false),
            (Method::GET, ("sec-purpose", "prefetch;prerender"), false),
            (
                Method::GET,
                ("sec-purpose", "Prefetch;anonymous-client-ip"),
                false,
            ),
            (Method::GET, ("sec-purpose", "navigate"), true),
            (Method::GET, ("purpose", "prefetch"), false),
            (Method::GET, ("purpose", "preview"), false),
            (Method::GET, ("purpose", ""), true),
            (Method::GET, ("x-moz", "prefetch"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(field.0, HeaderValue::from_static(field.1));
            let visit = Visit::of(&method, &headers);
            assert_eq!(visit.is_some(), expected, "{method} {field:?}");
        }
    }

    #[test]
    fn every_line_of_a_field_counts() {
        let mut headers = HeaderMap::new();
        for value in ["navigate", "prefetch"] {
            headers.append("sec-purpose", HeaderValue::from_static(value));
        }
        assert!(Visit::of(&Method::GET, &headers).is_none());
    }

    #[test]
    fn a_visit_keeps_the_user_agent_alone() {
        let mut headers = HeaderMap::new();
        let of = |headers: &HeaderMap| Visit::of(&Method::GET, headers).unwrap().agent().to_owned();
        assert_eq!(of(&headers), b"");
        headers.insert(USER_AGENT, HeaderValue::from_static("curl/8"));
        assert_eq!(of(&headers), b"curl/8");
    }
}
