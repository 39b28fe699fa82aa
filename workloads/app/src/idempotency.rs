//! The header `Idempotency-Key`, which makes repeated requests one.
//!
//! <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>

use http::{HeaderMap, HeaderName, Request};

use crate::{auth, error::Error, limits::LimitedClient};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The maximum length of a key in bytes.
const MAX_KEY: usize = 255;

/// Returns the idempotency key of a request behind the name of its sender: the client whose API key it has, and
/// without one the network that shares a rate limit. Senders therefore do not meet each other's keys. A space never
/// occurs in a name or a key, and no client has the name of a network.
///
/// # Errors
/// Returns [`Error::InvalidFields`] if the header is repeated or its value is unusable.
pub fn idempotency_key<B>(request: &Request<B>) -> Result<Option<String>, Error> {
    let Some(key) = bare(request.headers())? else {
        return Ok(None);
    };
    let network: Option<&LimitedClient> = request.extensions().get();
    match (auth::client_of(request), network) {
        (Some(client), _) => Ok(Some(format!("{client} {key}"))),
        (None, Some(network)) => Ok(Some(format!("{network} {key}"))),
        (None, None) => Err(Error::Internal("a request without a sender".to_owned())),
    }
}

/// Parses the key: a structured string `"..."`, or a bare one, as most clients send it.
fn bare(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    let bare = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(text);
    let plain = bare
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'"');
    if bare.is_empty() || bare.len() > MAX_KEY || !plain || values.next().is_some() {
        let rule = format!("must be one value of 1 to {MAX_KEY} visible ASCII characters");
        return Err(Error::invalid("Idempotency-Key", rule));
    }
    Ok(Some(bare))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn request(values: &[&str]) -> Request<()> {
        let mut request = Request::new(());
        for value in values {
            let headers = request.headers_mut();
            headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
        }
        request
    }

    #[test]
    fn a_key_may_be_quoted_or_bare() {
        assert_eq!(idempotency_key(&request(&[])).unwrap(), None);
        for text in ["8e03978e-40d5", "\"8e03978e-40d5\"", " 8e03978e-40d5 "] {
            let request = request(&[text]);
            assert_eq!(bare(request.headers()).unwrap(), Some("8e03978e-40d5"));
        }
    }

    #[test]
    fn a_key_without_a_client_belongs_to_the_network_that_sends_it() {
        for (address, expected) in [
            ("203.0.113.9", "203.0.113.9 1"),
            ("::ffff:203.0.113.9", "203.0.113.9 1"),
            ("2001:db8::7:1", "2001:db8::/64 1"),
        ] {
            let mut request = request(&["1"]);
            let address: IpAddr = address.parse().unwrap();
            request
                .extensions_mut()
                .insert(LimitedClient::from(address));
            assert_eq!(idempotency_key(&request).unwrap().unwrap(), expected);
        }
    }

    #[test]
    fn an_unusable_key_is_refused_and_not_ignored() {
        let long = "x".repeat(256);
        for values in [
            &[""][..],
            &["\"\""],
            &["a b"],
            &["a\"b"],
            &["\u{e9}"],
            &[long.as_str()],
            &["a", "b"],
        ] {
            let refused = idempotency_key(&request(values));
            assert!(
                matches!(refused, Err(Error::InvalidFields(_))),
                "{values:?}"
            );
        }
        assert!(bare(request(&[&long[1..]]).headers()).is_ok());
    }
}
