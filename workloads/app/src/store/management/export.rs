//! The export of links in the order of their codes, a page at a time.

use futures::TryStreamExt;
use jiff_sqlx::{Date, Timestamp as Time};
use shortener_common::database::{StoreError, begin_with};
use sqlx::{FromRow, PgConnection, Row as _, postgres::PgRow};

use super::{IN_ORDER, Management, record::LinkTakedown, transfer::PortableLink};
use crate::{
    rights::Rights,
    store::clicks::{ClickTotals, ClicksOfDay},
};

/// Both statements of a page see the same state.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Reads links until `$3` bytes are exceeded; `size` is that of the texts of a link and of all before it. The indexes of
/// codes give the rows in order from the begin of the page, and nothing behind it is read: the limits are written out, so
/// that no plan expects more rows.
macro_rules! links {
    ($title_and_note:literal, $labels:literal, $condition:literal) => {
        concat!(
            "SELECT code, destination, is_template, host, created_by, created_at, expires_at, \
            disabled_at, disabled_as, disabled_by, reason, notice, title, tags, note, size FROM ( \
            SELECT *, sum(own) OVER (ORDER BY code ROWS UNBOUNDED PRECEDING)::bigint AS size FROM ( \
            SELECT *, octet_length(concat(code, destination, host, created_by, disabled_by, reason, notice, title, note, \
            array_to_string(tags, ''))) AS own FROM ( \
            SELECT links.code, coalesce(url, disabled_url) AS destination, is_template, host, created_by, links.created_at, expires_at, \
            disabled_at, disabled_as, disabled_by, reason, notice, ",
            $title_and_note,
            ", ARRAY(SELECT tag FROM link_tags WHERE link_tags.code = links.code) AS tags FROM links",
            $labels,
            " WHERE links.code > $1",
            $condition,
            " ORDER BY links.code LIMIT 1000) read) measured) page \
            WHERE size - own <= $3 ORDER BY code LIMIT $2"
        )
    };
}

const LINKS: &str = links!(
    "title, note",
    " LEFT JOIN link_labels ON link_labels.code = links.code AND link_labels.code > $1",
    ""
);

/// The same of the links of one creator, with the settings of [`IN_ORDER`]. Their codes are far apart, so each has its labels
/// looked up.
pub const OWN_LINKS: &str = links!(
    "(SELECT title FROM link_labels WHERE link_labels.code = links.code) AS title, \
    (SELECT note FROM link_labels WHERE link_labels.code = links.code) AS note",
    "",
    " AND created_by = $4"
);

/// Reads the clicks on the links of a page.
const CLICKS: &str = "SELECT code, day, people, bots FROM clicks WHERE code > $1 AND code <= $2 \
    ORDER BY code, day LIMIT 10000";

/// The same of the links of one creator, whose codes are in order: those between them are not read. A nested loop, the only
/// join with a limited subquery that refers to the other side, keeps the order of the codes. To ask for that order would sort
/// the clicks on all links of the page before the first one is written.
pub const OWN_CLICKS: &str = "SELECT own.code, day, people, bots FROM unnest($1::text[]) AS own (code) CROSS JOIN LATERAL \
    (SELECT day, people, bots FROM clicks WHERE clicks.code = own.code ORDER BY day LIMIT 10000) AS clicks LIMIT 10000";

/// The limit of both: 27 years. A page with many more days is full before.
const DAYS: usize = 10_000;

/// A row of [`LINKS`].
struct Row {
    link: PortableLink,
    size: i64,
}

impl FromRow<'_, PgRow> for Row {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let time = |name| {
            row.try_get(name)
                .map(|time: Option<Time>| time.map(Time::to_jiff))
        };
        // The statement does not sort them: a planner that avoids sorting would read the tags of all links.
        let mut tags: Vec<String> = row.try_get("tags")?;
        tags.sort();
        let link = PortableLink {
            code: row.try_get("code")?,
            url: row.try_get("destination")?,
            template: row.try_get("is_template")?,
            host: row.try_get("host")?,
            created_by: row.try_get("created_by")?,
            created_at: time("created_at")?,
            expires_at: time("expires_at")?,
            disabled: LinkTakedown::of(row)?,
            title: row.try_get("title")?,
            tags,
            note: row.try_get("note")?,
            clicks: Vec::new(),
        };
        let size = row.try_get("size")?;
        Ok(Self { link, size })
    }
}

