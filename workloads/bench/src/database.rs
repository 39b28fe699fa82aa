//! The database's use of disk for links and clicks, the pages that a look-up reads, and the write-ahead log of a new link.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use shortener_testing::servers;
use sqlx::{Connection, PgConnection, Row as _};
use tokio::time::{Instant, sleep};

use crate::{contender::Contender, load, requests};

/// The number of requests of which the pages and the log are counted.
const REQUESTS: usize = 20_000;
/// The time after which counters that stood still have everything. A session reports once a second while it is busy, and the
/// rest when it has been idle for ten seconds.
const SILENCE: Duration = Duration::from_secs(11);
/// The time limit for the counters to stand still.
const COUNTED: Duration = Duration::from_secs(120);
/// The interval at which the counters are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// One link of so many changes before the table is vacuumed.
const CHANGED: i64 = 100;

/// The server's own view of its tables.
pub struct Database(PgConnection);

/// PostgreSQL's counters of the reads of the table of links.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Read {
    /// Look-ups by the primary key.
    lookups: i64,
    /// Pages of the table and of all its indexes.
    pages: i64,
}

impl Database {
    /// Connects to the database of the benchmark.
    ///
    /// # Errors
    /// Fails if it is unavailable.
    pub async fn connect() -> Result<Self> {
        let [url] = servers::DATABASE.addresses()?;
        Ok(Self(PgConnection::connect(url).await?))
    }

    /// Returns the bytes of the table of links and of each of its indexes, divided by the number of links, as a table.
    ///
    /// # Errors
    /// Fails if the database does.
    pub async fn room(&mut self, links: usize) -> Result<String> {
        let sizes = "SELECT relname::text, pg_relation_size(oid) FROM pg_class \
                     WHERE oid = 'links'::regclass \
                        OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'links'::regclass) \
                     ORDER BY 2 DESC, 1";
        let rows = sqlx::query(sizes).fetch_all(&mut self.0).await?;
        let mut table = String::from("| table or index | bytes per link |\n| --- | --- |\n");
        let mut all = 0;
        for row in rows {
            let (name, bytes): (String, i64) = (row.get(0), row.get(1));
            all += bytes;
            table.push_str(&format!("| `{name}` | {:.0} |\n", each(bytes, links)));
        }
        table.push_str(&format!("| together | {:.0} |\n", each(all, links)));
        Ok(table)
    }

    /// Follows links of which none is in a cache, and returns the pages that the database read for each look-up. Nothing else
    /// may use the table of links.
    ///
    /// # Errors
    /// Fails if a response is wrong, or the server does not count the look-ups in time.
    pub async fn pages_of_a_lookup(
        &mut self,
        app: &Contender,
        connections: usize,
    ) -> Result<String> {
        let before = self.read_at_rest().await?;
        load::run(app.address(), connections, REQUESTS, &app.script).await?;
        let after = self.read_at_rest().await?;
        let lookups = usize::try_from(after.lookups - before.lookups)?;
        ensure!(lookups > 0, "the database has counted no look-up");
        let pages = each(after.pages - before.pages, lookups);
        Ok(format!(
            "A look-up reads {pages:.1} pages of 8 KiB. {REQUESTS} redirects from the database made {lookups} of them: the app \
             asks for a link once at a time."
        ))
    }

    /// Waits until every session has reported what it read, and returns the counters.
    async fn read_at_rest(&mut self) -> Result<Read> {
        let begin = Instant::now();
        let (mut read, mut since) = (self.read().await?, begin);
        while since.elapsed() < SILENCE {
            ensure!(
                begin.elapsed() < COUNTED,
                "the table of links is still read after {} s: is something else connected to the database?",
                COUNTED.as_secs()
            );
            sleep(LOOK).await;
            let now = self.read().await?;
            if now != read {
                (read, since) = (now, Instant::now());
            }
        }
        Ok(read)
    }

    async fn read(&mut self) -> Result<Read> {
        let counters = "SELECT (SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'links_pkey'), \
                        heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read \
                        FROM pg_statio_user_tables WHERE relname = 'links'";
        let row = sqlx::query(counters).fetch_one(&mut self.0).await?;
        Ok(Read {
            lookups: row.get(0),
            pages: row.get(1),
        })
    }

