//! The form of a destination in the header `Location`, which is a URI reference and therefore ASCII (RFC 9110 section
//! 10.2.2, RFC 3986). A destination is stored as given, and only the copies for redirects have this form.

use std::{borrow::Cow, fmt::Write};

use url::Url;

use crate::target::{self, is_uri_byte};

/// Returns the destination as a URI. Most destinations are returned as they are. In others a host with characters
/// outside ASCII becomes its A-label, and the bytes that no URI contains are percent-encoded.
pub fn ascii(url: &str) -> Cow<'_, str> {
    if url.bytes().all(is_uri_byte) {
        return Cow::Borrowed(url);
    }
    let Some((before, host, after)) = parts(url) else {
        return Cow::Owned(encoded(url));
    };
    // Percent-encoding is not enough in a host: not every client decodes it before it asks for the address.
    let international = match host.is_ascii() {
        true => None,
        false => Url::parse(url).ok(),
    };
    // An A-label keeps the ASCII characters of its name, and not each of them may stand in a URI.
    let host = international
        .as_ref()
        .and_then(Url::host_str)
        .unwrap_or(host);
    Cow::Owned([encoded(before), encoded(host), encoded(after)].concat())
}

/// Returns a URI with a query behind its own and before its fragment, or `None` if it would be longer than
/// [`target::MAX_LOCATION`]. Scheme, authority and path stay the same.
pub fn with_query(uri: &[u8], query: &str) -> Option<Vec<u8>> {
    let is_fragment = |byte: &u8| *byte == b'#';
    let end = uri.iter().position(is_fragment).unwrap_or(uri.len());
    let (before, fragment) = uri.split_at(end);
    let separator = match before {
        [.., b'?' | b'&'] if before.contains(&b'?') => "",
        _ if before.contains(&b'?') => "&",
        _ => "?",
    };
    // A number sign would begin the fragment; HTTP clients send none.
    let query = encoded(query).replace('#', "%23");
    let whole = [before, separator.as_bytes(), query.as_bytes(), fragment].concat();
    (whole.len() <= target::MAX_LOCATION).then_some(whole)
}

/// Splits a URL before and behind its host: `("https://", "example.com", ":8443/path")`.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let begin = url.find("://")? + "://".len();
    let rest = &url[begin..];
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // The colons of an IPv6 address stand in brackets.
    let inside = rest[..authority].rfind(']').unwrap_or(0);
    let end = rest[inside..authority]
        .find(':')
        .map_or(authority, |colon| inside + colon);
    Some((&url[..begin], &rest[..end], &rest[end..]))
}