/// A page of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportPage {
    /// Links, each as a line of JSON.
    pub text: Vec<u8>,
    /// The last code of the page, if there may be more links.
    pub next: Option<String>,
}

impl Management {
    /// Returns up to `limit` links behind a code, in the order of codes, of those that the rights include. The page ends before the line with which it would
    /// be longer than `bytes`, unless that is its first one.
    pub async fn export(
        &self,
        (after, limit): (&str, usize),
        bytes: usize,
        rights: &Rights,
    ) -> Result<ExportPage, StoreError> {
        self.0
            .look_up("SELECT links", |pool| async move {
                let mut transaction = begin_with(&pool, BEGIN).await?;
                let page = page(&mut transaction, (after, limit), bytes, rights).await?;
                transaction.commit().await?;
                Ok(page)
            })
            .await
    }
}

async fn page(
    connection: &mut PgConnection,
    (after, limit): (&str, usize),
    bytes: usize,
    rights: &Rights,
) -> Result<ExportPage, sqlx::Error> {
    let rows = links(connection, (after, limit), bytes, rights).await?;
    let Some(last) = rows.last() else {
        return Ok(ExportPage::default());
    };
    let may_be_more = rows.len() == limit || last.size > bytes as i64;
    let last = last.link.code.clone();
    let clicks = match rights.owner() {
        None => sqlx::query_as(CLICKS).bind(after).bind(last),
        Some(_) => {
            let codes = rows.iter().map(|row| row.link.code.clone());
            sqlx::query_as(OWN_CLICKS).bind(Vec::from_iter(codes))
        }
    };
    let mut clicks = clicks.fetch(connection);
    let mut days = 0;
    let mut next: Option<(String, Date, i64, i64)> = clicks.try_next().await?;
    let mut page = ExportPage::default();
    let mut written = None;
    for Row { link, .. } in rows {
        let start = page.text.len();
        begin_line(&mut page.text, &link)?;
        let code = link.code;
        while let Some((of, day, people, bots)) = next.take_if(|next| next.0 <= code) {
            days += 1;
            if of == code {
                let day = day.to_jiff();
                add_clicks(
                    &mut page.text,
                    ClicksOfDay {
                        day,
                        clicks: ClickTotals { people, bots },
                    },
                )?;
            }
            if written.is_some() && page.text.len() > bytes {
                break;
            }
            next = clicks.try_next().await?;
        }
        page.text.extend_from_slice(b"]}\n");
        // Further days may not have been read.
        let is_cut = days == DAYS;
        if written.is_some() && (is_cut || page.text.len() > bytes) {
            page.text.truncate(start);
            page.next = written;
            return Ok(page);
        }
        written = Some(code);
    }
    page.next = written.filter(|_| may_be_more);
    Ok(page)
}

async fn links(
    connection: &mut PgConnection,
    (after, limit): (&str, usize),
    bytes: usize,
    rights: &Rights,
) -> Result<Vec<Row>, sqlx::Error> {
    let owner = rights.owner();
    if owner.is_some() {
        sqlx::query(IN_ORDER).execute(&mut *connection).await?;
    }
    let links = sqlx::query_as(owner.map_or(LINKS, |_| OWN_LINKS)).bind(after);
    let links = links.bind(limit as i64).bind(bytes as i64);
    let links = owner
        .into_iter()
        .fold(links, |links, owner| links.bind(owner));
    links.fetch_all(connection).await
}

/// Writes the line of a link up to its clicks.
fn begin_line(text: &mut Vec<u8>, link: &PortableLink) -> Result<(), sqlx::Error> {
    serde_json::to_writer(&mut *text, link).map_err(unwritten)?;
    text.pop();
    text.extend_from_slice(b",\"clicks\":[");
    Ok(())
}

fn add_clicks(text: &mut Vec<u8>, clicks: ClicksOfDay) -> Result<(), sqlx::Error> {
    if text.last() == Some(&b'}') {
        text.push(b',');
    }
    serde_json::to_writer(text, &clicks).map_err(unwritten)
}

fn unwritten(error: serde_json::Error) -> sqlx::Error {
    sqlx::Error::Encode(error.into())
}
