//! Clicks in PostgreSQL: counts by code and UTC day.

mod writer;

use std::collections::HashMap;

use jiff::civil::Date;
use jiff_sqlx::{Date as SqlDate, ToSqlx};
use serde::{Deserialize, Serialize};
use shortener_common::database::{Database, StoreError};

pub use self::writer::ClickWriter;
use crate::{
    code::Code,
    rights::{Found, Rights},
};

const OF_LINK: &str = "SELECT clicks.day, clicks.people, clicks.bots, links.created_by FROM links \
    LEFT JOIN clicks ON clicks.code = links.code AND day BETWEEN $2 AND $3 WHERE links.code = $1 ORDER BY day";

const TOTALS: &str = "SELECT code, sum(people)::bigint, sum(bots)::bigint FROM clicks \
    WHERE code = ANY($1) GROUP BY code";

/// The links come last, so that few of them are read.
const TOP: &str = "SELECT code, coalesce(url, disabled_url), people, bots FROM \
    (SELECT code, sum(people)::bigint AS people, sum(bots)::bigint AS bots FROM clicks \
    WHERE day BETWEEN $1 AND $2 GROUP BY code ORDER BY 2 DESC, code LIMIT $3) AS top \
    JOIN links USING (code) ORDER BY people DESC, code";

/// The same of the links of one creator.
const OWN_TOP: &str = "SELECT code, coalesce(url, disabled_url), people, bots FROM \
    (SELECT clicks.code, sum(people)::bigint AS people, sum(bots)::bigint AS bots FROM clicks \
    JOIN links ON links.code = clicks.code AND links.created_by = $4 \
    WHERE day BETWEEN $1 AND $2 GROUP BY clicks.code ORDER BY 2 DESC, clicks.code LIMIT $3) AS top \
    JOIN links USING (code) ORDER BY people DESC, code";

/// Clicks on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClickTotals {
    /// Clicks of people.
    pub people: i64,
    /// Requests of programs, by their user agent.
    pub bots: i64,
}

/// Clicks on one UTC day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClicksOfDay {
    /// UTC day.
    pub day: Date,
    #[serde(flatten)]
    pub clicks: ClickTotals,
}

/// A link with its clicks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLink {
    pub code: String,
    /// The destination; `None` once it was removed.
    pub url: Option<String>,
    pub clicks: ClickTotals,
}

/// A row of [`OF_LINK`]: without a day if the link has no clicks.
type DayRow = (Option<SqlDate>, Option<i64>, Option<i64>, Option<String>);

/// The clicks of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct ClickStore(Database);

impl ClickStore {
    /// Returns the clicks in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Returns the days on which a link was clicked, of those from the first to the last one, in their order.
    pub async fn of_link(
        &self,
        code: Code<'_>,
        (first, last): (Date, Date),
        rights: &Rights,
    ) -> Result<Found<Vec<ClicksOfDay>>, StoreError> {
        let rows: Vec<DayRow> = self
            .0
            .look_up("SELECT clicks", |pool| async move {
                let rows = sqlx::query_as(OF_LINK).bind(code.as_str());
                let rows = rows.bind(first.to_sqlx()).bind(last.to_sqlx());
                rows.fetch_all(&pool).await
            })
            .await?;
        let Some((.., created_by)) = rows.first() else {
            return Ok(Found::Unknown);
        };
        if !rights.include(created_by.as_deref()) {
            return Ok(Found::Foreign);
        }
        let days = rows.into_iter().filter_map(|(day, people, bots, _)| {
            let clicks = ClickTotals {
                people: people?,
                bots: bots?,
            };
            let day = day?.to_jiff();
            Some(ClicksOfDay { day, clicks })
        });
        Ok(Found::Some(days.collect()))
    }

    /// Returns all clicks on these links. Those without a click are left out.
    pub async fn totals(&self, codes: &[&str]) -> Result<HashMap<String, ClickTotals>, StoreError> {
        let rows: Vec<(String, i64, i64)> = self
            .0
            .run("SELECT clicks", |pool| async move {
                sqlx::query_as(TOTALS).bind(codes).fetch_all(&pool).await
            })
            .await?;
        let totals = rows.into_iter();
        let totals = totals.map(|(code, people, bots)| (code, ClickTotals { people, bots }));
        Ok(totals.collect())
    }

    /// Returns the links that most people clicked from the first to the last day, of those that the rights include, at most
    /// `limit` of them.
    pub async fn top(
        &self,
        (first, last): (Date, Date),
        limit: usize,
        rights: &Rights,
    ) -> Result<Vec<TopLink>, StoreError> {
        let rows: Vec<(String, Option<String>, i64, i64)> = self
            .0
            .run("SELECT clicks", |pool| async move {
                let owner = rights.owner();
                let rows = sqlx::query_as(owner.map_or(TOP, |_| OWN_TOP)).bind(first.to_sqlx());
                let rows = rows.bind(last.to_sqlx()).bind(limit as i64);
                let rows = owner.into_iter().fold(rows, |rows, owner| rows.bind(owner));
                rows.fetch_all(&pool).await
            })
            .await?;
        let links = rows.into_iter().map(|(code, url, people, bots)| TopLink {
            code,
            url,
            clicks: ClickTotals { people, bots },
        });
        Ok(links.collect())
    }
}
