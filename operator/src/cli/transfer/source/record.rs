//! The names of the parts of a link in the files of each shortener, and the link that the app takes.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde_json::{Map, Value, json};

use super::{Item, MAX_LINK, Sink, SourceError, row::Row};
use crate::cli::transfer::Format;

/// The maximum length of a title in characters.
const TITLE: usize = 200;

/// The plain names of the columns or fields of a shortener.
pub(super) struct Columns {
    /// Codes, or short URLs; a link with several of them becomes several links.
    pub(super) codes: &'static [&'static str],
    /// True if these are codes, which may look like the end of a URL.
    are_codes: bool,
    /// Destination.
    pub(super) url: &'static [&'static str],
    created_at: &'static [&'static str],
    expires_at: &'static [&'static str],
    title: &'static [&'static str],
    tags: &'static [&'static str],
    note: &'static [&'static str],
    /// True if the link was banned.
    banned: &'static [&'static str],
    /// Something that the service cannot do: the link would lead more people to its destination than before.
    limits: &'static [(&'static str, &'static str)],
}

const NONE: Columns = Columns {
    codes: &[],
    are_codes: false,
    url: &[],
    created_at: &[],
    expires_at: &[],
    title: &["title"],
    tags: &["tags"],
    note: &[],
    banned: &[],
    limits: &[],
};

const BITLY: Columns = Columns {
    codes: &[
        "bitlink",
        "link",
        "shortlink",
        "shorturl",
        "custombitlink",
        "custombitlinks",
    ],
    url: &["longurl", "destinationurl", "originalurl"],
    created_at: &["createdat", "created", "datecreated"],
    ..NONE
};

const YOURLS: Columns = Columns {
    codes: &["keyword", "shorturl", "source"],
    url: &["url", "target"],
    created_at: &["timestamp"],
    ..NONE
};

const SHLINK: Columns = Columns {
    codes: &["shortcode"],
    are_codes: true,
    url: &["longurl"],
    created_at: &["createdat", "datecreated"],
    expires_at: &["metavaliduntil", "validuntil"],
    limits: &[
        ("metamaxvisits", "a maximum number of visits"),
        ("metavalidsince", "a time before which it is not valid"),
    ],
    ..NONE
};

const KUTT: Columns = Columns {
    codes: &["address"],
    are_codes: true,
    url: &["target"],
    created_at: &["createdat"],
    expires_at: &["expirein"],
    title: &[],
    tags: &[],
    note: &["description"],
    banned: &["banned"],
    limits: &[("password", "a password")],
};

impl Columns {
    /// Returns those of a format; `None` for that of this program.
    pub(super) fn of(format: Format) -> Option<&'static Self> {
        match format {
            Format::Ndjson => None,
            Format::Bitly => Some(&BITLY),
            Format::Yourls => Some(&YOURLS),
            Format::Shlink => Some(&SHLINK),
            Format::Kutt => Some(&KUTT),
        }
    }
}

/// Passes on the links of a row.
pub(super) fn links(row: &Row, columns: &Columns, sink: Sink<'_>) -> Result<(), SourceError> {
    let code = match columns.are_codes {
        true => str::to_owned,
        false => code_of,
    };
    let mut codes: Vec<String> = row.all(columns.codes).map(code).collect();
    let mut seen = std::collections::HashSet::new();
    codes.retain(|code| seen.insert(code.clone()));
    let refused = |code, reason| Item::Refused {
        line: row.line,
        code,
        reason,
    };
    if codes.is_empty() {
        let reason = format!("the link has no {}", columns.codes.join(" or "));
        return sink(refused(None, reason));
    }
    let link = match row.has_excess {
        true => Err("the line has more columns than the header: quote its texts".to_owned()),
        false => link(row, columns),
    };
    for code in codes {
        sink(match &link {
            Err(reason) => refused(Some(code), reason.clone()),
            Ok(link) => {
                let mut link = link.clone();
                link.insert("code".to_owned(), json!(code));
                let json = Value::Object(link).to_string();
                match json.len() < MAX_LINK {
                    true => Item::Link {
                        line: row.line,
                        code,
                        json,
                    },
                    false => refused(Some(code), "the link is longer than 128 KiB".to_owned()),
                }
            }
        })?;
    }
    Ok(())
}

