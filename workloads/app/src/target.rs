//! Rules for destination URLs. A URL is checked and stored as given; it is never rewritten and never fetched.

use url::{Host, Url};

/// The maximum length of a destination in bytes.
pub const MAX_BYTES: usize = 2048;
/// The maximum length of a destination as a URI, in which one byte can become three.
pub const MAX_LOCATION: usize = 8 * 1024;

/// The reason why a text is not a valid destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is longer than [`MAX_BYTES`].
    #[error("must be at most 2048 bytes long")]
    TooLong,
    /// The text does not begin with one of the two schemes, in lower case.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// White space, a backslash, a control character or a bidirectional formatting character.
    #[error(
        "must not contain white space, a backslash, a control character or a bidirectional formatting character"
    )]
    Character,
    /// The URL has a user name or a password.
    #[error("must not contain a user name or a password")]
    UserInfo,
    /// There is no host, or no URL parser accepts it.
    #[error("must name a valid host")]
    Host,
    /// The destination is this service itself, which could form a loop.
    #[error("must not point to this service itself")]
    OwnHost,
}

/// The address of this service, for rejecting links to itself.
#[derive(Clone, Debug)]
pub struct OwnAddress {
    host: Option<Host<String>>,
    port: Option<u16>,
}

impl From<&Url> for OwnAddress {
    fn from(public_url: &Url) -> Self {
        Self {
            host: public_url.host().map(|host| canonical(&host)),
            port: public_url.port_or_known_default(),
        }
    }
}

impl OwnAddress {
    /// Returns the address of a host that serves HTTP and HTTPS at their ports.
    pub fn of_host(host: &str) -> Self {
        let host = Host::parse(host).ok();
        Self {
            host: host.map(|host| canonical(&borrowed(&host))),
            port: Some(443),
        }
    }

    /// Returns true for the host of this address, however it is written.
    pub fn names(&self, host: &str) -> bool {
        let host = Host::parse(host).map(|host| canonical(&borrowed(&host)));
        host.is_ok_and(|host| Some(host) == self.host)
    }

    /// Returns true if the URL points to this service. Ports 80 and 443 of one host count as one service, because
    /// one usually redirects to the other.
    fn is(&self, url: &Url) -> bool {
        let well_known = |port: Option<u16>| matches!(port, Some(80 | 443));
        let port = url.port_or_known_default();
        url.host().map(|host| canonical(&host)) == self.host
            && (port == self.port || well_known(port) && well_known(self.port))
    }
}

/// Returns the host without a final dot, which names the same host. Host names are already lower case and without
/// percent-encoding.
pub fn canonical(host: &Host<&str>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned()),
        Host::Ipv4(address) => Host::Ipv4(*address),
        Host::Ipv6(address) => Host::Ipv6(*address),
    }
}

/// Checks a destination of a service with these addresses.
///
/// # Errors
/// Returns the first rule that the text violates.
pub fn check(text: &str, own: &[OwnAddress]) -> Result<Url, TargetError> {
    let url = parse(text)?;
    if own.iter().any(|own| own.is(&url)) {
        return Err(TargetError::OwnHost);
    }
    Ok(url)
}

/// Returns the host of a destination: ASCII, in lower case, without a dot at the end; `None` if no URL parser accepts it.
pub fn host(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    Some(canonical(&url.host()?).to_string())
}

/// Returns the host as [`host`] writes it, in whatever way it is written; `None` if it is none.
pub fn canonical_host(host: &str) -> Option<String> {
    let host = Host::parse(host).ok()?;
    Some(canonical(&borrowed(&host)).to_string())
}

fn borrowed(host: &Host<String>) -> Host<&str> {
    match host {
        Host::Domain(name) => Host::Domain(name.as_str()),
        Host::Ipv4(address) => Host::Ipv4(*address),
        Host::Ipv6(address) => Host::Ipv6(*address),
    }
}

/// Checks the text alone. Unlike the address of the service, these rules hold for every stored link.
///
/// # Errors
/// Returns the first rule that the text violates.
pub fn parse(text: &str) -> Result<Url, TargetError> {
    if text.len() > MAX_BYTES {
        return Err(TargetError::TooLong);
    }
    parse_any(text)
}

