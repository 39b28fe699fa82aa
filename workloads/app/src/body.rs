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
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use shortener_common::budget::{Budget, Share};
use tokio::time::{Instant, timeout_at};

use crate::error::Error;

/// The memory of a body for each of its bytes: a buffer that grows doubles its size.
const GROWTH: usize = 2;
/// The memory of a value in bytes: a list that grows has up to three places for each of its values, and a string has an
/// allocation of its own.
const VALUE: usize = 4 * size_of::<Value>();
/// The memory of an entry of an object in bytes: its nodes are half full at least, and a name has an allocation of its
/// own.
const ENTRY: usize = 2 * PLACE + 32;
/// The memory of an object's first node in bytes, which has places for eleven entries.
const NODE: usize = 11 * PLACE + 32;
/// The size of an entry in a node, in bytes.
const PLACE: usize = size_of::<String>() + size_of::<Value>();

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

/// What was read from a body, with its share of the memory for bodies. The share is free again once this is dropped.
#[derive(Debug)]
pub struct Held<T> {
    pub content: T,
    share: Share,
}

impl<T> Held<T> {
    /// Returns what was read, and frees its share: it has memory elsewhere from now on.
    #[must_use]
    pub fn release(self) -> T {
        self.content
    }
}

impl Held<Bytes> {
    /// Parses the text as a JSON object, whose values take their share of the memory beside the text.
    ///
    /// # Errors
    /// Fails if the text is not a JSON object, or if there is no memory for its values.
    pub fn object(&mut self, memory: &Budget) -> Result<Map<String, Value>, Error> {
        let weight = weight(&self.content);
        if weight > memory.limit() {
            return Err(Error::BodyTooHeavy);
        }
        if !self.share.grow(weight) {
            return Err(Error::Busy);
        }
        parse_object(&self.content)
    }
}

/// Reads a body of at most `limit` bytes that must contain a JSON object. The bytes and the values fit into the memory.
///
/// # Errors
/// Fails if the media type is not JSON, or if the body is too large, too slow or not a JSON object, or if there is no
/// memory for it.
pub async fn json_object(
    request: Request,
    limit: usize,
    memory: &Budget,
) -> Result<Held<Map<String, Value>>, Error> {
    let mut text = json_text(request, limit, memory).await?;
    let content = text.object(memory)?;
    let share = text.share;
    Ok(Held { content, share })
}

/// Reads a body of at most `limit` bytes that says that it is JSON, and does not parse it.
///
/// # Errors
/// Fails if the media type is not JSON, if the body is too large or too slow, or if there is no memory for it.
pub async fn json_text(
    request: Request,
    limit: usize,
    memory: &Budget,
) -> Result<Held<Bytes>, Error> {
    if !is_plain_json(request.headers()) {
        return Err(Error::UnsupportedMediaType);
    }
    read(request, limit, memory).await
}

/// Reads a body of at most `limit` bytes.
async fn read(request: Request, limit: usize, memory: &Budget) -> Result<Held<Bytes>, Error> {
    let mut share = memory.take(0).ok_or(Error::Busy)?;
    let mut text = Vec::new();
    // The parts are copied, because each keeps the whole buffer of the connection in which it arrived.
    let keep = |part: Bytes| {
        if !share.grow(GROWTH * part.len()) {
            return Err(Error::Busy);
        }
        text.extend_from_slice(&part);
        Ok(())
    };
    receive(request, limit, keep).await?;
    let content = text.into();
    Ok(Held { content, share })
}

/// Passes on the parts of a body of at most `limit` bytes until its end.
async fn receive(
    request: Request,
    limit: usize,
    mut take: impl FnMut(Bytes) -> Result<(), Error>,
) -> Result<(), Error> {
    if announced_length(request.headers()).is_some_and(|length| length > limit as u64) {
        return Err(Error::BodyTooLarge(limit));
    }
    let deadline = request.extensions().get::<Deadline>().copied();
    let received = async {
        let mut body = request.into_body();
        let mut size = 0;
        while let Some(frame) = body.frame().await {
            let incomplete = || Error::MalformedJson("The request body is incomplete.".to_owned());
            let frame = frame.map_err(|_| incomplete())?;
            // Everything else is trailers, which have no meaning here.
            let Ok(part) = frame.into_data() else {
                continue;
            };
            size += part.len();
            if size > limit {
                return Err(Error::BodyTooLarge(limit));
            }
            take(part)?;
        }
        Ok(())
    };
    match deadline {
        Some(deadline) => timeout_at(deadline.of_body(), received)
            .await
            .map_err(|_| Error::RequestTimeout)?,
        None => received.await,
    }
}

