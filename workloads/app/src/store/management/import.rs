//! The import of links: one transaction for all links of a request, and one statement for each table.
//!
//! A code that exists stays as it is. A repeated import therefore changes nothing.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Time, ToSqlx};
use serde_json::json;
use shortener_common::database::{StoreError, begin};
use sqlx::PgConnection;

use super::{How, Management, transfer::PortableLink};
use crate::{
    store::{
        audit::{self, Action, Cause, NewEntry},
        clicks::ClicksOfDay,
        labels,
    },
    target,
};

/// Two imports with the same codes wait for each other in the order of the codes.
const LINKS: &str = "INSERT INTO links (code, url, host, created_by, created_at, expires_at, disabled_url, \
    disabled_at, disabled_as, disabled_by, reason, notice, is_template) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], \
    $7::text[], $8::timestamptz[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bool[]) \
    ON CONFLICT (code) DO NOTHING RETURNING code";

const EXISTING: &str = "SELECT code, coalesce(url, disabled_url), created_at, \
    coalesce(disabled_as = 'deleted', false), is_template FROM links WHERE code = ANY($1)";

const LABELS: &str = "INSERT INTO link_labels (code, title, note) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING";

const TAGS: &str = "INSERT INTO link_tags (tag, created_at, code) \
    SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[]) ON CONFLICT DO NOTHING";

const WORDS: &str = "INSERT INTO link_title_words (word, created_at, code) \
    SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[]) ON CONFLICT DO NOTHING";

const CLICKS: &str = "INSERT INTO clicks (code, day, people, bots) \
    SELECT * FROM unnest($1::text[], $2::date[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING";

/// Links to be imported.
#[derive(Clone, Debug)]
pub struct Import {
    /// Links, already checked, in the order of their lines.
    pub links: Vec<PortableLink>,
    /// The number of lines that are no such links.
    pub invalid: usize,
    /// The creation time of links without one, in whole microseconds.
    pub now: Timestamp,
    /// True if nothing is stored.
    pub dry_run: bool,
}

/// The result of importing a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The link was stored.
    Created,
    /// The link exists: its code has this destination and this creation time.
    Unchanged,
    /// The code belongs to another link.
    Conflict(&'static str),
}

/// The number of links by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub created: usize,
    pub unchanged: usize,
    pub conflict: usize,
    pub invalid: usize,
}

/// What two links with one code have to have in common.
struct Identity<'a> {
    url: Option<&'a str>,
    is_template: bool,
    created_at: Option<Timestamp>,
    is_deleted: bool,
}

/// A row of [`EXISTING`].
type Existing = (String, Option<String>, Time, bool, bool);

impl Summary {
    /// Counts these results, beside lines that are invalid.
    pub fn of(results: &[Imported], invalid: usize) -> Self {
        let count = |is: fn(&Imported) -> bool| results.iter().filter(|result| is(result)).count();
        Self {
            created: count(|result| matches!(result, Imported::Created)),
            unchanged: count(|result| matches!(result, Imported::Unchanged)),
            conflict: count(|result| matches!(result, Imported::Conflict(_))),
            invalid,
        }
    }
}

impl Management {
    /// Stores the links whose codes are free, and returns a result for each link in order. The audit log gets one entry in
    /// the same transaction if a link is stored.
    ///
    /// # Errors
    /// Fails if the database is down. All of the links or none of them may then have been stored.
    pub async fn import(
        &self,
        import: &Import,
        cause: &Cause,
    ) -> Result<Vec<Imported>, StoreError> {
        self.0
            .run("INSERT links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let stored = match import.dry_run {
                    true => HashSet::new(),
                    false => store(&mut transaction, import).await?,
                };
                let results = results(&mut transaction, import, &stored).await?;
                if !stored.is_empty() {
                    let entry = entry(&results, import.invalid);
                    audit::write(&mut *transaction, cause, &entry).await?;
                }
                transaction.commit().await?;
                Ok(results)
            })
            .await
    }
}

