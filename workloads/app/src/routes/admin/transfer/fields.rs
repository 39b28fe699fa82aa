//! The parsers of queries, and of the lines of an import. Each reports every fault at once.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    super::{page_size_up_to, parameters, plain_text},
    MAX_LINKS, Refused,
};
use crate::{
    code::{Code, CodeError, MAX_LENGTH},
    destination::Destinations,
    error::{Error, FieldError},
    faults::Faults,
    routes::{
        labels,
        shorten::{MAX_LIFE, whole_microseconds},
    },
    store::management::{How, LinkTakedown, PortableLink},
    target, template,
};

/// The most clicks of a day: no link has as many, and the sum of all its days fits into a number of the database.
const MAX_CLICKS: i64 = 1_000_000_000_000;
/// The difference of two clocks that is no fault.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The fields of a line, with the rule for the type of each.
const TYPES: [(&str, &str); 12] = [
    ("code", "must be a string"),
    ("url", "must be a string"),
    ("template", "must be true or false"),
    ("host", "must be a string"),
    ("created_by", "must be a string"),
    ("created_at", TIME),
    ("expires_at", TIME),
    (
        "disabled",
        "must be an object with the time `at`, and with `as`, which is gone, legal or deleted",
    ),
    ("title", "must be a string"),
    ("tags", "must be an array of strings"),
    ("note", "must be a string"),
    (
        "clicks",
        "must be an array of objects with the date `day` and the numbers `people` and `bots`",
    ),
];
const TIME: &str = "must be a time like 2030-01-31T12:00:00Z";
const DELETED: &str = "must be empty: the link was deleted";
const BEFORE_1970: &str = "must not be before 1970";

/// Parses the query of an export: the code before the page, and the number of its links.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid parameter.
pub(super) fn page(query: Option<&str>) -> Result<(String, usize), Error> {
    let mut faults = Faults::default();
    let [after, limit] = parameters(query, ["after", "limit"], &mut faults);
    let limit = page_size_up_to(MAX_LINKS, limit, &mut faults);
    let after = after.map(|after| match Code::parse(&after) {
        Ok(_) | Err(CodeError::Reserved) => Ok(after),
        Err(error) => Err(error.to_string()),
    });
    let after = faults.value("after", after.transpose());
    faults.end((after.unwrap_or_default(), limit))
}

/// Parses the query of an import: true if nothing shall be stored.
///
/// # Errors
/// Returns [`Error::InvalidFields`] with one entry per invalid parameter.
pub(super) fn dry_run(query: Option<&str>) -> Result<bool, Error> {
    let mut faults = Faults::default();
    let [dry_run] = parameters(query, ["dry_run"], &mut faults);
    let dry_run = match dry_run.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => faults.add("dry_run", "must be true or false"),
    };
    faults.end(dry_run)
}

/// Parses a line.
///
/// # Errors
/// Fails with the code, if there is one, and with one entry per invalid field.
pub(super) fn link(
    line: &[u8],
    destinations: &Destinations,
    now: Timestamp,
) -> Result<PortableLink, Refused> {
    let mut link = typed(line).map_err(|fault| (None, vec![fault]))?;
    link.created_at = link.created_at.map(whole_microseconds);
    link.expires_at = link.expires_at.map(whole_microseconds);
    let mut faults = Faults::default();
    let mut check = |field, checked: Result<(), String>| faults.value(field, checked);
    check("code", text(Code::parse(&link.code).map(drop)));
    let template = || match &link.url {
        Some(url) if link.template => text(template::check(url)),
        _ => Ok(()),
    };
    let url = destination(&link, destinations, now);
    check("url", url.and_then(|()| template()));
    check("host", host(&link));
    check("created_by", line_of(link.created_by.as_deref()));
    check("created_at", past(link.created_at, now));
    check("expires_at", end(link.expires_at, now));
    if let Some(down) = &mut link.disabled {
        down.at = whole_microseconds(down.at);
        check("disabled", takedown(down, now));
    }
    check("title", label(&link, link.title.as_deref(), labels::title));
    check("note", label(&link, link.note.as_deref(), labels::note));
    if is_deleted(&link) && !link.tags.is_empty() {
        check("tags", Err(DELETED.to_owned()));
    }
    match labels::tags(link.tags.iter().map(String::as_str).collect()) {
        Ok(tags) => link.tags = tags,
        Err(rule) => check("tags", Err(rule)),
    }
    check("clicks", clicks(&link, now));
    match faults.end(()) {
        Err(Error::InvalidFields(faults)) => Err((shown(link.code), faults)),
        _ => Ok(link),
    }
}

/// Checks a title or a note as those of new links are. A deletion removes it.
fn label(
    link: &PortableLink,
    text: Option<&str>,
    rule: fn(Value) -> Result<String, String>,
) -> Result<(), String> {
    match text {
        Some(_) if is_deleted(link) => Err(DELETED.to_owned()),
        Some(text) => rule(text.into()).map(drop),
        None => Ok(()),
    }
}

