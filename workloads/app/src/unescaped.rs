//! Paths with escapes of unreserved characters: `/%71abc` is the path `/qabc` (RFC 9110, section 4.2.3, and RFC 3986,
//! section 6.2.2.2).
//!
//! They are decoded once, before anything looks at the path. Nothing else is ever decoded: `%2F`, `%0a` and `%25` stay.

use axum::response::Response;
use http::{Uri, uri::PathAndQuery};
use shortener_common::server::{Client, Handler, Request};

/// A handler that gets every path without escapes of unreserved characters.
#[derive(Clone)]
pub struct Unescaped<H>(pub H);

impl<H: Handler> Handler for Unescaped<H> {
    fn answer(
        &self,
        mut request: Request,
        client: &Client,
    ) -> impl Future<Output = Response> + Send {
        if let Some(uri) = unescaped(request.uri()) {
            *request.uri_mut() = uri;
        }
        self.0.answer(request, client)
    }
}

/// Returns the URI with a decoded path; `None` if there is nothing to decode.
fn unescaped(uri: &Uri) -> Option<Uri> {
    let mut target = decoded(uri.path())?;
    if let Some(query) = uri.query() {
        target.push('?');
        target.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::from_maybe_shared(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the path without escapes of unreserved characters; `None` if it has none.
fn decoded(path: &str) -> Option<String> {
    let (before, mut rest) = path.split_once('%')?;
    let mut decoded = before.to_owned();
    loop {
        match rest.get(..2).and_then(unreserved) {
            Some(character) => {
                decoded.push(character);
                rest = &rest[2..];
            }
            None => decoded.push('%'),
        }
        let Some((before, after)) = rest.split_once('%') else {
            break;
        };
        decoded.push_str(before);
        rest = after;
    }
    decoded.push_str(rest);
    (decoded.len() < path.len()).then_some(decoded)
}

/// Returns the unreserved character (RFC 3986, section 2.3) of two hexadecimal digits, if they are those of one.
fn unreserved(digits: &str) -> Option<char> {
    let character = char::from(u8::from_str_radix(digits, 16).ok()?);
    let is_unreserved =
        character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~');
    is_unreserved.then_some(character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unreserved_characters_are_decoded_once_and_nothing_else() {
        for (path, expected) in [
            ("/%71abc", "/qabc"),
            ("/q%61b%63", "/qabc"),
            ("/%4a%4A%2D%2e%5f%7E%30", "/JJ-._~0"),
            ("/%2571", "/%2571"),
            (
                "/%2F%2f%0a%0A%00%20%25%3f%23%5c%2B%C3%A9",
                "/%2F%2f%0a%0A%00%20%25%3f%23%5c%2B%C3%A9",
            ),
            ("/%", "/%"),
            ("/%7", "/%7"),
            ("/%7g%+1%g1%7\u{fc}", "/%7g%+1%g1%7\u{fc}"),
            ("/%2571%71", "/%2571q"),
            ("/abc", "/abc"),
        ] {
            let found = decoded(path);
            assert_eq!(found.as_deref().unwrap_or(path), expected, "{path}");
            assert_eq!(found.is_some(), path != expected, "{path}");
        }
    }

    #[test]
    fn the_rest_of_a_uri_stays() {
        for (uri, expected) in [
            ("/%71?%71=%2F", "/q?%71=%2F"),
            ("http://host:80/%71?", "http://host:80/q?"),
        ] {
            assert_eq!(unescaped(&uri.parse().unwrap()).unwrap(), expected);
        }
        for uri in ["/q?%71", "*", "host:80"] {
            assert_eq!(unescaped(&uri.parse().unwrap()), None, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn no_path_gains_a_segment_or_a_character_that_is_reserved(
            path in "/([a-z/]|%[0-9a-fA-F]{2}|%|\\PC){0,20}",
        ) {
            let decoded = decoded(&path).unwrap_or_else(|| path.clone());
            for reserved in "/?#%;+\\\0\n\r ".chars() {
                let number = |text: &str| text.matches(reserved).count();
                prop_assert!(number(&decoded) <= number(&path), "{:?}", reserved);
            }
        }
    }
}
