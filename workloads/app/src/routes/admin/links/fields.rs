//! The parsers of bodies and of the query of a list. Each reports every fault at once.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    super::{self as admin, page_size, parameters, text},
    MAX_LINKS,
    bodies::{DisableRequest, LinksRequest, ReasonRequest},
};
use crate::{
    body,
    code::{CodeError, MAX_LENGTH},
    error::Error,
    faults::Faults,
    routes::{
        labels,
        shorten::{self, whole_microseconds},
    },
    store::{
        self,
        labels::LabelChange,
        management::{Change, Edit, Filter, LinkState, Listing, Order, Position},
    },
    target,
};

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
pub(in crate::routes::admin) fn reason(body: Map<String, Value>) -> Result<Option<String>, Error> {
    let ReasonRequest { reason } = body::fields(body)?;
    let mut faults = Faults::default();
    let reason = admin::reason(reason, &mut faults);
    faults.end(reason)
}

/// Parses an edit. Returns it with the reason for it.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid field.
pub(super) fn edit(
    mut body: Map<String, Value>,
    now: Timestamp,
) -> Result<(Edit, Option<String>), Error> {
    let mut faults = Faults::default();
    if body.contains_key("url") {
        let rule = "never changes: create another link, and delete this one";
        faults.add("url", rule)
    }
    let title = changed(&mut body, "title", labels::title, &mut faults);
    let tags = changed(&mut body, "tags", labels::tags, &mut faults);
    let note = changed(&mut body, "note", labels::note, &mut faults);
    let has_labels = title.is_some() || tags.is_some() || note.is_some();
    let labels = LabelChange {
        title,
        tags: tags.map(Option::unwrap_or_default),
        note,
    };
    let expiry =
        expiry(&mut body, now, has_labels).unwrap_or_else(|(field, rule)| faults.add(field, rule));
    let reason = body.remove("reason").filter(|value| !value.is_null());
    let reason = admin::reason(reason, &mut faults);
    faults.end((Edit { expiry, labels }, reason))
}

/// Returns the new value of a field, if it changes; the inner `None` if the body has `null`.
fn changed<T>(
    body: &mut Map<String, Value>,
    field: &'static str,
    parse: impl FnOnce(Value) -> Result<T, String>,
    faults: &mut Faults,
) -> Option<Option<T>> {
    let value = body.remove(field)?;
    let value = Some(value).filter(|value| !value.is_null());
    Some(faults.value(field, value.map(parse).transpose()))
}

/// Returns the new expiry, if it changes; the inner `None` if the link shall not expire.
fn expiry(
    body: &mut Map<String, Value>,
    now: Timestamp,
    is_optional: bool,
) -> Result<Option<Option<Timestamp>>, (&'static str, String)> {
    let never = body.get("expires_at").is_some_and(Value::is_null);
    let mut field = |name: &str| body.remove(name).filter(|value| !value.is_null());
    match (field("ttl_seconds"), field("expires_at")) {
        (None, None) if never => Ok(Some(None)),
        (None, None) if is_optional => Ok(None),
        (None, None) => Err((
            "expires_at",
            "is required, or ttl_seconds, title, tags or note; null means that the link does not expire"
                .to_owned(),
        )),
        (Some(_), None) if never => Err((
            "expires_at",
            "must not be combined with ttl_seconds".to_owned(),
        )),
        (ttl_seconds, expires_at) => {
            shorten::expiry(ttl_seconds, expires_at, whole_microseconds(now)).map(Some)
        }
    }
}

/// Returns the links of a request. Their fields are parsed one by one later.
///
/// # Errors
/// Returns [`Error::InvalidFields`] if there are none or too many.
pub(in crate::routes) fn links(body: Map<String, Value>) -> Result<Vec<Value>, Error> {
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
    let names = [
        "code",
        "tag",
        "title",
        "created_by",
        "host",
        "state",
        "order",
        "limit",
        "after",
    ];
    let [
        code,
        tag,
        title,
        created_by,
        host,
        state,
        order,
        limit,
        after,
    ] = parameters(query, names, &mut faults);
    let filter = Filter {
        own: None,
        code: faults.value("code", code.map(beginning).transpose()),
        tag: faults.value("tag", tag.map(|tag| labels::tag(&tag)).transpose()),
        words: faults.value("title", title.map_or(Ok(Vec::new()), words)),
        created_by: faults.value(
            "created_by",
            created_by.map(|by| admin::plain_text(&by)).transpose(),
        ),
        host: host.map(|host| {
            target::canonical_host(&host).unwrap_or_else(|| faults.add("host", "must be a host"))
        }),
        state: faults.value("state", state.map(link_state).transpose()),
    };
    if filter.state == Some(LinkState::Deleted) && filter.describes_destination() {
        let rule = "must not be deleted with a host, a tag or a title: a deleted link has none";
        faults.add::<()>("state", rule);
    }
    let order = order.map_or(Some(Order::Oldest), |word| Order::of_word(&word));
    let order = order.unwrap_or_else(|| faults.add("order", "must be oldest or newest"));
    let limit = page_size(limit, &mut faults);
    let after = after.and_then(|after| {
        let rule = "must be the next of the page before";
        Position::parse(&after)
            .map(Some)
            .unwrap_or_else(|| faults.add("after", rule))
    });
    faults.end(Listing {
        filter,
        order,
        limit,
        after,
    })
}

