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
use parking_lot::Mutex;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Number, Value};
use shortener_common::budget::{Budget, Share};
use tokio::time::{Instant, timeout_at};

use crate::error::Error;

/// The media types of bodies.
const JSON: &str = "application/json";
/// Newline-delimited JSON: a value on each line.
pub const NDJSON: &str = "application/x-ndjson";
/// The memory of a body for each of its bytes: a buffer that grows doubles its size. What is kept of a body later, and the
/// statement that stores it, need no more.
const FACTOR: usize = 2;
/// The maximum number of values and names in a body: the largest vector and the largest payload fit together. While a body
/// is read they take less than 3 MiB, since at worst, in objects with one entry each, two of them take 672 bytes.
const MAX_VALUES: usize = 8192;
/// Held while the values of a body exist: those of one body at a time.
static VALUES: Mutex<()> = Mutex::new(());

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
    pub fn end(self) -> Instant {
        self.start + self.budget
    }

    /// Returns the deadline of the body. It is a little earlier, so that there is time left to process the body.
    fn of_body(self) -> Instant {
        self.start + self.budget.mul_f64(0.9)
    }
}

/// Reads a body of at most `limit` bytes that must contain a JSON object. Returns what `read` makes of it, with its share of
/// the memory for bodies.
///
/// # Errors
/// Fails if the media type is not JSON, if the body is too large, too slow or not a JSON object, if there is no memory for
/// it, or if `read` fails.
pub async fn json<T>(
    request: Request,
    limit: usize,
    memory: &Budget,
    read: impl FnOnce(Map<String, Value>) -> Result<T, Error>,
) -> Result<(T, Share), Error> {
    let (text, share) = json_text(request, limit, memory).await?;
    Ok((object(&text, read)?, share))
}

/// Reads a body like [`json`]. A body without content stands for an empty object, whatever its media type is.
///
/// # Errors
/// Returns the errors of [`json`].
pub async fn optional_json<T>(
    request: Request,
    limit: usize,
    memory: &Budget,
    read: impl FnOnce(Map<String, Value>) -> Result<T, Error>,
) -> Result<(T, Share), Error> {
    let is_json = is_plain(request.headers(), JSON);
    let (text, share) = text(request, limit, memory).await?;
    let value = match (text.is_empty(), is_json) {
        (true, _) => read(Map::new())?,
        (false, true) => object(&text, read)?,
        (false, false) => return Err(Error::UnsupportedMediaType(JSON)),
    };
    Ok((value, share))
}

/// Returns what `read` makes of the JSON object in a text. It must not keep the values, which take many times the memory of
/// their text.
///
/// # Errors
/// Fails if the text is not a JSON object or has too many values, or if `read` fails.
pub fn object<T>(
    text: &[u8],
    read: impl FnOnce(Map<String, Value>) -> Result<T, Error>,
) -> Result<T, Error> {
    if values(text) > MAX_VALUES {
        // A text that is not JSON is refused for that, and reading over it takes no memory.
        serde_json::from_slice::<IgnoredAny>(text).map_err(malformed)?;
        return Err(Error::TooManyValues(MAX_VALUES));
    }
    let _turn = VALUES.lock();
    read(parse_object(text)?)
}

/// Reads a body of at most `limit` bytes that says that it is JSON, and does not parse it.
///
/// # Errors
/// Fails if the media type is not JSON, if the body is too large or too slow, or if there is no memory for it.
pub async fn json_text(
    request: Request,
    limit: usize,
    memory: &Budget,
) -> Result<(Vec<u8>, Share), Error> {
    typed_text(request, JSON, limit, memory).await
}

/// Reads a body of at most `limit` bytes that says that it is newline-delimited JSON, and does not parse it.
///
/// # Errors
/// Fails if the media type is another one, if the body is too large or too slow, or if there is no memory for it.
pub async fn lines_text(
    request: Request,
    limit: usize,
    memory: &Budget,
) -> Result<(Vec<u8>, Share), Error> {
    typed_text(request, NDJSON, limit, memory).await
}

/// Returns what `read` makes of each line of a text that is not blank, with the number of the line. The values of one line
/// exist at a time.
pub fn lines<T>(text: &[u8], mut read: impl FnMut(usize, &[u8]) -> T) -> Vec<T> {
    let _turn = VALUES.lock();
    filled(text)
        .map(|(number, line)| read(number, line))
        .collect()
}

