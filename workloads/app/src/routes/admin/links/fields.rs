//! The parsers of bodies and of the query of a list. Each reports every fault at once.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    super::{self as admin, page_size, parameters, text},
    bodies::{DisableRequest, LinksRequest, ReasonRequest},
};
use crate::{
    body,
    error::Error,
    faults::Faults,
    routes::shorten::{self, whole_microseconds},
    store::management::{Change, LinkState, Listed, Listing, Position},
    target,
};

/// The maximum number of links that one request creates.
const MAX_LINKS: usize = 100;

/// Parses a takedown. Returns it with its reason.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub(super) fn disable(body: Map<String, Value>) -> Result<(Change, String), Error> {
    let request: DisableRequest = body::fields(body)?;
    let mut faults = Faults::default();
    let reason = request.reason.ok_or("is required".to_owned());
    let reason = faults.value("reason", reason.and_then(text));
    let legal = faults.flag("legal", request.legal);
    let notice = match request.notice {
        Some(_) if !legal => Err("needs legal: true".to_owned()),
        notice => notice.map(text).transpose(),
    };
    let notice = faults.value("notice", notice);
    faults.end((Change::Disable { legal, notice }, reason))
}

/// Parses the reason for a change.
///
/// # Errors
/// Returns [`Error::InvalidFields`] if it is no text.
pub(super) fn reason(body: Map<String, Value>) -> Result<Option<String>, Error> {
    let ReasonRequest { reason } = body::fields(body)?;
    let mut faults = Faults::default();
    let reason = admin::reason(reason, &mut faults);
    faults.end(reason)
}

/// Parses a new expiry, which is `None` if the link shall not expire. Returns it with the reason for the change.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub(super) fn expiry(
    mut body: Map<String, Value>,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Option<String>), Error> {
    let mut faults = Faults::default();
    if body.contains_key("url") {
        let rule = "never changes: create another link, and delete this one";
        faults.add("url", rule)
    }
    let never = body.get("expires_at").is_some_and(Value::is_null);
    let mut field = |name: &str| body.remove(name).filter(|value| !value.is_null());
    let reason = admin::reason(field("reason"), &mut faults);
    let end = match (field("ttl_seconds"), field("expires_at")) {
        (None, None) if never => Ok(None),
        (None, None) => Err((
            "expires_at",
            "is required, or ttl_seconds; null means that the link does not expire".to_owned(),
        )),
        (Some(_), None) if never => Err((
            "expires_at",
            "must not be combined with ttl_seconds".to_owned(),
        )),
        (ttl_seconds, expires_at) => {
            shorten::expiry(ttl_seconds, expires_at, whole_microseconds(now))
        }
    };
    let end = end.unwrap_or_else(|(field, rule)| faults.add(field, rule));
    faults.end((end, reason))
}

/// Returns the links to be created. Their fields are parsed one by one later.
///
/// # Errors
/// Returns [`Error::InvalidFields`] if there are none or too many.
pub(super) fn links(body: Map<String, Value>) -> Result<Vec<Value>, Error> {
    match body::fields::<LinksRequest>(body)?.links {
        Some(Value::Array(links)) if (1..=MAX_LINKS).contains(&links.len()) => Ok(links),
        _ => {
            let rule = format!("must be an array of 1 to {MAX_LINKS} links");
            Err(Error::invalid("links", rule))
        }
    }
}