    /// Creates links after a checkpoint, and returns the bytes of the write-ahead log for each.
    ///
    /// # Errors
    /// Fails if a link is not created.
    pub async fn log_of_a_new_link(
        &mut self,
        app: &Contender,
        connections: usize,
    ) -> Result<String> {
        sqlx::query("CHECKPOINT").execute(&mut self.0).await?;
        let before = self.log_so_far().await?;
        load::run(app.address(), connections, REQUESTS, &requests::new_links()).await?;
        let bytes = each(self.log_so_far().await? - before, REQUESTS);
        Ok(format!(
            "A new link writes {bytes:.0} bytes of write-ahead log, over the first {REQUESTS} after a checkpoint."
        ))
    }

    /// Returns the position in the write-ahead log in bytes.
    async fn log_so_far(&mut self) -> Result<i64> {
        let position = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        Ok(sqlx::query_scalar(position).fetch_one(&mut self.0).await?)
    }

    /// Changes one link of a hundred, and returns the time that the server then needs for its vacuum.
    ///
    /// # Errors
    /// Fails if the database does.
    pub async fn vacuum(&mut self, links: usize) -> Result<String> {
        let change = "UPDATE links SET reason = 'changed' WHERE abs(hashtext(code)) % $1 = 0";
        let changed = sqlx::query(change)
            .bind(CHANGED)
            .execute(&mut self.0)
            .await?;
        let changed = changed.rows_affected();
        ensure!(changed > 0 || links < 1000, "no link has changed");
        let begin = Instant::now();
        sqlx::query("VACUUM links").execute(&mut self.0).await?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(format!(
            "After a change of {changed} links, VACUUM takes {seconds:.1} s."
        ))
    }

    /// Counts a click on every link on each of so many past days, and returns the bytes of one link's clicks of one day.
    ///
    /// # Errors
    /// Fails if the database does.
    pub async fn room_of_clicks(&mut self, links: usize, days: i32) -> Result<String> {
        // There may be clicks of today.
        for day in 1..=days {
            // In the order of a hash, as the codes of real clicks arrive in no order.
            let clicks = "INSERT INTO clicks (code, day, people, bots) \
                          SELECT code, current_date - $1, 1, 0 FROM links ORDER BY hashtext(code)";
            sqlx::query(clicks).bind(day).execute(&mut self.0).await?;
        }
        let size =
            "SELECT pg_table_size('clicks'), pg_indexes_size('clicks'), count(*) FROM clicks";
        let row = sqlx::query(size).fetch_one(&mut self.0).await?;
        let (table, indexes, rows): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let rows = usize::try_from(rows).context("a negative number of clicks")?;
        ensure!(
            rows >= links,
            "there are clicks for {rows} of {links} links"
        );
        Ok(format!(
            "The clicks of a link on a day need {:.0} bytes, of which {:.0} are indexes.",
            each(table + indexes, rows),
            each(indexes, rows)
        ))
    }
}

/// Returns the part of a sum that each of so many has.
fn each(sum: i64, number: usize) -> f64 {
    sum as f64 / number.max(1) as f64
}

#[cfg(test)]
mod tests {
    use shortener_app::store::migrate::migrate;
    use shortener_testing::database::TestDatabase;
    use sqlx::{ConnectOptions, Executor};

    use super::*;

    #[tokio::test]
    async fn clicks_of_today_do_not_hinder_those_that_are_added() {
        let server = TestDatabase::new().await;
        migrate((*server).clone(), COUNTED).await.unwrap();
        let mut database = Database(server.connect().await.unwrap());
        for statement in [
            "INSERT INTO links (code, url, host) VALUES ('a', 'https://a.example/', 'a.example')",
            "INSERT INTO clicks (code, day, people, bots) VALUES ('a', current_date, 1, 0)",
        ] {
            database.0.execute(statement).await.unwrap();
        }
        let room = database.room_of_clicks(1, 3).await.unwrap();
        assert!(room.contains("bytes, of which"), "{room}");
        let rows = sqlx::query_scalar("SELECT count(*) FROM clicks");
        let rows: i64 = rows.fetch_one(&mut database.0).await.unwrap();
        assert_eq!(rows, 4);
    }
}
