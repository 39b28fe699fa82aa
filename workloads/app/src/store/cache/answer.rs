//! The meaning of the two values of a code.

use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::{Known, mark::takedown_in};
use crate::{location, target};

/// Parses the two values of a code. Any client of the cache could have written them, so a value counts as a
/// destination only if it passes the checks of a new link. Otherwise the lookup is a miss.
pub(super) fn understand(url: Value, none: Value) -> RedisResult<Option<Known>> {
    if let Value::BulkString(mark) = &none
        && let Some(takedown) = takedown_in(mark)
    {
        return Ok(Some(Known::Down(takedown)));
    }
    match (url, none) {
        (Value::BulkString(url), _) => {
            if target::is_plain(&url) {
                return Ok(Some(Known::To(url.into())));
            }
            let url = str::from_utf8(&url).ok();
            let sound = url.filter(|url| target::is_sound(url));
            Ok(sound.map(|url| Known::To(location::ascii(url).into_owned().into())))
        }
        (Value::Nil, Value::BulkString(_)) => Ok(Some(Known::Nothing)),
        (Value::Nil, Value::Nil) => Ok(None),
        _ => Err(garbage()),
    }
}

/// Returns the error of a reply that no cache would give.
pub(super) fn garbage() -> RedisError {
    (ErrorKind::UnexpectedReturnType, "wrong reply to MGET").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Takedown;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn understood([url, none]: [Value; 2]) -> Option<Known> {
        understand(url, none).unwrap()
    }

    #[test]
    fn a_destination_wins_over_a_denial() {
        let to = Some(Known::To("https://example.com/".into()));
        assert_eq!(understood([text("https://example.com/"), Value::Nil]), to);
        assert_eq!(understood([text("https://example.com/"), text("1")]), to);
        assert_eq!(understood([Value::Nil, text("1")]), Some(Known::Nothing));
        assert_eq!(understood([Value::Nil, Value::Nil]), None);
    }

    #[test]
    fn a_mark_wins_over_a_destination() {
        let destination = || text("https://example.com/");
        for first in [destination(), Value::Nil, text("garbage")] {
            assert_eq!(
                understood([first.clone(), text("410")]),
                Some(Known::Down(Takedown::Disabled))
            );
            let notice = Some("a notice".to_owned());
            assert_eq!(
                understood([first, text("451\na notice")]),
                Some(Known::Down(Takedown::Legal { notice }))
            );
        }
    }

    #[test]
    fn what_could_not_have_been_shortened_is_a_miss() {
        for bad in [
            "",
            "garbage",
            "javascript:alert(1)",
            "https://example.com/\r\nSet-Cookie: a=b",
            "https://a:b@example.com/",
            "https://exa<mple.com/",
        ] {
            assert_eq!(understood([text(bad), text("1")]), None, "{bad:?}");
        }
        assert_eq!(
            understood([Value::BulkString(vec![0xff]), Value::Nil]),
            None
        );
    }

    #[test]
    fn what_is_no_uri_is_one_after_the_look_up() {
        assert_eq!(
            understood([text("https://bücher.example/ü"), Value::Nil]),
            Some(Known::To("https://xn--bcher-kva.example/%C3%BC".into()))
        );
        // A destination may be 2,048 bytes long as given, and is longer as a URI.
        for host in ["example.com", "192.0.2.7"] {
            let long = format!("https://{host}/{}", "%C3%BC".repeat(1000));
            let known = Some(Known::To(long.clone().into()));
            assert_eq!(understood([text(&long), Value::Nil]), known);
        }
    }

    #[test]
    fn what_no_cache_would_answer_is_an_error() {
        for [url, none] in [
            [Value::Int(1), Value::Nil],
            [Value::Nil, Value::Int(1)],
            [Value::Okay, Value::Okay],
            [Value::Array(vec![]), Value::Nil],
        ] {
            assert!(understand(url.clone(), none).is_err(), "{url:?}");
        }
    }
}