/// Reads the fields, whatever their values are.
fn typed(line: &[u8]) -> Result<PortableLink, FieldError> {
    let fault = |field, reason: &str| FieldError {
        field,
        reason: reason.to_owned(),
    };
    // A list of the values would be read as well.
    if !line.starts_with(b"{") {
        return Err(fault("line", "must be a JSON object"));
    }
    let mut parser = serde_json::Deserializer::from_slice(line);
    let link = serde_path_to_error::deserialize(&mut parser);
    let link: PortableLink = link.map_err(|error| {
        let path = error.path().to_string();
        let of_field = |(name, _): &&(&str, &str)| path.split(['.', '[']).next() == Some(name);
        match TYPES.iter().find(of_field) {
            Some((name, rule)) if error.inner().is_data() => fault(name, rule),
            _ => fault("line", "must be a JSON object"),
        }
    })?;
    let end = parser.end();
    end.map_err(|_| fault("line", "must be one JSON object"))?;
    Ok(link)
}

fn text<T>(checked: Result<T, impl ToString>) -> Result<T, String> {
    checked.map_err(|error| error.to_string())
}

/// Returns the code as far as it is worth showing.
fn shown(code: String) -> Option<String> {
    (1..=MAX_LENGTH).contains(&code.len()).then_some(code)
}

/// A purge removes the destination of an expired link, and a deletion that of any.
fn destination(
    link: &PortableLink,
    destinations: &Destinations,
    now: Timestamp,
) -> Result<(), String> {
    let is_deleted = is_deleted(link);
    let has_expired = link.expires_at.is_some_and(|end| end <= now);
    match &link.url {
        Some(_) if is_deleted => Err(DELETED.to_owned()),
        Some(url) => text(destinations.check(url)),
        None if is_deleted || has_expired => Ok(()),
        None => Err("is required, unless the link has expired or was deleted".to_owned()),
    }
}

fn is_deleted(link: &PortableLink) -> bool {
    let down = link.disabled.as_ref();
    down.is_some_and(|down| down.how == How::Deleted)
}

fn host(link: &PortableLink) -> Result<(), String> {
    let Some(host) = link.host.as_deref() else {
        return Ok(());
    };
    if is_deleted(link) {
        return Err(DELETED.to_owned());
    }
    let expected = match &link.url {
        Some(url) => target::host(url),
        None => target::canonical_host(host),
    };
    match expected.as_deref() == Some(host) {
        true => Ok(()),
        false => Err("must be the host of the destination, in ASCII and lower case".to_owned()),
    }
}

fn line_of(value: Option<&str>) -> Result<(), String> {
    value.map_or(Ok(()), |value| plain_text(value).map(drop))
}

fn past(time: Option<Timestamp>, now: Timestamp) -> Result<(), String> {
    let latest = now.checked_add(SKEW).unwrap_or(Timestamp::MAX);
    match time {
        Some(time) if time > latest => Err("must not be in the future".to_owned()),
        Some(time) if time < Timestamp::UNIX_EPOCH => Err(BEFORE_1970.to_owned()),
        _ => Ok(()),
    }
}

fn end(time: Option<Timestamp>, now: Timestamp) -> Result<(), String> {
    let latest = now.checked_add(MAX_LIFE).unwrap_or(Timestamp::MAX);
    match time {
        Some(time) if time > latest => Err("must be within 5 years".to_owned()),
        Some(time) if time < Timestamp::UNIX_EPOCH => Err(BEFORE_1970.to_owned()),
        _ => Ok(()),
    }
}

fn takedown(down: &LinkTakedown, now: Timestamp) -> Result<(), String> {
    let of = |name: &'static str| move |rule: String| format!("`{name}` {rule}");
    past(Some(down.at), now).map_err(of("at"))?;
    line_of(down.by.as_deref()).map_err(of("by"))?;
    line_of(down.reason.as_deref()).map_err(of("reason"))?;
    match &down.notice {
        Some(_) if down.how != How::Legal => Err("`notice` needs `as` legal".to_owned()),
        notice => line_of(notice.as_deref()).map_err(of("notice")),
    }
}

fn clicks(link: &PortableLink, now: Timestamp) -> Result<(), String> {
    let days = link.clicks.iter().map(|clicks| clicks.day);
    if !days.is_sorted_by(|one, next| one < next) {
        return Err("must be in the order of their days, each once".to_owned());
    }
    let latest = now.checked_add(SKEW).unwrap_or(now);
    let latest = latest.to_zoned(jiff::tz::TimeZone::UTC).date();
    let earliest = Timestamp::UNIX_EPOCH
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date();
    let is_known = |day| (earliest..=latest).contains(&day);
    if !link.clicks.iter().all(|clicks| is_known(clicks.day)) {
        return Err("must not be in the future or before 1970".to_owned());
    }
    let is_number = |number: i64| (0..=MAX_CLICKS).contains(&number);
    let mut numbers = link.clicks.iter().map(|day| &day.clicks);
    match numbers.all(|clicks| is_number(clicks.people) && is_number(clicks.bots)) {
        true => Ok(()),
        false => Err(format!("must be numbers from 0 to {MAX_CLICKS}")),
    }
}
