//! Lists of links, page by page. The place of a page is a time and a code, so that changes meanwhile neither repeat nor
//! skip a link.

use std::fmt;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use shortener_common::database::StoreError;

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
    AND ($4::text IS NULL OR $4 = ",
    state!(),
    ") ORDER BY created_at, code LIMIT $5"
);

const TAKEN_DOWN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM links WHERE disabled_at IS NOT NULL \
    AND (disabled_at, code) > ($1, $2) AND $3 = ",
    state!(),
    " ORDER BY disabled_at, code LIMIT $4"
);

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

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub links: Vec<LinkRecord>,
    /// The end of the page, if there is another one.
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
                let Position { time, code } = &listing.after;
                let time = time.to_sqlx();
                // One more shows that there is another page.
                let at_most = listing.limit as i64 + 1;
                let rows: Vec<LinkRow> = match &listing.of {
                    Listed::Host { host, state } => {
                        let links = sqlx::query_as(OF_HOST).bind(host.as_str()).bind(time);
                        let links = links.bind(code.as_str()).bind(state.map(LinkState::as_str));
                        links.bind(at_most).fetch_all(&pool).await?
                    }
                    Listed::TakenDown { deleted } => {
                        let state = match deleted {
                            true => LinkState::Deleted,
                            false => LinkState::Disabled,
                        };
                        let links = sqlx::query_as(TAKEN_DOWN).bind(time).bind(code.as_str());
                        let links = links.bind(state.as_str()).bind(at_most);
                        links.fetch_all(&pool).await?
                    }
                };
                let has_more = rows.len() > listing.limit;
                let links = rows.into_iter().take(listing.limit);
                let links: Vec<LinkRecord> =
                    links.map(LinkRecord::try_from).collect::<Result<_, _>>()?;
                let next = links.last().filter(|_| has_more).map(|last| Position {
                    time: listing.of.time(last),
                    code: last.code.clone(),
                });
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

    #[test]
    fn the_states_of_rows_are_those_of_records() {
        for state in LinkState::ALL {
            assert!(state!().contains(&format!("'{}'", state.as_str())));
        }
    }
}
