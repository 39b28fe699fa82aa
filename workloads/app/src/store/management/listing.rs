//! Lists of links, page by page. The place of a page is a time and a code, so that changes meanwhile neither repeat nor
//! skip a link.

mod scan;

use std::fmt;

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Time;
use shortener_common::database::{StoreError, begin};
use sqlx::{PgConnection, Postgres, QueryBuilder};

use self::scan::Scan;
use super::{
    Management,
    record::{LinkRecord, LinkState},
};
use crate::{code::MAX_LENGTH, rights::Rights};

/// Keeps the planner from reading and sorting all that a filter fits, in this transaction. It would do so where it takes a
/// large part of a table for a small one.
pub const IN_ORDER: &str = "SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true), \
    set_config('enable_seqscan', 'off', true), set_config('enable_incremental_sort', 'off', true)";

/// A list of links, and a page of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub filter: Filter,
    pub order: Order,
    /// The maximum number of links on a page.
    pub limit: usize,
    /// The end of the page before; `None` for the first page.
    pub after: Option<Position>,
}

/// What the links of a list have in common. What is `None` or empty excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The client to whose links [`Management::list`] confines the list.
    pub own: Option<String>,
    /// The beginning of the code.
    pub code: Option<String>,
    /// A tag, as it is stored.
    pub tag: Option<String>,
    /// Words of the title, as [`crate::store::labels::words`] returns them.
    pub words: Vec<String>,
    /// The client that created the link.
    pub created_by: Option<String>,
    /// The host, as [`crate::target::host`] writes it.
    pub host: Option<String>,
    pub state: Option<LinkState>,
}

shortener_common::words! {
    /// The order of a list, with its words in queries.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Order {
        #[default]
        Oldest = "oldest",
        Newest = "newest",
    }
}

/// A page of a list. One that is not the last may have fewer links than its limit, because a bounded number is read to
/// find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub links: Vec<LinkRecord>,
    /// The end of the page, if there may be another one.
    pub next: Option<Position>,
}

/// The place of a link in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    time: Timestamp,
    code: String,
}

impl Filter {
    /// Returns true if it describes what a deleted link has no more.
    pub fn describes_destination(&self) -> bool {
        self.host.is_some() || self.tag.is_some() || !self.words.is_empty()
    }
}

impl Position {
    /// Parses what [`fmt::Display`] wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, code) = text.split_once('.')?;
        let time = time.parse().ok().filter(|time| *time >= 0)?;
        let time = Timestamp::from_microsecond(time).ok()?;
        let is_code = (1..=MAX_LENGTH).contains(&code.len()) && !code.contains('\0');
        is_code.then(|| Self {
            time,
            code: code.to_owned(),
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.time.as_microsecond(), self.code)
    }
}

impl Listing {
    /// Adds the statement that reads the links of the page, and one more if there are more; none behind `last`.
    pub fn select(&self, query: &mut QueryBuilder<Postgres>, last: Option<&Position>) {
        Scan::of(&self.filter).0.select(self, query, last);
    }

    /// Adds the statement for the last link that is read for the page, if there are as many.
    pub fn select_last(&self, query: &mut QueryBuilder<Postgres>) {
        Scan::of(&self.filter).0.select_last(self, query);
    }

    /// Returns the last link that is read for the page, if the list has filters beside that of its index and there may be
    /// others behind it.
    async fn last_read(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<Position>, sqlx::Error> {
        if Scan::of(&self.filter).1 == Filter::default() {
            // Every link that is read is on the page.
            return Ok(None);
        }
        let mut query = QueryBuilder::new("");
        self.select_last(&mut query);
        let last: Option<(Time, String)> =
            query.build_query_as().fetch_optional(connection).await?;
        Ok(last.map(|(time, code)| Position {
            time: time.to_jiff(),
            code,
        }))
    }
}

impl Management {
    /// Lists links that the rights include.
    pub async fn list(&self, mut listing: Listing, rights: &Rights) -> Result<Page, StoreError> {
        listing.filter.own = rights.owner().map(str::to_owned);
        let listing = &listing;
        self.0
            .run("SELECT links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                sqlx::query(IN_ORDER).execute(&mut *transaction).await?;
                let last_read = listing.last_read(&mut transaction).await?;
                let mut query = QueryBuilder::new("");
                listing.select(&mut query, last_read.as_ref());
                let links = query.build_query_as().fetch_all(&mut *transaction);
                let mut links: Vec<LinkRecord> = links.await?;
                transaction.commit().await?;
                let has_more = links.len() > listing.limit;
                links.truncate(listing.limit);
                let scan = Scan::of(&listing.filter).0;
                let next = match links.last().filter(|_| has_more) {
                    Some(last) => Some(Position {
                        time: scan.time(last),
                        code: last.code.clone(),
                    }),
                    None => last_read,
                };
                Ok(Page { links, next })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written_and_nothing_else_is_one() {
        let position = Position {
            time: Timestamp::from_microsecond(1_900_000_000_000_001).unwrap(),
            code: "My_code-1".to_owned(),
        };
        assert_eq!(Position::parse(&position.to_string()), Some(position));
        let long = format!("1.{}", "x".repeat(65));
        for bad in [
            "",
            ".",
            "1",
            "1.",
            ".a",
            "-1.a",
            "x.a",
            "1.a\0",
            "9223372036854775807.a",
            "253402300800000000.a",
            &long,
        ] {
            assert_eq!(Position::parse(bad), None, "{bad:?}");
        }
    }
}