/// Parses the query of a list.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid parameter.
pub(super) fn listing(query: Option<&str>) -> Result<Listing, Error> {
    let mut faults = Faults::default();
    let names = ["host", "state", "limit", "after"];
    let [host, state, limit, after] = parameters(query, names, &mut faults);
    let host = host.map(|host| {
        target::canonical_host(&host).unwrap_or_else(|| faults.add("host", "must be a host"))
    });
    let state = state.and_then(|word| {
        let known = LinkState::ALL
            .into_iter()
            .find(|state| state.as_str() == word);
        let rule = "must be live, expired, disabled or deleted";
        known.or_else(|| faults.add("state", rule))
    });
    let limit = page_size(limit, &mut faults);
    let after = after.map_or_else(Position::default, |after| {
        Position::parse(&after)
            .unwrap_or_else(|| faults.add("after", "must be the next of the page before"))
    });
    let of = match (host, state) {
        (Some(host), state) => {
            if state == Some(LinkState::Deleted) {
                faults.add::<()>(
                    "state",
                    "must not be deleted with a host: a deleted link has none",
                );
            }
            Listed::Host { host, state }
        }
        (None, state) => {
            if !matches!(state, Some(LinkState::Disabled | LinkState::Deleted)) {
                let rule = "is required unless state is disabled or deleted";
                faults.add::<()>("host", rule);
            }
            Listed::TakenDown {
                deleted: state == Some(LinkState::Deleted),
            }
        }
    };
    faults.end(Listing { of, limit, after })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2030-01-01T00:00:00.123456789Z";

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    fn faults<T: std::fmt::Debug>(result: Result<T, Error>) -> Vec<&'static str> {
        match result {
            Err(Error::InvalidFields(faults)) => faults.iter().map(|fault| fault.field).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn expiry_of(body: Value) -> Result<Option<Timestamp>, Error> {
        let expiry = expiry(object(body), NOW.parse().unwrap());
        expiry.map(|(end, _)| end)
    }

    #[test]
    fn a_takedown_has_a_reason_and_a_legal_one_may_have_a_notice() {
        let takedown = |body| disable(object(body));
        let body = json!({"reason": "spam", "legal": null, "notice": null, "more": 1});
        assert_eq!(
            takedown(body).unwrap(),
            (
                Change::Disable {
                    legal: false,
                    notice: None
                },
                "spam".to_owned()
            )
        );
        let body = json!({"reason": "order 7", "legal": true, "notice": "ü".repeat(500)});
        assert!(matches!(
            takedown(body),
            Ok((
                Change::Disable {
                    legal: true,
                    notice: Some(_)
                },
                _
            ))
        ));
        for (body, fields) in [
            (json!({}), &["reason"][..]),
            (json!({"reason": ""}), &["reason"]),
            (json!({"reason": 7, "legal": "yes"}), &["reason", "legal"]),
            (json!({"reason": "a\nb"}), &["reason"]),
            (json!({"reason": "a\0"}), &["reason"]),
            (json!({"reason": "x".repeat(501)}), &["reason"]),
            (json!({"reason": "a", "notice": "b"}), &["notice"]),
            (
                json!({"reason": "a", "legal": true, "notice": ["b"]}),
                &["notice"],
            ),
        ] {
            assert_eq!(faults(takedown(body.clone())), fields, "{body}");
        }
    }

    #[test]
    fn null_is_an_expiry_that_never_comes_and_absence_is_none() {
        assert_eq!(expiry_of(json!({"expires_at": null})).unwrap(), None);
        let end = expiry_of(json!({"ttl_seconds": 60, "title": 1})).unwrap();
        assert_eq!(end.unwrap().to_string(), "2030-01-01T00:01:00.123456Z");
        assert!(expiry_of(json!({"expires_at": "2031-01-01T00:00:00Z"})).is_ok());
        for (body, fields) in [
            (json!({}), &["expires_at"][..]),
            (json!({"ttl_seconds": null}), &["expires_at"]),
            (json!({"ttl_seconds": 59}), &["ttl_seconds"]),
            (
                json!({"ttl_seconds": 60, "expires_at": null}),
                &["expires_at"],
            ),
            (
                json!({"ttl_seconds": 60, "expires_at": "2031-01-01T00:00:00Z"}),
                &["expires_at"],
            ),
            (
                json!({"url": "https://example.com/", "ttl_seconds": 1}),
                &["url", "ttl_seconds"],
            ),
        ] {
            assert_eq!(faults(expiry_of(body.clone())), fields, "{body}");
        }
    }

    #[test]
    fn every_change_may_have_a_reason() {
        let now = || NOW.parse().unwrap();
        let given = json!({"reason": "ticket 7", "ttl_seconds": 60});
        let why = Some("ticket 7".to_owned());
        assert_eq!(reason(object(given.clone())).unwrap(), why);
        assert_eq!(expiry(object(given), now()).unwrap().1, why);
        for body in [json!({}), json!({"reason": null, "more": 1})] {
            assert_eq!(reason(object(body)).unwrap(), None);
        }
        for bad in [json!(""), json!(7), json!("a\nb"), json!("x".repeat(501))] {
            let body = json!({"reason": bad, "ttl_seconds": 60});
            assert_eq!(faults(reason(object(body.clone()))), ["reason"]);
            assert_eq!(faults(expiry(object(body), now())), ["reason"]);
        }
    }

    #[test]
    fn one_to_a_hundred_links_are_created_at_once() {
        let with = |count| links(object(json!({"links": vec![json!({}); count]})));
        assert_eq!(with(1).unwrap().len(), 1);
        assert_eq!(with(100).unwrap().len(), 100);
        for bad in [with(0), with(101), links(object(json!({"links": {}})))] {
            assert_eq!(faults(bad), ["links"]);
        }
    }

    #[test]
    fn a_list_is_of_a_host_or_of_what_was_taken_down() {
        let list = listing(Some(
            "host=B%C3%BCcher.Example.&state=live&limit=7&after=5.abc",
        ));
        let list = list.unwrap();
        let host = "xn--bcher-kva.example".to_owned();
        let state = Some(LinkState::Live);
        assert_eq!(list.of, Listed::Host { host, state });
        assert_eq!((list.limit, list.after.to_string().as_str()), (7, "5.abc"));
        let list = listing(Some("state=deleted")).unwrap();
        assert_eq!(list.of, Listed::TakenDown { deleted: true });
        assert_eq!((list.limit, list.after), (100, Position::default()));
        for (query, fields) in [
            ("", &["host"][..]),
            ("state=live", &["host"]),
            ("state=disabled&limit=0&after=x", &["limit", "after"]),
            ("host=a%20b&limit=101", &["host", "limit"]),
            ("host=a&host=b", &["host"]),
            ("host=a&stat=live", &["query"]),
            ("host=a&state=gone", &["state"]),
            ("host=a&state=deleted", &["state"]),
        ] {
            assert_eq!(faults(listing(Some(query))), fields, "{query}");
        }
        assert_eq!(faults(listing(None)), ["host"]);
    }
}