/// Percent-encodes the bytes that RFC 3986 allows nowhere. What is encoded already stays as it is.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_uri_byte(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_a_uri_already_stays_byte_for_byte() {
        for url in [
            "https://example.com",
            "https://EXAMPLE.com:443/./a/../b?c=%7b#d",
            "https://example.com/%C3%BC?q=[1]'()*,;:@!$&+=~",
            "http://[2001:db8::1]:8080/x",
            "http://0x7f.1/",
            "https://xn--bcher-kva.example/",
            "https://example.com/a#b#c",
        ] {
            assert_eq!(ascii(url), url);
        }
    }

    #[test]
    fn everything_else_becomes_one() {
        for (url, expected) in [
            (
                "https://bücher.example/straße?q=ü#ß",
                "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC#%C3%9F",
            ),
            (
                "https://bücher.example:8443",
                "https://xn--bcher-kva.example:8443",
            ),
            (
                "https://example.com/'\"<>`{}|^",
                "https://example.com/'%22%3C%3E%60%7B%7D%7C%5E",
            ),
            ("https://`ü.example", "https://xn--%60-eha.example"),
            ("http://[::1]:80/\u{1f980}", "http://[::1]:80/%F0%9F%A6%80"),
            (
                "https://例え.テスト?ü",
                "https://xn--r8jz45g.xn--zckzah?%C3%BC",
            ),
        ] {
            assert_eq!(ascii(url), expected);
        }
    }

    #[test]
    fn a_query_goes_between_the_own_one_and_the_fragment() {
        for (uri, query, expected) in [
            ("https://a.example", "x=1", "https://a.example?x=1"),
            ("https://a.example/", "x=1&y", "https://a.example/?x=1&y"),
            ("https://a.example/b&", "x=1", "https://a.example/b&?x=1"),
            (
                "https://a.example/?b=c",
                "x=1",
                "https://a.example/?b=c&x=1",
            ),
            ("https://a.example/?", "x=1", "https://a.example/?x=1"),
            ("https://a.example/?b&", "x=1", "https://a.example/?b&x=1"),
            (
                "https://a.example/#f?g",
                "x=1",
                "https://a.example/?x=1#f?g",
            ),
            (
                "https://a.example/?b#f",
                "x=1",
                "https://a.example/?b&x=1#f",
            ),
            (
                "https://a.example/",
                "q=ü\"<",
                "https://a.example/?q=%C3%BC%22%3C",
            ),
            (
                "https://a.example/",
                "q=%C3%BC",
                "https://a.example/?q=%C3%BC",
            ),
        ] {
            let found = with_query(uri.as_bytes(), query).unwrap();
            assert_eq!(str::from_utf8(&found), Ok(expected));
        }
        let room = target::MAX_LOCATION - "https://a.example/?".len();
        let longest = "x".repeat(room);
        assert!(with_query(b"https://a.example/", &longest).is_some());
        assert!(with_query(b"https://a.example/", &format!("{longest}x")).is_none());
    }

    /// Decodes every percent-encoded byte.
    fn decoded(text: &str) -> Vec<u8> {
        let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
        while let Some((first, after)) = rest.split_first() {
            let digits = after.get(..2).and_then(|two| str::from_utf8(two).ok());
            let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
            match byte {
                Some(byte) if *first == b'%' => {
                    decoded.push(byte);
                    rest = &after[2..];
                }
                _ => {
                    decoded.push(*first);
                    rest = after;
                }
            }
        }
        decoded
    }

    proptest! {
        #[test]
        fn the_uri_leads_to_the_same_place(
            host in "[a-z]{1,8}\\.example|[äöüéß]{1,8}\\.example|b[üa]{1,4}\\.de|\\[::1\\]",
            port in "|:[1-9][0-9]{0,3}",
            tail in "|[/?#]\\PC{0,60}|[/?#][!-~]{0,60}",
        ) {
            let url = format!("https://{host}{port}{tail}");
            let Ok(given) = target::parse(&url) else { return Ok(()) };
            let location = ascii(&url).into_owned();
            prop_assert!(location.bytes().all(is_uri_byte), "{}", location);
            prop_assert!(HeaderValue::from_str(&location).is_ok());
            let read = Url::parse(&location).unwrap();
            prop_assert_eq!(read.host(), given.host());
            prop_assert_eq!(read.port(), given.port());
            // A parser encodes fewer characters in a query than in a path.
            prop_assert_eq!(decoded(read.path()), decoded(given.path()));
            let query = |url: &Url| url.query().map(decoded);
            prop_assert_eq!(query(&read), query(&given));
            let fragment = |url: &Url| url.fragment().map(decoded);
            prop_assert_eq!(fragment(&read), fragment(&given));
            prop_assert_eq!(&*ascii(&location), location.as_str(), "once is enough");
        }

        #[test]
        fn a_query_changes_nothing_but_the_query(
            tail in "|[/?#][!-~]{0,40}",
            query in "\\PC{1,40}|[!-~]{1,40}|(//|@|:|#|\\?|\\\\|evil\\.example){1,6}",
        ) {
            let url = format!("https://example.com{tail}");
            if target::parse(&url).is_err() {
                return Ok(());
            }
            let uri = ascii(&url).into_owned();
            let forwarded = with_query(uri.as_bytes(), &query).unwrap();
            let forwarded = String::from_utf8(forwarded).unwrap();
            prop_assert!(forwarded.bytes().all(is_uri_byte), "{}", forwarded);
            let (before, after) = (Url::parse(&uri).unwrap(), Url::parse(&forwarded).unwrap());
            prop_assert_eq!(after.origin(), before.origin());
            prop_assert_eq!(after.path(), before.path());
            prop_assert_eq!(after.fragment(), before.fragment());
            let own = before.query().unwrap_or_default();
            prop_assert!(after.query().unwrap().starts_with(own), "{}", forwarded);
        }

        #[test]
        fn any_text_becomes_a_header_value(text in "(?s:.){0,80}", scheme in "https?://|") {
            let url = format!("{scheme}{text}");
            prop_assert!(HeaderValue::from_str(&ascii(&url)).is_ok());
        }
    }
}
