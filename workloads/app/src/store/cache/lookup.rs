//! The lookup of a code at the server: one command for both keys.

use redis::{Cmd, ErrorKind, Pipeline, RedisResult, Value};
use tokio::time::Instant;

use super::{Known, changes, connection::Connection, keys::Keys};
use crate::{code::Code, location, target};

/// Looks up a code at the server, and keeps its destination in this process if there is room for it.
pub(super) async fn ask(mut connection: Connection, code: Code<'_>) -> RedisResult<Option<Known>> {
    let keys = Keys::of(code);
    let near = connection.near().cloned();
    let sent = Instant::now();
    let heard = || {
        if let Some(near) = &near {
            near.heard(sent);
        }
    };
    let Some(reservation) = near.as_deref().and_then(|near| near.reserve(code)) else {
        let known = look_up(connection, &keys).await?;
        heard();
        return Ok(known);
    };
    let mut pipeline = Pipeline::new();
    // In this order: if the key expires in between, its remaining time is negative.
    pipeline.add_command(both(&keys)).pttl(keys.link());
    let (values, left) = pipeline.query_async(&mut connection).await?;
    heard();
    let known = understand(values)?;
    if let Some(Known::To(url)) = &known {
        reservation.fill(url.clone(), left);
    }
    Ok(known)
}

/// Looks up a code at the server.
pub(super) async fn look_up(mut connection: Connection, keys: &Keys) -> RedisResult<Option<Known>> {
    understand(both(keys).query_async(&mut connection).await?)
}

fn both(keys: &Keys) -> Cmd {
    let mut command = redis::cmd("MGET");
    command.arg(keys.link()).arg(keys.none());
    command
}

/// Parses the two values of a code. Any client of the cache could have written them, so a value counts as a
/// destination only if it passes the checks of a new link. Otherwise the lookup is a miss. Earlier releases wrote
/// destinations as they were given, and also of links that were taken down since.
fn understand(reply: Value) -> RedisResult<Option<Known>> {
    let garbage = || (ErrorKind::UnexpectedReturnType, "wrong reply to MGET").into();
    let Value::Array(values) = reply else {
        return Err(garbage());
    };
    let [url, none] = <[Value; 2]>::try_from(values).map_err(|_| garbage())?;
    if let Value::BulkString(mark) = &none
        && let Some(takedown) = changes::takedown_in(mark)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Takedown;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn understood(values: Vec<Value>) -> Option<Known> {
        understand(Value::Array(values)).unwrap()
    }

    #[test]
    fn a_destination_wins_over_a_denial() {
        let to = Some(Known::To("https://example.com/".into()));
        assert_eq!(
            understood(vec![text("https://example.com/"), Value::Nil]),
            to
        );
        assert_eq!(
            understood(vec![text("https://example.com/"), text("1")]),
            to
        );
        assert_eq!(
            understood(vec![Value::Nil, text("1")]),
            Some(Known::Nothing)
        );
        assert_eq!(understood(vec![Value::Nil, Value::Nil]), None);
    }

    #[test]
    fn a_mark_wins_over_a_destination() {
        let destination = || text("https://example.com/");
        for first in [destination(), Value::Nil, text("garbage")] {
            assert_eq!(
                understood(vec![first.clone(), text("410")]),
                Some(Known::Down(Takedown::Disabled))
            );
            let notice = Some("a notice".to_owned());
            assert_eq!(
                understood(vec![first, text("451\na notice")]),
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
            assert_eq!(understood(vec![text(bad), text("1")]), None, "{bad:?}");
        }
        assert_eq!(
            understood(vec![Value::BulkString(vec![0xff]), Value::Nil]),
            None
        );
    }

    #[test]
    fn what_an_earlier_release_wrote_is_a_uri_after_the_look_up() {
        assert_eq!(
            understood(vec![text("https://bücher.example/ü"), Value::Nil]),
            Some(Known::To("https://xn--bcher-kva.example/%C3%BC".into()))
        );
        // A destination may be 2,048 bytes long as given, and is longer as a URI.
        for host in ["example.com", "192.0.2.7"] {
            let long = format!("https://{host}/{}", "%C3%BC".repeat(1000));
            let known = Some(Known::To(long.clone().into()));
            assert_eq!(understood(vec![text(&long), Value::Nil]), known);
        }
    }

    #[test]
    fn what_no_cache_would_answer_is_an_error() {
        for bad in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            Value::Array(vec![]),
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![Value::Int(1), Value::Nil]),
            Value::Array(vec![Value::Nil, Value::Nil, Value::Nil]),
        ] {
            assert!(understand(bad.clone()).is_err(), "{bad:?}");
        }
    }
}