/// Returns the code of a short URL, or the code itself.
fn code_of(text: &str) -> String {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let path = match rest.split_once('/') {
        // The path of a code alone.
        Some((host, path)) if host.is_empty() || host.contains('.') || rest != text => path,
        _ => rest,
    };
    path.trim_matches('/').to_owned()
}

/// Returns the link without its code.
fn link(row: &Row, columns: &Columns) -> Result<Map<String, Value>, String> {
    let is_set =
        |text: &&str| !matches!(text.to_lowercase().as_str(), "false" | "0" | "null" | "f");
    // A start time in the past is no limit.
    let is_over = |text: &str| {
        let time = text.parse::<Timestamp>();
        time.is_ok_and(|time| time <= Timestamp::now())
    };
    let holds = |text: &&str| is_set(text) && !is_over(text);
    let limit = |(name, _): &&(&str, &str)| row.first(&[name]).filter(holds).is_some();
    if let Some((_, what)) = columns.limits.iter().find(limit) {
        return Err(format!("the link has {what}, and links here have none"));
    }
    let Some(url) = row.first(columns.url) else {
        return Err(format!("the link has no {}", columns.url.join(" or ")));
    };
    let created_at = time(row, columns.created_at)?;
    let mut link = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            link.insert(name.to_owned(), value);
        }
    };
    add("url", Some(json!(url)));
    add("created_at", created_at.map(|time| json!(time)));
    add(
        "expires_at",
        time(row, columns.expires_at)?.map(|time| json!(time)),
    );
    add(
        "title",
        row.first(columns.title)
            .map(|title| json!(shortened(title))),
    );
    add("note", row.first(columns.note).map(|note| json!(note)));
    let tags = tags(row, columns);
    add("tags", (!tags.is_empty()).then(|| json!(tags)));
    if row.first(columns.banned).filter(is_set).is_some() {
        let at = created_at.unwrap_or_else(Timestamp::now);
        add(
            "disabled",
            Some(json!({"at": at, "as": "gone", "reason": "banned before the import"})),
        );
    }
    Ok(link)
}

/// Returns a title in one line and of a length that a title may have.
fn shortened(title: &str) -> String {
    let plain = |sign: char| if sign.is_control() { ' ' } else { sign };
    let title: String = title.chars().map(plain).collect();
    match title.char_indices().nth(TITLE) {
        None => title,
        Some(_) => title.chars().take(TITLE - 1).chain(['…']).collect(),
    }
}

/// Returns the tags, of which tables have several in one column.
fn tags(row: &Row, columns: &Columns) -> Vec<String> {
    let texts = row
        .all(columns.tags)
        .flat_map(|text| text.split(['|', ',', ';']));
    let tags = texts.map(|tag| tag.trim().to_lowercase());
    let mut tags: Vec<String> = tags.filter(|tag| !tag.is_empty()).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Returns a time, in UTC if it names no other zone.
fn time(row: &Row, names: &[&str]) -> Result<Option<Timestamp>, String> {
    let Some(text) = row.first(names) else {
        return Ok(None);
    };
    // Some programs write a zero where they have no time.
    if text.starts_with("0000-00-00") {
        return Ok(None);
    }
    let unix = || Timestamp::from_second(text.parse().ok()?).ok();
    let local = || {
        let time: DateTime = text.parse().ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse().ok().or_else(unix).or_else(local);
    time.map(Some)
        .ok_or_else(|| format!("the time {text:?} is none like 2030-01-31T12:00:00Z"))
}
