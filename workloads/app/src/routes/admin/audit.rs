//! The audit log: which client changed what, when and why.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use jiff::Timestamp;

use super::{page_size, parameters, plain_text, private};
use crate::{
    error::Error,
    faults::Faults,
    state::AppState,
    store::audit::{Action, AuditQuery},
};

/// The number of an entry that is never reached: the first one of 19 digits.
const END: i64 = 1_000_000_000_000_000_000;

/// Lists entries, the latest first.
pub async fn list(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let query = read(query.as_deref())?;
    let audit = state.links.management().audit();
    Ok(private(audit.list(&query).await?))
}

/// Parses the query of a list.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid parameter.
fn read(query: Option<&str>) -> Result<AuditQuery, Error> {
    let mut faults = Faults::default();
    let names = [
        "subject", "by", "action", "since", "until", "limit", "after",
    ];
    let [subject, by, action, since, until, limit, after] = parameters(query, names, &mut faults);
    let action = action.and_then(|word| {
        let rule = "must be an action of the audit log";
        Action::of_word(&word).or_else(|| faults.add("action", rule))
    });
    let after = after.and_then(|after| {
        let number = after.parse().ok();
        let is_next = |number: &i64| (1..END).contains(number) && number.to_string() == after;
        let number = number.filter(is_next);
        number.or_else(|| faults.add("after", "must be the next of the page before"))
    });
    let query = AuditQuery {
        subject: text("subject", subject, &mut faults),
        by: text("by", by, &mut faults),
        action,
        since: time("since", since, &mut faults),
        until: time("until", until, &mut faults),
        after,
        limit: page_size(limit, &mut faults),
    };
    faults.end(query)
}

fn text(field: &'static str, text: Option<String>, faults: &mut Faults) -> Option<String> {
    let text = text.as_deref().map(plain_text).transpose();
    faults.value(field, text)
}

fn time(field: &'static str, time: Option<String>, faults: &mut Faults) -> Option<Timestamp> {
    let rule = "must be a time like 2030-01-31T12:00:00Z";
    // The database knows no time of very long ago.
    let parsed = |text: String| {
        text.parse()
            .ok()
            .filter(|time| *time >= Timestamp::UNIX_EPOCH)
    };
    time.and_then(|text| parsed(text).or_else(|| faults.add(field, rule)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_chosen_by_each_of_their_properties() {
        assert_eq!(
            read(None).unwrap(),
            AuditQuery {
                limit: 100,
                ..AuditQuery::default()
            }
        );
        let query = "subject=k7Qm2xB&by=pod%2Fa&action=link_deleted&since=2030-01-01T00:00:00Z\
            &until=2030-02-01T00:00:00%2B01:00&limit=7&after=9";
        let found = read(Some(query)).unwrap();
        assert_eq!(found.subject.as_deref(), Some("k7Qm2xB"));
        assert_eq!(found.by.as_deref(), Some("pod/a"));
        assert_eq!(found.action, Some(Action::LinkDeleted));
        let times = [found.since, found.until].map(|time| time.unwrap().to_string());
        assert_eq!(times, ["2030-01-01T00:00:00Z", "2030-01-31T23:00:00Z"]);
        assert_eq!((found.limit, found.after), (7, Some(9)));
    }

    #[test]
    fn every_invalid_parameter_is_named() {
        for (query, expected) in [
            ("action=purged&limit=0", &["action", "limit"][..]),
            ("subject=a%00&by=%00", &["subject", "by"]),
            ("since=yesterday&until=1", &["since", "until"]),
            ("since=-009000-01-01T00:00:00Z", &["since"]),
            ("after=0", &["after"]),
            ("after=x", &["after"]),
            ("after=%2B1", &["after"]),
            ("after=01", &["after"]),
            ("after=1000000000000000000", &["after"]),
            ("subject=&by=a%01", &["subject", "by"]),
            ("before=1", &["query"]),
        ] {
            let Err(Error::InvalidFields(faults)) = read(Some(query)) else {
                panic!("{query}");
            };
            let mut fields: Vec<&str> = faults.iter().map(|fault| fault.field).collect();
            fields.sort_unstable();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(fields, expected, "{query}");
        }
    }
}