/// Stores the links whose codes are free. Returns these codes.
async fn store(
    connection: &mut PgConnection,
    import: &Import,
) -> Result<HashSet<String>, sqlx::Error> {
    let mut links: Vec<&PortableLink> = import.links.iter().collect();
    // The first of several lines with one code counts: the order of equal ones is kept.
    links.sort_by(|one, other| one.code.cmp(&other.code));
    links.dedup_by(|next, kept| next.code == kept.code);
    let stored: HashSet<String> = insert(connection, &links, import.now).await?;
    links.retain(|link| stored.contains(&link.code));
    insert_labels(connection, &links, import.now).await?;
    insert_clicks(connection, &links).await?;
    Ok(stored)
}

/// Returns the values of a column.
fn column<'a, T>(
    links: &[&'a PortableLink],
    value: impl Fn(&'a PortableLink) -> Option<T>,
) -> Vec<Option<T>> {
    links.iter().map(|link| value(link)).collect()
}

async fn insert(
    connection: &mut PgConnection,
    links: &[&PortableLink],
    now: Timestamp,
) -> Result<HashSet<String>, sqlx::Error> {
    let codes: Vec<&str> = links.iter().map(|link| link.code.as_str()).collect();
    let url = |is_down| {
        column(links, move |link| {
            let url = link.url.as_deref();
            url.filter(|_| link.disabled.is_some() == is_down)
        })
    };
    let takedown = |value: fn(&super::LinkTakedown) -> Option<&str>| {
        column(links, move |link| link.disabled.as_ref().and_then(value))
    };
    let created_at = |link: &PortableLink| Some(link.created_at.unwrap_or(now).to_sqlx());
    let disabled_at = |link: &PortableLink| link.disabled.as_ref().map(|down| down.at.to_sqlx());
    let host = |link: &PortableLink| match &link.url {
        Some(url) => target::host(url),
        None => link.host.clone(),
    };
    let stored: Vec<String> = sqlx::query_scalar(LINKS)
        .bind(codes)
        .bind(url(false))
        .bind(column(links, host))
        .bind(column(links, |link| link.created_by.as_deref()))
        .bind(column(links, created_at))
        .bind(column(links, |link| link.expires_at.map(ToSqlx::to_sqlx)))
        .bind(url(true))
        .bind(column(links, disabled_at))
        .bind(takedown(|down| Some(down.how.as_str())))
        .bind(takedown(|down| down.by.as_deref()))
        .bind(takedown(|down| down.reason.as_deref()))
        .bind(takedown(|down| down.notice.as_deref()))
        .bind(column(links, |link| Some(link.template)))
        .fetch_all(connection)
        .await?;
    Ok(stored.into_iter().collect())
}

async fn insert_labels(
    connection: &mut PgConnection,
    links: &[&PortableLink],
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let mut labelled = links.to_vec();
    labelled.retain(|link| link.title.is_some() || link.note.is_some());
    if !labelled.is_empty() {
        let labels = sqlx::query(LABELS)
            .bind(column(&labelled, |link| Some(link.code.as_str())))
            .bind(column(&labelled, |link| link.title.as_deref()))
            .bind(column(&labelled, |link| link.note.as_deref()));
        labels.execute(&mut *connection).await?;
    }
    for (statement, words) in [
        (TAGS, (|link| link.tags.clone()) as fn(&PortableLink) -> _),
        (WORDS, |link| {
            let title = link.title.as_deref();
            Vec::from_iter(labels::words(title.unwrap_or_default()))
        }),
    ] {
        let (mut texts, mut times, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for link in links {
            for word in words(link) {
                texts.push(word);
                times.push(link.created_at.unwrap_or(now).to_sqlx());
                codes.push(link.code.as_str());
            }
        }
        if !texts.is_empty() {
            let query = sqlx::query(statement).bind(texts).bind(times).bind(codes);
            query.execute(&mut *connection).await?;
        }
    }
    Ok(())
}

async fn insert_clicks(
    connection: &mut PgConnection,
    links: &[&PortableLink],
) -> Result<(), sqlx::Error> {
    let days = || {
        let days = |link: &&PortableLink| link.clicks.len();
        Vec::with_capacity(links.iter().map(days).sum())
    };
    let (mut codes, mut dates) = (days(), Vec::new());
    let (mut people, mut bots) = (Vec::new(), Vec::new());
    for link in links {
        for ClicksOfDay { day, clicks } in &link.clicks {
            codes.push(link.code.as_str());
            dates.push(day.to_sqlx());
            people.push(clicks.people);
            bots.push(clicks.bots);
        }
    }
    if codes.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(CLICKS).bind(codes).bind(dates);
    let query = query.bind(people).bind(bots);
    query.execute(connection).await.map(drop)
}

/// Returns the result of each link in order.
async fn results(
    connection: &mut PgConnection,
    import: &Import,
    stored: &HashSet<String>,
) -> Result<Vec<Imported>, sqlx::Error> {
    let others = import.links.iter().map(|link| link.code.as_str());
    let others: Vec<&str> = others.filter(|code| !stored.contains(*code)).collect();
    let existing: Vec<Existing> = match others.is_empty() {
        true => Vec::new(),
        false => {
            let existing = sqlx::query_as(EXISTING).bind(others);
            existing.fetch_all(connection).await?
        }
    };
    let mut known: HashMap<&str, Identity<'_>> = existing
        .iter()
        .map(|(code, url, created_at, is_deleted, is_template)| {
            let identity = Identity {
                url: url.as_deref(),
                is_template: *is_template,
                created_at: Some(created_at.to_jiff()),
                is_deleted: *is_deleted,
            };
            (code.as_str(), identity)
        })
        .collect();
    let of = |link| match known.get(link_code(link)) {
        Some(one) => one.compare(link),
        None => {
            known.insert(link_code(link), Identity::of(link));
            Imported::Created
        }
    };
    Ok(import.links.iter().map(of).collect())
}

fn link_code(link: &PortableLink) -> &str {
    &link.code
}

impl<'a> Identity<'a> {
    fn of(link: &'a PortableLink) -> Self {
        let is_deleted = |down: &super::LinkTakedown| down.how == How::Deleted;
        Self {
            url: link.url.as_deref(),
            is_template: link.template,
            created_at: link.created_at,
            is_deleted: link.disabled.as_ref().is_some_and(is_deleted),
        }
    }

    /// Compares the link that has a code with one that is to get it. What changes in the life of a link makes no difference,
    /// except the removal of its destination.
    fn compare(&self, link: &PortableLink) -> Imported {
        let new = Identity::of(link);
        let same_time = match (self.created_at, new.created_at) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        let same_url = (self.url, self.is_template) == (new.url, new.is_template);
        match (same_url, same_time) {
            (true, true) if self.is_deleted == new.is_deleted => Imported::Unchanged,
            _ if self.is_deleted => Imported::Conflict("the link of this code was deleted"),
            (false, _) if self.url.is_none() => {
                Imported::Conflict("the link of this code has expired")
            }
            (false, _) => Imported::Conflict("the code has another destination"),
            (true, _) => Imported::Conflict("the link of this code was created at another time"),
        }
    }
}

/// Returns the entry of the audit log about an import.
fn entry(results: &[Imported], invalid: usize) -> NewEntry {
    let Summary {
        created,
        unchanged,
        conflict,
        invalid,
    } = Summary::of(results, invalid);
    NewEntry {
        action: Action::LinksImported,
        subject: None,
        detail: Some(json!({
            "created": created, "unchanged": unchanged, "conflict": conflict, "invalid": invalid,
        })),
    }
}