/// Returns the number of lines of a text that are not blank.
pub fn count_lines(text: &[u8]) -> usize {
    filled(text).count()
}

/// Returns the lines of a text that are not blank, with their numbers.
fn filled(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    (1..).zip(lines).filter(|(_, line)| !line.is_empty())
}

async fn typed_text(
    request: Request,
    media_type: &'static str,
    limit: usize,
    memory: &Budget,
) -> Result<(Vec<u8>, Share), Error> {
    if !is_plain(request.headers(), media_type) {
        return Err(Error::UnsupportedMediaType(media_type));
    }
    text(request, limit, memory).await
}

/// Reads a body of at most `limit` bytes.
async fn text(request: Request, limit: usize, memory: &Budget) -> Result<(Vec<u8>, Share), Error> {
    let mut share = memory.take(0).ok_or(Error::Busy)?;
    let mut text = Vec::new();
    // The parts are copied, because each keeps the whole buffer of the connection in which it arrived.
    let keep = |part: Bytes| {
        share.merge(memory.take(FACTOR * part.len()).ok_or(Error::Busy)?);
        text.extend_from_slice(&part);
        Ok(())
    };
    receive(request, limit, keep).await?;
    Ok((text, share))
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

/// Returns the number of values and names in a JSON text, or a few more.
fn values(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' | b':' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns true for a media type with any parameters and without compression.
fn is_plain(headers: &HeaderMap, media_type: &str) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &http::HeaderValue| value.to_str().unwrap_or("?"))
    };
    let is_of_type = text(CONTENT_TYPE).is_some_and(|value| {
        value
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case(media_type)
    });
    is_of_type
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
/// Returns the errors of [`json_text`] for size and time.
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
            assert!(is_plain(&headers(&[(CONTENT_TYPE, good)]), JSON), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/jsonx",
            "application/problem+json",
            "application/x-www-form-urlencoded",
        ] {
            assert!(!is_plain(&headers(&[(CONTENT_TYPE, bad)]), JSON), "{bad}");
        }
        assert!(!is_plain(&headers(&[]), JSON));
        assert!(!is_plain(
            &headers(&[
                (CONTENT_TYPE, "application/json"),
                (CONTENT_ENCODING, "gzip")
            ]),
            JSON
        ));
        assert!(is_plain(
            &headers(&[
                (CONTENT_TYPE, "application/json"),
                (CONTENT_ENCODING, "identity")
            ]),
            JSON
        ));
    }

    fn request(text: &str) -> Request {
        let mut request = Request::new(Body::from(text.to_owned()));
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
        request
    }

    #[test]
    fn values_and_names_are_counted_and_signs_in_strings_are_not() {
        for (text, expected) in [
            ("{}", 2),
            (r#"{"a":"b"}"#, 3),
            (r#"{"a":[1,2,{"b":null}]}"#, 8),
            (r#"{"a,[{:":"\\","b":"\",[{:"}"#, 5),
        ] {
            assert_eq!(values(text.as_bytes()), expected, "{text}");
        }
        let full = |values: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(values - 4));
        let read = |values| object(full(values).as_bytes(), |_| Ok(()));
        assert!(read(MAX_VALUES).is_ok());
        assert!(matches!(
            read(MAX_VALUES + 1),
            Err(Error::TooManyValues(MAX_VALUES))
        ));
    }

    #[tokio::test]
    async fn a_body_holds_its_memory_until_it_is_dropped() {
        let memory = Budget::new(30_000);
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
        let length = |object: Map<String, Value>| Ok(object["a"].as_str().map(str::len));
        let body = || json(request(&text), 16 * 1024, &memory, length);
        let (found, share) = body().await.unwrap();
        assert_eq!((found, memory.used()), (Some(10_000), FACTOR * text.len()));
        assert!(matches!(body().await, Err(Error::Busy)));
        assert_eq!(
            memory.used(),
            FACTOR * text.len(),
            "a refused body holds nothing"
        );
        drop(share);
        assert_eq!((memory.used(), memory.refused()), (0, 1));
    }

    #[tokio::test]
    async fn the_limit_counts_what_arrives_and_not_what_is_announced() {
        let memory = Budget::new(64 * 1024);
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
        let refused = json_text(request(&text), 10_000, &memory).await;
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
