//! The links of the benchmark, and how often each is followed.

use std::{fmt::Write as _, ops::Range};

use anyhow::{Context, Result};
use shortener_testing::servers;
use sqlx::{Connection, PgConnection};

use crate::zipf::Zipf;

/// The maximum number of links, below `SCATTER` and the number of codes.
pub const MOST: i64 = 1_000_000_000;

/// The digits of a code, of which six follow its first character.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

const _: () = assert!((MOST as usize) < SCATTER && (MOST as usize) < DIGITS.len().pow(6));

/// The number of links that are written in one transaction.
const TRANSACTION: usize = 1_000_000;
/// The number of links in one message to the database, which bounds the memory of both.
const MESSAGE: usize = 10_000;

/// A prime above every number of links, so that multiplying by it keeps different links apart.
const SCATTER: usize = 1_000_000_007;

/// The destinations' host, as the app stores it.
const HOST: &str = "example.com";

/// Returns a code of seven characters, the length of generated codes.
pub fn code(number: usize) -> String {
    let digit = |place: u32| char::from(DIGITS[number / DIGITS.len().pow(place) % DIGITS.len()]);
    std::iter::once('b')
        .chain((0..6).rev().map(digit))
        .collect()
}

/// Returns the destination of a link.
pub fn target(number: usize) -> String {
    format!("https://{HOST}/articles/{number:09}?from=bench")
}

/// How often each link is followed.
#[derive(Clone, Copy, Debug)]
pub struct Popularity {
    links: usize,
    /// The law of the most followed ones; `None` if each is followed as often as every other.
    law: Option<Zipf>,
}

impl Popularity {
    /// Returns the popularity of links of which each is followed as often as every other.
    #[must_use]
    pub fn even(links: usize) -> Self {
        Self { links, law: None }
    }

    /// Returns the popularity of links by Zipf's law with this exponent.
    #[must_use]
    pub fn zipf(links: usize, exponent: f64) -> Self {
        Self {
            links,
            law: Some(Zipf::new(links, exponent)),
        }
    }

    /// Returns the number of the link that is followed next.
    #[must_use]
    pub fn draw(&self) -> usize {
        match self.law {
            None => fastrand::usize(..self.links),
            // Popular links are not those that were created one after the other.
            Some(law) => law.draw() * SCATTER % self.links,
        }
    }
}

/// Writes this many links to the database.
///
/// # Errors
/// Fails if the database is unavailable or not migrated, or has links of an earlier run.
pub async fn fill(links: usize) -> Result<()> {
    let [url] = servers::DATABASE.addresses()?;
    let mut database = PgConnection::connect(url).await?;
    for begin in (0..links).step_by(TRANSACTION) {
        let end = links.min(begin + TRANSACTION);
        let copied = copy(&mut database, begin..end).await;
        copied.context(
            "cannot fill the database: it has to be empty and to have room, about 400 bytes for each link",
        )?;
        eprintln!("{end} of {links} links are in the database");
    }
    // Vacuumed as well, or the server itself does it at some time, and what it reads counts as pages of look-ups.
    sqlx::query("VACUUM (ANALYZE) links")
        .execute(&mut database)
        .await?;
    Ok(())
}

/// Writes links in one transaction.
async fn copy(database: &mut PgConnection, mut numbers: Range<usize>) -> Result<()> {
    let copy = "COPY links (code, url, host) FROM STDIN";
    let mut copy = database.copy_in_raw(copy).await?;
    while !numbers.is_empty() {
        let lines = lines(numbers.by_ref().take(MESSAGE))?;
        copy.send(lines.as_bytes()).await?;
    }
    copy.finish().await?;
    Ok(())
}

/// Returns links in the text format of COPY. None has a character that has to be escaped.
fn lines(numbers: impl Iterator<Item = usize>) -> Result<String> {
    let mut lines = String::new();
    for number in numbers {
        writeln!(lines, "{}\t{}\t{HOST}", code(number), target(number))?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_have_seven_characters_and_all_destinations_are_of_one_length() {
        let last = usize::try_from(MOST - 1).unwrap();
        for number in [0, 99_999, last] {
            assert_eq!(code(number).len(), 7, "{number}");
            assert_eq!(target(number).len(), target(0).len(), "{number}");
        }
        assert_eq!(code(last), "bgjdgxr");
    }

    #[test]
    fn a_link_is_one_line_with_code_destination_and_host() {
        assert_eq!(
            lines(17..19).unwrap(),
            "b00000h\thttps://example.com/articles/000000017?from=bench\texample.com\n\
             b00000i\thttps://example.com/articles/000000018?from=bench\texample.com\n"
        );
    }

    #[test]
    fn every_link_is_followed_at_some_time() {
        for popularity in [Popularity::even(8), Popularity::zipf(8, 1.0)] {
            let mut seen = [false; 8];
            while seen.contains(&false) {
                seen[popularity.draw()] = true;
            }
        }
    }
}
