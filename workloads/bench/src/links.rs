//! The links of the benchmark.

use anyhow::{Context, Result};
use shortener_testing::servers;
use sqlx::{Connection, PgConnection};

/// Returns a code of seven characters, the length of generated codes.
pub fn code(number: usize) -> String {
    format!("b{number:06}")
}

/// Returns the destination of a link.
pub fn target(number: usize) -> String {
    format!("https://example.com/articles/{number:06}?from=bench")
}

/// Writes this many links to the database.
///
/// # Errors
/// Fails if the database is unavailable or not migrated.
pub async fn fill(links: usize) -> Result<()> {
    let [url] = servers::DATABASE.addresses()?;
    let mut database = PgConnection::connect(url).await?;
    let links = i32::try_from(links)?;
    // Creates the links of [`code`] and [`target`] in one statement, which is far faster than one by one.
    sqlx::query(
        "INSERT INTO links (code, url) SELECT 'b' || lpad(n::text, 6, '0'), \
         'https://example.com/articles/' || lpad(n::text, 6, '0') || '?from=bench' \
         FROM generate_series(0, $1 - 1) AS n",
    )
    .bind(links)
    .execute(&mut database)
    .await
    .context("cannot fill the database")?;
    sqlx::query("ANALYZE links").execute(&mut database).await?;
    Ok(())
}
