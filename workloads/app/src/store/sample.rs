//! A sample of the links, which shows that a database that was restored from a backup resolves codes.

use anyhow::{Context, ensure};
use shortener_common::database::Database;

use super::{Stored, postgres::Links};
use crate::{
    code::{Code, CodeSpace},
    location,
};

/// Selects links behind a code, which is random, and from the beginning if there are too few. Links that expire meanwhile and links
/// with arguments are left out. It reads a bounded part of the table, however large that is.
const SAMPLE: &str = "SELECT code, url FROM ((SELECT * FROM links WHERE code >= $1 ORDER BY code LIMIT 1000) \
    UNION ALL (SELECT * FROM links WHERE code < $1 ORDER BY code LIMIT 1000)) AS candidates \
    WHERE url IS NOT NULL AND NOT is_template AND disabled_at IS NULL \
    AND (expires_at IS NULL OR expires_at > now() + interval '1 hour') LIMIT 20";

/// The number of characters of the random code.
const LENGTH: usize = 7;

/// Resolves up to 20 links as redirects do, one by one, and returns their number.
///
/// # Errors
/// Fails if a code does not lead to its destination, or the database is down.
pub async fn check(database: &Database) -> anyhow::Result<usize> {
    let space = CodeSpace::default();
    let start = space.generate(LENGTH, &mut rand::rng());
    let sample: Vec<(String, String)> = database
        .run("SELECT links", |pool| async move {
            let sample = sqlx::query_as(SAMPLE).bind(start);
            sample.fetch_all(&pool).await
        })
        .await
        .context("cannot read links")?;
    let links = Links::new(database.clone(), space);
    for (code, url) in &sample {
        let asked = [Code::parse(code)?.to_owned()];
        let found = links.find_each(&asked).await.pop().transpose();
        let found = found.with_context(|| format!("cannot resolve {code}"))?;
        let resolves = matches!(found.flatten(), Some(Stored::Live { url: to, .. }) if to == location::ascii(url));
        ensure!(resolves, "the code {code} does not lead to its destination");
    }
    Ok(sample.len())
}