/// Returns true if a text that is a destination or the URI of one passes the checks.
pub fn is_sound(text: &str) -> bool {
    text.len() <= MAX_LOCATION && parse_any(text).is_ok()
}

fn parse_any(text: &str) -> Result<Url, TargetError> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .ok_or(TargetError::Scheme)?;
    if text.chars().any(is_forbidden) {
        return Err(TargetError::Character);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(TargetError::UserInfo);
    }
    // The URL parser would skip an empty authority and use the next segment as the host.
    if authority.is_empty() {
        return Err(TargetError::Host);
    }
    Url::parse(text).map_err(|_| TargetError::Host)
}

/// Returns true for the form in which destinations are copied for redirects: a URI with one of the two schemes, and with a
/// host alone.
pub fn is_uri(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"https://");
    let Some(rest) = rest.or_else(|| text.strip_prefix(b"http://")) else {
        return false;
    };
    let end = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let authority = rest.split(end).next().unwrap_or_default();
    let is_host = !authority.is_empty() && !authority.contains(&b'@');
    is_host && text.len() <= MAX_LOCATION && rest.iter().copied().all(is_uri_byte)
}

/// Returns true for the bytes that occur in a URI: reserved and unreserved characters and the percent sign.
pub const fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(
            byte,
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
        )
}

