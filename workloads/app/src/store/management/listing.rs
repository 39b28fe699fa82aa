//! Lists of links, page by page. The place of a page is a time and a code, so that changes meanwhile neither repeat nor
//! skip a link.

use std::fmt;

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Time, ToSqlx};
use shortener_common::database::StoreError;
use sqlx::PgPool;

use super::{
    Management,
    record::{LinkRecord, LinkRow, LinkState, columns},
};
use crate::code::MAX_LENGTH;

/// The state of a row, as `LinkState` writes it.
macro_rules! state {
    () => {
        "CASE WHEN disabled_as = 'deleted' THEN 'deleted' WHEN disabled_at IS NOT NULL THEN 'disabled' \
        WHEN expires_at <= now() THEN 'expired' ELSE 'live' END"
    };
}

const OF_HOST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM links WHERE host = $1 \
    AND (created_at, code) > ($2, $3) \
    AND (created_at, code) <= (coalesce($4, 'infinity'), coalesce($5, '')) \
    AND ($6::text IS NULL OR $6 = ",
    state!(),
    ") ORDER BY created_at, code LIMIT $7"
);

/// The most links to a host that are read for a page of one state.
const MOST_READ: i64 = 1000;

/// The last link that is read for a page of one state, if there are as many.
const LAST_READ: &str = "SELECT created_at, code FROM links WHERE host = $1 \
    AND (created_at, code) > ($2, $3) ORDER BY created_at, code LIMIT 1 OFFSET $4 - 1";

macro_rules! taken_down {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM links WHERE ",
            $condition,
            " AND (disabled_at, code) > ($1, $2) ORDER BY disabled_at, code LIMIT $3"
        )
    };
}

/// The conditions are those of the indexes.
const DISABLED: &str = taken_down!("disabled_as IN ('gone', 'legal')");
const DELETED: &str = taken_down!("disabled_as = 'deleted'");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub of: Listed,
    /// The maximum number of links on a page.
    pub limit: usize,
    /// The end of the page before.
    pub after: Position,
}

/// The links in a list. There is an index for each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Links to a host, by their creation.
    Host {
        /// The host, as [`crate::target::host`] writes it.
        host: String,
        /// The state of the links; `None` for every state.
        state: Option<LinkState>,
    },
    /// Links that were disabled, or those that were deleted, by the time at which they were.
    TakenDown { deleted: bool },
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    time: Timestamp,
    code: String,
}

impl Position {
    /// Parses what [`fmt::Display`] wrote; `None` for anything else.
    #[must_use]
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

impl Listed {
    fn time(&self, link: &LinkRecord) -> Timestamp {
        match (self, &link.takedown) {
            (Self::TakenDown { .. }, Some(takedown)) => takedown.at,
            _ => link.created_at,
        }
    }
}

impl Management {
    /// Lists links, oldest first.
    ///
    /// # Errors
    /// Fails if the database is down.
    pub async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.0
            .run("SELECT links", |pool| async move {
                let (rows, last_read) = match &listing.of {
                    Listed::Host { host, state } => of_host(&pool, listing, host, *state).await?,
                    Listed::TakenDown { deleted } => {
                        (taken_down(&pool, listing, *deleted).await?, None)
                    }
                };
                let has_more = rows.len() > listing.limit;
                let links = rows.into_iter().take(listing.limit);
                let links: Vec<LinkRecord> =
                    links.map(LinkRecord::try_from).collect::<Result<_, _>>()?;
                let next = match links.last().filter(|_| has_more) {
                    Some(last) => Some(Position {
                        time: listing.of.time(last),
                        code: last.code.clone(),
                    }),
                    None => last_read,
                };
                Ok(Page { links, next })
            })
            .await
    }
}

/// Returns the links of a page, one more if there are more, and the last link that was read if there may be others behind
/// it.
async fn of_host(
    pool: &PgPool,
    listing: &Listing,
    host: &str,
    state: Option<LinkState>,
) -> Result<(Vec<LinkRow>, Option<Position>), sqlx::Error> {
    let (time, code) = (listing.after.time.to_sqlx(), listing.after.code.as_str());
    let last: Option<(Time, String)> = match state {
        Some(_) => {
            let last = sqlx::query_as(LAST_READ).bind(host).bind(time);
            let last = last.bind(code).bind(MOST_READ);
            last.fetch_optional(pool).await?
        }
        // Every link that is read is on the page.
        None => None,
    };
    let (last_time, last_code) = last.unzip();
    let links = sqlx::query_as(OF_HOST).bind(host).bind(time).bind(code);
    let links = links.bind(last_time).bind(last_code.as_deref());
    let links = links
        .bind(state.map(LinkState::as_str))
        .bind(one_more(listing));
    let links = links.fetch_all(pool).await?;
    let last = last_time.zip(last_code).map(|(time, code)| Position {
        time: time.to_jiff(),
        code,
    });
    Ok((links, last))
}

/// Returns the links of a page, and one more if there are more.
async fn taken_down(
    pool: &PgPool,
    listing: &Listing,
    deleted: bool,
) -> Result<Vec<LinkRow>, sqlx::Error> {
    let statement = if deleted { DELETED } else { DISABLED };
    let Position { time, code } = &listing.after;
    let links = sqlx::query_as(statement).bind(time.to_sqlx());
    let links = links.bind(code.as_str()).bind(one_more(listing));
    links.fetch_all(pool).await
}

/// Returns the number of links to read: one more than the page has shows that there is another page.
fn one_more(listing: &Listing) -> i64 {
    listing.limit as i64 + 1
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

    #[test]
    fn the_states_of_rows_are_those_of_records() {
        for state in LinkState::ALL {
            assert!(state!().contains(&format!("'{}'", state.as_str())));
        }
    }
}