/// Returns the memory that the values of a JSON text take at most while it is parsed, in bytes. Small values take many
/// times their size in the text.
fn weight(text: &[u8]) -> usize {
    let (mut values, mut entries, mut objects) = (1, 0, 0);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b',' | b'[' => values += 1,
            b'{' => {
                values += 1;
                objects += 1;
            }
            b':' => entries += 1,
            _ => {}
        }
    }
    // An empty object has no node.
    let nodes = entries.min(objects);
    text.len() + values * VALUE + entries * ENTRY + nodes * NODE
}

/// Skips a string after its first quotation mark.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
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

/// Returns a number without a fraction; `None` if it has one, or if it does not fit. To JSON Schema, `60`, `60.0` and `6e1`
/// are one number.
#[must_use]
pub fn whole<T: TryFrom<i128>>(number: &Number) -> Option<T> {
    let exact = number.as_i64().map(i128::from);
    let exact = exact.or_else(|| number.as_u64().map(i128::from));
    let whole = exact.or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0);
        number.map(|number| number as i128)
    });
    T::try_from(whole?).ok()
}

/// Reads a body to its end and drops it.
///
/// # Errors
/// Returns the errors of [`json_object`] for size and time.
pub async fn discard(request: Request<Body>, limit: usize) -> Result<(), Error> {
    receive(request, limit, |_| Ok(())).await
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

    fn request(text: &str) -> Request {
        let mut request = Request::new(Body::from(text.to_owned()));
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
        request
    }

    #[test]
    fn small_values_weigh_many_times_their_size_and_text_its_size() {
        let zeros = format!("[{}0]", "0,".repeat(999));
        assert!(weight(zeros.as_bytes()) >= 1000 * VALUE);
        let objects = format!("[{}{{}}]", "{\"\":0},".repeat(999));
        assert!(weight(objects.as_bytes()) >= 999 * (NODE + ENTRY + VALUE));
        // Empty objects, and signs in a string, are nothing but values and text.
        let empty = format!("[{}{{}}]", "{},".repeat(999));
        assert!(weight(empty.as_bytes()) < 2100 * VALUE + empty.len());
        let text = format!("{{\"a\":\"{}\"}}", "{,[:\\\"\\\\".repeat(1000));
        assert!(parse_object(text.as_bytes()).is_ok());
        let weight = weight(text.as_bytes());
        assert!(weight < text.len() + 2 * VALUE + ENTRY + NODE + 1);
    }

    #[tokio::test]
    async fn a_body_holds_its_memory_until_it_is_dropped() {
        let memory = Budget::new(48 * 1024);
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
        let held = json_object(request(&text), 16 * 1024, &memory)
            .await
            .unwrap();
        let used = memory.used();
        assert!((3 * text.len()..4 * text.len()).contains(&used), "{used}");
        let second = json_object(request(&text), 16 * 1024, &memory).await;
        assert!(matches!(second, Err(Error::Busy)), "{second:?}");
        assert_eq!(memory.used(), used, "a refused body holds nothing");
        let content = held.content;
        assert_eq!(content["a"].as_str().unwrap().len(), 10_000);
        drop(held.share);
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_text_holds_memory_for_its_values_if_it_is_parsed_and_none_once_it_is_passed_on() {
        let memory = Budget::new(64 * 1024);
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
        let held = json_text(request(&text), 16 * 1024, &memory).await;
        let mut held = held.unwrap();
        assert_eq!(memory.used(), GROWTH * text.len());
        assert_eq!(held.object(&memory).unwrap().len(), 1);
        assert_eq!(memory.used(), GROWTH * text.len() + weight(text.as_bytes()));
        assert_eq!(held.release(), text.as_bytes());
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_body_with_more_values_than_there_is_memory_is_too_large() {
        let memory = Budget::new(64 * 1024);
        let text = format!("{{\"a\":[{}0]}}", "0,".repeat(4000));
        let refused = json_object(request(&text), 16 * 1024, &memory).await;
        assert!(matches!(refused, Err(Error::BodyTooHeavy)), "{refused:?}");
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn the_limit_counts_what_arrives_and_not_what_is_announced() {
        let memory = Budget::new(64 * 1024);
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
        let refused = json_object(request(&text), 10_000, &memory).await;
        assert!(matches!(refused, Err(Error::BodyTooLarge(10_000))));
        let refused = discard(request(&text), 10_000).await;
        assert!(matches!(refused, Err(Error::BodyTooLarge(10_000))));
        assert!(discard(request(&text), text.len()).await.is_ok());
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        let number = |text: &str| serde_json::from_str(text).unwrap();
        for text in ["60", "60.0", "6e1", "600e-1"] {
            assert_eq!(whole::<u64>(&number(text)), Some(60), "{text}");
        }
        assert_eq!(whole::<i64>(&number("-60.0")), Some(-60));
        assert_eq!(whole(&number("18446744073709551615")), Some(u64::MAX));
        for text in ["60.5", "-1", "-1.0", "1e300", "18446744073709551616"] {
            assert_eq!(whole::<u64>(&number(text)), None, "{text}");
        }
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