/// Returns true for characters that could split a header, or that make an address look different from what it is.
fn is_forbidden(character: char) -> bool {
    let bidirectional = matches!(character, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_whitespace() || character.is_control() || character == '\\' || bidirectional
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn own(public_url: &str) -> OwnAddress {
        OwnAddress::from(&Url::parse(public_url).unwrap())
    }

    fn verdict(text: &str) -> Result<(), TargetError> {
        verdict_at("http://localhost:8080", text)
    }

    fn verdict_at(public_url: &str, text: &str) -> Result<(), TargetError> {
        check(text, &[own(public_url)]).map(drop)
    }

    #[test]
    fn ordinary_and_international_addresses_are_accepted() {
        for good in [
            "https://example.com/a?b=c",
            "http://example.com",
            "https://example.com:8443/#frag@ment",
            "https://bücher.example/straße?q=ü",
            "https://xn--bcher-kva.example/",
            "http://[2001:db8::1]:8080/x",
            "http://192.0.2.7/",
            "https://example.com/a@b",
            "https://example.com/%0d%0aSet-Cookie:%20a=b",
            "http://localhost:8081/",
        ] {
            assert_eq!(verdict(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn other_schemes_are_refused() {
        for bad in [
            "",
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://example.com",
            "HTTP://example.com",
            "//example.com",
            "example.com",
            " https://example.com",
            "https:/example.com",
            "\u{feff}https://example.com",
        ] {
            assert_eq!(verdict(bad), Err(TargetError::Scheme), "{bad:?}");
        }
    }

    #[test]
    fn characters_that_could_split_a_header_or_deceive_a_reader_are_refused() {
        for bad in [
            "\r\nSet-Cookie: a=b",
            "\n",
            "\0",
            "\t",
            " ",
            "\u{a0}",
            "\u{2028}",
            "\u{85}",
            "\\",
            "\u{202e}",
            "\u{200f}",
            "\u{2066}",
            "\u{7f}",
            "\u{1b}",
        ] {
            assert_eq!(
                verdict(&format!("https://example.com/{bad}x")),
                Err(TargetError::Character),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn user_information_is_refused() {
        for bad in [
            "https://a@example.com/",
            "https://a:b@example.com",
            "https://@example.com/",
            "https://example.com@evil.example",
        ] {
            assert_eq!(verdict(bad), Err(TargetError::UserInfo), "{bad}");
        }
    }

    #[test]
    fn a_host_is_needed() {
        for bad in [
            "https://",
            "https:///path",
            "http://?x",
            "http://#",
            "https://:80/",
            "https://exa<mple.com/",
            "http://[::1/",
            "http://a:99999/",
            "https:////example.com",
            "http://%00/",
        ] {
            assert_eq!(verdict(bad), Err(TargetError::Host), "{bad}");
        }
    }

    #[test]
    fn a_host_has_one_name_however_it_is_written() {
        for (url, written, expected) in [
            ("https://Example.COM./a", "EXAMPLE.com.", "example.com"),
            (
                "https://Bücher.example:8443",
                "bücher.example",
                "xn--bcher-kva.example",
            ),
            ("http://0x7f.1/", "127.0.0.1", "127.0.0.1"),
            ("http://[2001:DB8:0::1]/", "[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(host(url).as_deref(), Some(expected), "{url}");
            assert_eq!(canonical_host(written).as_deref(), Some(expected));
        }
        for none in ["", "a b", "a/b", "[::1", "%"] {
            assert_eq!(canonical_host(none), None, "{none:?}");
        }
        assert_eq!(host("https://"), None);
    }

    #[test]
    fn length_is_counted_in_bytes() {
        let prefix = "https://example.com/";
        assert_eq!(
            verdict(&format!("{prefix}{}", "a".repeat(MAX_BYTES - prefix.len()))),
            Ok(())
        );
        assert_eq!(
            verdict(&format!(
                "{prefix}{}",
                "a".repeat(MAX_BYTES - prefix.len() + 1)
            )),
            Err(TargetError::TooLong)
        );
        assert_eq!(
            verdict(&format!(
                "{prefix}{}",
                "ü".repeat((MAX_BYTES - prefix.len()) / 2 + 1)
            )),
            Err(TargetError::TooLong)
        );
    }

    #[test]
    fn a_uri_has_one_of_two_schemes_and_no_byte_that_no_uri_has() {
        for uri in [
            "https://example.com",
            "http://localhost:8081/",
            "https://a-b.example.com:443/a?b=c#d",
            "https://[::1]/%0d@:[]",
        ] {
            assert!(is_uri(uri.as_bytes()), "{uri}");
        }
        for other in [
            "",
            "example.com",
            "https://",
            "https:///x",
            "https://a@example.com/",
            "HTTPS://example.com/",
            "javascript:alert(1)",
            "https://b\u{fc}cher.example/",
            "https://example.com/\\",
            "https://example.com/ x",
            "https://example.com/\r\n",
            "https://example.com/{}",
            &format!("https://example.com/{}", "a".repeat(MAX_LOCATION)),
        ] {
            assert!(!is_uri(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn the_service_s_own_address_is_refused_however_it_is_written() {
        for (public_url, target) in [
            ("http://localhost:8080", "http://localhost:8080/abc"),
            ("http://localhost:8080", "https://LOCALHOST:8080"),
            ("http://localhost:8080", "http://localhost.:8080/"),
            ("https://sho.rt", "https://sho.rt/abc"),
            ("https://sho.rt", "http://sho.rt/abc"),
            ("https://sho.rt", "https://sho.rt:443"),
            ("https://sho.rt", "https://SHO%2ERT/"),
            ("https://bücher.example", "https://xn--bcher-kva.example/"),
            ("http://127.0.0.1:8080", "http://0x7f.1:8080/"),
            ("http://[::1]:8080", "http://[0:0::1]:8080/"),
        ] {
            assert_eq!(
                verdict_at(public_url, target),
                Err(TargetError::OwnHost),
                "{target}"
            );
        }
        assert_eq!(verdict_at("https://sho.rt", "https://sho.rt:8443/"), Ok(()));
        assert_eq!(verdict_at("https://sho.rt", "https://www.sho.rt/"), Ok(()));
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_one_intact_header_value(tail in "\\PC{0,80}|[ -~]{0,80}|(?s:.){0,40}") {
            let text = format!("https://example.com/{tail}");
            if verdict(&text).is_ok() {
                let value = HeaderValue::from_str(&text).or_else(|_| HeaderValue::from_bytes(text.as_bytes())).unwrap();
                prop_assert_eq!(value.as_bytes(), text.as_bytes());
                prop_assert!(!text.contains(['\r', '\n', '\0']));
            }
        }

        #[test]
        fn any_text_is_checked_without_a_panic(text in "(?s:.){0,60}", scheme in "https?://|") {
            let _ = verdict(&format!("{scheme}{text}"));
        }
    }
}