/// Returns the state that a word stands for.
fn link_state(word: String) -> Result<LinkState, String> {
    LinkState::of_word(&word).ok_or_else(|| "must be live, expired, disabled or deleted".to_owned())
}

/// Returns a text with which a code may begin.
fn beginning(text: String) -> Result<String, String> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(is_sign) {
        return Ok(text);
    }
    Err(CodeError::Malformed.to_string())
}

/// Returns the words of a query for titles.
fn words(text: String) -> Result<Vec<String>, String> {
    let words = Vec::from_iter(store::labels::words(&text));
    if text.chars().count() <= labels::MAX_TITLE && !words.is_empty() {
        return Ok(words);
    }
    let rule = format!(
        "must have a word, and at most {} characters",
        labels::MAX_TITLE
    );
    Err(rule)
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

    fn edited(body: Value) -> Result<Edit, Error> {
        let edit = edit(object(body), NOW.parse().unwrap());
        edit.map(|(edit, _)| edit)
    }

    fn expiry_of(body: Value) -> Result<Option<Timestamp>, Error> {
        edited(body).map(|edit| edit.expiry.unwrap())
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
        let end = expiry_of(json!({"ttl_seconds": 60, "more": 1})).unwrap();
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
    fn labels_change_alone_or_with_the_expiry_and_null_removes_them() {
        let Edit { expiry, labels } = edited(json!({"tags": ["B", "a"]})).unwrap();
        assert_eq!((expiry, labels.title, labels.note), (None, None, None));
        assert_eq!(labels.tags.unwrap(), ["a", "b"]);
        let nulls = json!({"title": null, "tags": null, "note": null, "expires_at": null});
        let Edit { expiry, labels } = edited(nulls).unwrap();
        assert_eq!(
            (expiry, labels.title, labels.note),
            (Some(None), Some(None), Some(None))
        );
        assert_eq!(labels.tags, Some(Vec::new()));
        for (body, fields) in [
            (
                json!({"title": "a\nb", "tags": 1, "note": ""}),
                &["title", "tags", "note"][..],
            ),
            (json!({"title": "a", "ttl_seconds": 1}), &["ttl_seconds"]),
            (
                json!({"title": "a", "url": "https://example.com/"}),
                &["url"],
            ),
        ] {
            assert_eq!(faults(edited(body.clone())), fields, "{body}");
        }
    }

    #[test]
    fn every_change_may_have_a_reason() {
        let now = || NOW.parse().unwrap();
        let given = json!({"reason": "ticket 7", "ttl_seconds": 60});
        let why = Some("ticket 7".to_owned());
        assert_eq!(reason(object(given.clone())).unwrap(), why);
        assert_eq!(edit(object(given), now()).unwrap().1, why);
        for body in [json!({}), json!({"reason": null, "more": 1})] {
            assert_eq!(reason(object(body)).unwrap(), None);
        }
        for bad in [json!(""), json!(7), json!("a\nb"), json!("x".repeat(501))] {
            let body = json!({"reason": bad, "ttl_seconds": 60});
            assert_eq!(faults(reason(object(body.clone()))), ["reason"]);
            assert_eq!(faults(edit(object(body), now())), ["reason"]);
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
    fn a_list_has_filters_that_combine_and_an_order() {
        let list = listing(Some(
            "host=B%C3%BCcher.Example.&state=live&code=a-B_&tag=%20Spring&title=The+sale!&created_by=shop\
            &order=newest&limit=7&after=5.abc",
        ));
        let list = list.unwrap();
        let text = |text: &str| Some(text.to_owned());
        let filter = Filter {
            own: None,
            code: text("a-B_"),
            tag: text("spring"),
            words: ["sale", "the"].map(str::to_owned).to_vec(),
            created_by: text("shop"),
            host: text("xn--bcher-kva.example"),
            state: Some(LinkState::Live),
        };
        assert_eq!(
            (list.filter, list.order, list.limit),
            (filter, Order::Newest, 7)
        );
        assert_eq!(list.after.unwrap().to_string(), "5.abc");
        let all = listing(None).unwrap();
        assert_eq!(
            (all.filter, all.order, all.limit),
            (Filter::default(), Order::Oldest, 100)
        );
        assert_eq!(all.after, None);
        for query in [
            "state=deleted",
            "state=deleted&code=a",
            "state=deleted&created_by=shop",
        ] {
            assert!(listing(Some(query)).is_ok(), "{query}");
        }
        let long = format!("title={}", "a".repeat(201));
        for (query, fields) in [
            ("state=disabled&limit=0&after=x", &["limit", "after"][..]),
            ("host=a%20b&limit=101", &["host", "limit"]),
            ("host=a&host=b", &["host"]),
            ("host=a&stat=live", &["query"]),
            ("state=gone&order=random", &["state", "order"]),
            ("host=a&state=deleted", &["state"]),
            ("tag=a&state=deleted", &["state"]),
            ("title=a&state=deleted", &["state"]),
            (
                "tag=a,b&title=--&code=a.b&created_by=",
                &["code", "tag", "title", "created_by"],
            ),
            ("created_by=a%00", &["created_by"]),
            (&long, &["title"]),
        ] {
            assert_eq!(faults(listing(Some(query))), fields, "{query}");
        }
    }
}
