//! Reading a JSON object from a request, with limits on size and time.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::Request,
};
use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::error::Error;

/// The deadline of the response to a request; set by [`crate::observe`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// Start of the time limit.
    pub start: Instant,
    /// The time limit.
    pub budget: Duration,
}

impl Deadline {
    /// Returns the time at which the limit ends.
    #[must_use]
    pub fn end(self) -> Instant {
        self.start + self.budget
    }

    /// Returns the deadline of the body. It is a little earlier, so that there is time left to process the body.
    fn of_body(self) -> Instant {
        self.start + self.budget.mul_f64(0.9)
    }
}

/// Reads a body of at most `limit` bytes that must contain a JSON object.
///
/// # Errors
/// Fails if the media type is not JSON, or if the body is too large, too slow or not a JSON object.
pub async fn json_object(request: Request, limit: usize) -> Result<Map<String, Value>, Error> {
    let text = json_text(request, limit).await?;
    parse_object(&text)
}

/// Reads a body of at most `limit` bytes that says that it is JSON, and does not parse it.
///
/// # Errors
/// Fails if the media type is not JSON, or if the body is too large or too slow.
pub async fn json_text(request: Request, limit: usize) -> Result<Bytes, Error> {
    if !is_plain_json(request.headers()) {
        return Err(Error::UnsupportedMediaType);
    }
    read(request, limit).await
}

/// Reads a body of at most `limit` bytes.
async fn read(request: Request, limit: usize) -> Result<Bytes, Error> {
    if announced_length(request.headers()).is_some_and(|length| length > limit as u64) {
        return Err(Error::BodyTooLarge(limit));
    }
    let deadline = request.extensions().get::<Deadline>().copied();
    let collect = Limited::new(request.into_body(), limit).collect();
    let collected = match deadline {
        Some(deadline) => timeout_at(deadline.of_body(), collect)
            .await
            .map_err(|_| Error::RequestTimeout)?,
        None => collect.await,
    };
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::BodyTooLarge(limit)
            } else {
                Error::MalformedJson("The request body is incomplete.".to_owned())
            }
        })
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns true for `application/json` with any parameters and without compression.
fn is_plain_json(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &http::HeaderValue| value.to_str().unwrap_or("?"))
    };
    let is_json = text(CONTENT_TYPE).is_some_and(|value| {
        value
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("application/json")
    });
    is_json
        && text(CONTENT_ENCODING)
            .is_none_or(|encoding| encoding.trim().eq_ignore_ascii_case("identity"))
}

/// Parses a JSON object. The parser limits nesting, so that no input can exhaust the stack.
///
/// # Errors
/// Fails if the bytes are not JSON, or if they are not an object.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    serde_json::from_slice(bytes).map_err(malformed)
}

/// Returns the error for a body of which a JSON object could not be read.
#[must_use]
pub fn malformed(error: serde_json::Error) -> Error {
    Error::MalformedJson(if error.is_data() {
        "The body must be a JSON object.".to_owned()
    } else {
        format!("The body is not valid JSON: {error}.")
    })
}

/// Returns the fields of an object that `T` names; others are ignored.
///
/// # Errors
/// Fails if a field has a type that `T` does not accept.
pub fn fields<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, Error> {
    T::deserialize(object).map_err(|error| {
        Error::MalformedJson(format!("The body has a field of another type: {error}."))
    })
}

/// Reads a body to its end and drops it.
///
/// # Errors
/// Returns the errors of [`json_object`] for size and time.
pub async fn discard(request: Request<Body>, limit: usize) -> Result<(), Error> {
    read(request, limit).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(http::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_plain_json_is_accepted_with_any_parameters() {
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "Application/JSON;charset=x",
            "application/json ",
        ] {
            assert!(is_plain_json(&headers(&[(CONTENT_TYPE, good)])), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/jsonx",
            "application/problem+json",
            "application/x-www-form-urlencoded",
        ] {
            assert!(!is_plain_json(&headers(&[(CONTENT_TYPE, bad)])), "{bad}");
        }
        assert!(!is_plain_json(&headers(&[])));
        assert!(!is_plain_json(&headers(&[
            (CONTENT_TYPE, "application/json"),
            (CONTENT_ENCODING, "gzip")
        ])));
        assert!(is_plain_json(&headers(&[
            (CONTENT_TYPE, "application/json"),
            (CONTENT_ENCODING, "identity")
        ])));
    }

    #[test]
    fn what_is_not_a_json_object_is_malformed() {
        let deep = "[".repeat(10_000);
        let nested = format!("{{\"url\":{}1{}}}", "[".repeat(7000), "]".repeat(7000));
        for bad in [
            "",
            " ",
            "null",
            "1",
            "\"x\"",
            "[]",
            "{",
            "{]",
            "{'url':1}",
            "{\"a\":1,}",
            "{\"a\":\"\\ud800\"}",
            "\u{feff}{}",
            "{}x",
            "NaN",
            &deep,
            &nested,
        ] {
            assert!(
                matches!(parse_object(bad.as_bytes()), Err(Error::MalformedJson(_))),
                "{:.40}",
                bad
            );
        }
        assert!(parse_object(b"{\"a\":\"\xff\"}").is_err());
        assert!(parse_object(b"{}").is_ok());
    }
}
