//! The look-up of codes: one statement for one code or for several.

use std::collections::HashMap;

use jiff_sqlx::Timestamp as Time;
use shortener_common::database::StoreError;
use sqlx::PgPool;

use super::Links;
use crate::{
    code::OwnedCode,
    store::{Stored, management::takedown},
};

/// The statement that reads the codes of a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT code, url, is_template, expires_at <= now(), expires_at, disabled_as, notice FROM links WHERE code ",
            $condition
        )
    };
}

/// Reads one code. PostgreSQL keeps the plan of this statement; one with an array of a single code may be planned anew
/// each time, because the plan for any array looks more expensive.
const FIND: &str = select!("= $1");
const FIND_ALL: &str = select!("= ANY($1)");

/// A row with these columns.
type LookupRow = (
    String,
    Option<String>,
    bool,
    Option<bool>,
    Option<Time>,
    Option<String>,
    Option<String>,
);

impl Links {
    /// Reads codes with one statement, and returns what the database knows about each; `None` if it was never assigned.
    pub async fn find_each(&self, codes: &[OwnedCode]) -> Vec<Result<Option<Stored>, StoreError>> {
        let texts: Vec<&str> = codes.iter().map(|code| code.borrow().as_str()).collect();
        match self.find_all(&texts).await {
            Ok(mut found) => texts.iter().map(|code| Ok(found.remove(*code))).collect(),
            // What the database rejects about one code must be no error of the others.
            Err(StoreError::Internal(_)) if texts.len() > 1 => {
                let mut answers = Vec::new();
                for code in texts {
                    let found = self.find_all(&[code]).await;
                    answers.push(found.map(|mut found| found.remove(code)));
                }
                answers
            }
            Err(error) => vec![Err(error); texts.len()],
        }
    }

    async fn find_all(&self, codes: &[&str]) -> Result<HashMap<String, Stored>, StoreError> {
        let find = |pool: PgPool| async move {
            let select = match codes {
                [code] => sqlx::query_as(FIND).bind(*code),
                codes => sqlx::query_as(FIND_ALL).bind(codes),
            };
            let rows: Vec<LookupRow> = select.fetch_all(&pool).await?;
            Ok(rows.into_iter().map(link).collect())
        };
        self.database.look_up_for_several(find).await
    }
}

/// Returns the code and the link of a row.
fn link(row: LookupRow) -> (String, Stored) {
    let (code, url, is_template, expired, expires_at, disabled_as, notice) = row;
    let expires_at = expires_at.map(Time::to_jiff);
    let stored = match (disabled_as, url) {
        (Some(how), _) => Stored::Down(takedown(&how, notice)),
        (None, Some(url)) if expired != Some(true) => Stored::live(&url, is_template, expires_at),
        (None, _) => Stored::Expired,
    };
    (code, stored)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff_sqlx::ToSqlx;

    use super::*;
    use crate::store::Takedown;

    const URL: &str = "https://example.com/";

    fn row(url: Option<&str>, expired: Option<bool>, disabled_as: Option<&str>) -> LookupRow {
        let expires_at = expired.map(|_| Timestamp::from_second(1).unwrap().to_sqlx());
        let notice = disabled_as.map(|_| "notice".to_owned());
        let [url, disabled_as] = [url, disabled_as].map(|text| text.map(str::to_owned));
        (
            "code".to_owned(),
            url,
            false,
            expired,
            expires_at,
            disabled_as,
            notice,
        )
    }

    #[test]
    fn both_statements_read_the_same_columns() {
        let (columns, of_one) = FIND.split_once(" WHERE ").unwrap();
        let (same, of_all) = FIND_ALL.split_once(" WHERE ").unwrap();
        assert_eq!(columns, same);
        assert_eq!([of_one, of_all], ["code = $1", "code = ANY($1)"]);
    }

    #[test]
    fn a_row_is_a_live_link_an_expired_one_or_one_that_was_taken_down() {
        let live = |seconds: Option<i64>| Stored::Live {
            url: URL.to_owned(),
            expires_at: seconds.map(|seconds| Timestamp::from_second(seconds).unwrap()),
        };
        let legal = Takedown::Legal {
            notice: Some("notice".to_owned()),
        };
        for (row, expected) in [
            (row(Some(URL), None, None), live(None)),
            (row(Some(URL), Some(false), None), live(Some(1))),
            (row(Some(URL), Some(true), None), Stored::Expired),
            (row(None, Some(true), None), Stored::Expired),
            (
                row(None, None, Some("gone")),
                Stored::Down(Takedown::Disabled),
            ),
            (row(None, Some(true), Some("legal")), Stored::Down(legal)),
        ] {
            let shown = format!("{row:?}");
            assert_eq!(link(row), ("code".to_owned(), expected), "{shown}");
        }
    }
}
