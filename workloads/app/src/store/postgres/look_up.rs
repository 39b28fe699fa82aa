//! The look-up of links by their codes, which redirects share: one statement for all codes that wait.

use jiff::Timestamp;
use shortener_common::database::LookUp;
use sqlx::{FromRow, PgPool, postgres::PgRow};

use crate::{
    location,
    store::{Stored, management::takedown},
};

/// Returns the statement that reads the links of a condition.
macro_rules! read {
    ($condition:literal) => {
        concat!(
            "SELECT code, url, expires_at <= now(), (extract(epoch FROM expires_at) * 1000000)::bigint, \
            disabled_as, notice FROM links WHERE ",
            $condition
        )
    };
}

/// Reads one link. For an array of one code the server would make a plan each time, because the plan for any array is one
/// for ten codes.
const FIND: &str = read!("code = $1");
const FIND_MANY: &str = read!("code = ANY($1)");

/// The columns of both statements.
type Row<'a> = (
    &'a str,
    Option<&'a str>,
    Option<bool>,
    Option<i64>,
    Option<&'a str>,
    Option<&'a str>,
);

/// The look-ups of codes.
pub(super) struct Codes;

impl LookUp for Codes {
    const SUMMARY: &'static str = "SELECT links";
    type Found = Stored;

    async fn read(pool: PgPool, codes: Vec<String>) -> Result<Vec<Option<Stored>>, sqlx::Error> {
        let rows = rows(&pool, &codes).await?;
        let mut found = vec![None; codes.len()];
        for row in &rows {
            let (code, stored) = read_row(row)?;
            let begin = codes.partition_point(|other| other.as_str() < code);
            let end = codes.partition_point(|other| other.as_str() <= code);
            found[begin..end].fill(Some(stored));
        }
        Ok(found)
    }
}

async fn rows(pool: &PgPool, codes: &[String]) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    match codes {
        [code] => {
            let one = sqlx::query(FIND).bind(code);
            let row = one.fetch_optional(&mut *connection).await?;
            Ok(row.into_iter().collect())
        }
        _ => {
            let many = sqlx::query(FIND_MANY).bind(codes);
            many.fetch_all(&mut *connection).await
        }
    }
}

fn read_row(row: &PgRow) -> Result<(&str, Stored), sqlx::Error> {
    let (code, url, is_expired, expires_at, disabled_as, notice) = Row::from_row(row)?;
    let stored = match (disabled_as, url) {
        (Some(how), _) => Stored::Down(takedown(how, notice.map(str::to_owned))),
        (None, Some(url)) if is_expired != Some(true) => Stored::Live {
            url: location::ascii(url).into_owned(),
            expires_at: expires_at.and_then(|end| Timestamp::from_microsecond(end).ok()),
        },
        (None, _) => Stored::Expired,
    };
    Ok((code, stored))
}
