//! The outbox of webhooks, as the sender uses it. The clock of the database decides what is due.

/// The state of a delivery as the index `webhook_deliveries_by_state` has it: the number of a [`deliveries::DeliveryState`].
macro_rules! state {
    () => {
        "(CASE WHEN given_up_at IS NOT NULL THEN 0 WHEN attempts > 0 THEN 1 ELSE 2 END)"
    };
}

pub mod deliveries;
pub mod receivers;

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Time, ToSqlx};
use sha2::{Digest, Sha256};
use shortener_common::database::{Database, StoreError, begin};
use sqlx::{FromRow, Row, postgres::PgRow};
use uuid::Uuid;

use crate::webhooks::schedule::Failure;

/// Takes what is due, the earliest first. It is due again after the lease, which is longer than an attempt, so nothing is
/// lost with a sender. The link is read as it is now: its destination is there only while the link leads to it.
const CLAIM: &str = "WITH due AS (SELECT id FROM webhook_deliveries \
        WHERE receiver = $1 AND given_up_at IS NULL AND next_at <= now() \
        ORDER BY next_at LIMIT $2 FOR UPDATE SKIP LOCKED), \
    leased AS (UPDATE webhook_deliveries SET next_at = now() + interval '60 seconds', \
        leased_until = now() + interval '60 seconds' FROM due \
        WHERE webhook_deliveries.id = due.id RETURNING webhook_deliveries.*) \
    SELECT id, message_id, event, leased.code, at, attempts, next_at, now() AS now, \
        CASE WHEN coalesce(expires_at > now(), true) THEN url END AS url, created_at, expires_at \
    FROM leased LEFT JOIN links ON links.code = leased.code";

/// The receivers, each with the seconds for which its oldest message has been due; 0 if none is.
const OVERDUE: &str = "SELECT name, coalesce((SELECT extract(epoch FROM now() - next_at) FROM webhook_deliveries \
        WHERE receiver = name AND given_up_at IS NULL AND next_at <= now() ORDER BY next_at LIMIT 1), 0)::bigint \
    FROM webhook_receivers";

/// Removes what was delivered, unless its lease has run out and another attempt has begun.
const DELIVERED: &str = "WITH done AS (DELETE FROM webhook_deliveries WHERE id = $1 AND next_at = $2 \
        RETURNING receiver) \
    UPDATE webhook_receivers SET last_success_at = now() FROM done WHERE name = done.receiver";

/// Records a failed attempt, with the seconds until the next one; NULL if there is none.
const FAILED: &str = "UPDATE webhook_deliveries SET attempts = attempts + 1, last_status = $3, \
        last_error = $4, next_at = now() + make_interval(secs => coalesce($5, 0)), \
        given_up_at = CASE WHEN $5 IS NULL THEN now() END \
    WHERE id = $1 AND next_at = $2 AND given_up_at IS NULL";

/// Removes deliveries beyond the first `$2` of a receiver, in the order of the index `webhook_deliveries_by_state`: the latest
/// that wait are the first, and the earliest that were given up the last.
const DROP_EXCESS: &str = concat!(
    "DELETE FROM webhook_deliveries WHERE id = ANY (ARRAY(SELECT id FROM webhook_deliveries WHERE receiver = $1 ORDER BY ",
    state!(),
    " DESC, id DESC OFFSET $2 LIMIT $3))"
);

/// Waits for another sender that announces the expiry of links.
const POSITION: &str = "SELECT expired_at, expired_code FROM webhook_receivers \
    WHERE name = $1 AND 'link.expired' = ANY (events) FOR UPDATE";

/// The links that have expired since the position, a minute late: the transaction that creates a link may end after the
/// link. The deletion of a link was announced, and nothing follows it.
const EXPIRED: &str = "SELECT expires_at, code FROM links \
    WHERE (expires_at, code) > ($1, $2) AND expires_at <= now() - interval '1 minute' \
        AND disabled_as IS DISTINCT FROM 'deleted' \
    ORDER BY expires_at, code LIMIT $3";

const ANNOUNCE: &str = "INSERT INTO webhook_deliveries (receiver, event, code, at, message_id) \
    SELECT $1, $2, * FROM unnest($3::text[], $4::timestamptz[], $5::uuid[])";
/// The event that no trigger announces.
const EXPIRY: &str = "link.expired";

const ADVANCE: &str =
    "UPDATE webhook_receivers SET expired_at = $2, expired_code = $3 WHERE name = $1";

/// The number of links of one step of the expiry.
pub const EXPIRED_BATCH: usize = 1000;

/// The maximum number of deliveries that are kept for a receiver: about 40 MB.
pub const MAX_DELIVERIES: usize = 100_000;
/// The number of deliveries that one step removes.
pub const EXCESS_BATCH: u64 = 10_000;

/// A delivery whose attempt begins now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The number of the delivery.
    pub id: i64,
    /// The identity of the message.
    pub message_id: Uuid,
    pub event: String,
    pub code: String,
    /// The time of the event.
    pub at: Timestamp,
    /// The attempts that have failed.
    pub attempts: usize,
    /// The end of the lease, which is its mark as well.
    pub lease: Timestamp,
    /// The time of the database.
    pub now: Timestamp,
    /// The destination, while the link leads there.
    pub url: Option<String>,
    pub created_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

impl FromRow<'_, PgRow> for Due {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let time = |column| row.try_get(column).map(Time::to_jiff);
        let perhaps = |column| {
            row.try_get(column)
                .map(|time: Option<Time>| time.map(Time::to_jiff))
        };
        let attempts: i32 = row.try_get("attempts")?;
        Ok(Self {
            id: row.try_get("id")?,
            message_id: row.try_get("message_id")?,
            event: row.try_get("event")?,
            code: row.try_get("code")?,
            at: time("at")?,
            attempts: usize::try_from(attempts).unwrap_or_default(),
            lease: time("next_at")?,
            now: time("now")?,
            url: row.try_get("url")?,
            created_at: perhaps("created_at")?,
            expires_at: perhaps("expires_at")?,
        })
    }
}

/// The outbox of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox(Database);

impl Outbox {
    /// Returns the outbox in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Waits until the database is up.
    pub async fn up(&self) {
        self.0.up().await;
    }

    /// Takes up to `most` deliveries of a receiver that are due. No other sender gets them before the lease runs out.
    pub async fn claim(&self, receiver: &str, most: usize) -> Result<Vec<Due>, StoreError> {
        let claim = |pool| async move {
            let claim = sqlx::query_as(CLAIM).bind(receiver).bind(most as i64);
            claim.fetch_all(&pool).await
        };
        self.0.run("UPDATE webhook_deliveries", claim).await
    }

    /// Returns the receivers, each with the seconds for which its oldest message has been due; 0 if none is.
    pub async fn overdue(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let overdue = |pool| async move { sqlx::query_as(OVERDUE).fetch_all(&pool).await };
        self.0.run("SELECT webhook_receivers", overdue).await
    }

    /// Removes what was delivered.
    ///
    /// # Errors
    /// Fails if the database is down. The delivery is then made again, with the same identity.
    pub async fn delivered(&self, due: &Due) -> Result<(), StoreError> {
        let delivered = |pool| async move {
            let delivered = sqlx::query(DELIVERED).bind(due.id);
            delivered.bind(due.lease.to_sqlx()).execute(&pool).await
        };
        let delivered = self.0.run("DELETE webhook_deliveries", delivered).await;
        delivered.map(drop)
    }

    /// Records a failed attempt, and the pause until the next one; `None` gives the delivery up.
    ///
    /// # Errors
    /// Fails if the database is down. The next attempt is then made after the lease.
    pub async fn failed(
        &self,
        due: &Due,
        failure: &Failure,
        pause: Option<Duration>,
    ) -> Result<(), StoreError> {
        let failed = |pool| async move {
            let failed = sqlx::query(FAILED)
                .bind(due.id)
                .bind(due.lease.to_sqlx())
                .bind(failure.status.map(i32::from))
                .bind(failure.error)
                .bind(pause.map(|pause| pause.as_secs_f64()));
            failed.execute(&pool).await
        };
        let failed = self.0.run("UPDATE webhook_deliveries", failed).await;
        failed.map(drop)
    }

    /// Removes deliveries to a receiver beyond the `most` that are kept: first those that were given up, then those that have
    /// failed, the oldest first. Returns their number, which is [`EXCESS_BATCH`] if there may be more.
    pub async fn drop_excess(&self, receiver: &str, most: usize) -> Result<u64, StoreError> {
        let drop_excess = |pool| async move {
            let drop_excess = sqlx::query(DROP_EXCESS).bind(receiver).bind(most as i64);
            let dropped = drop_excess.bind(EXCESS_BATCH as i64).execute(&pool).await?;
            Ok(dropped.rows_affected())
        };
        self.0.run("DELETE webhook_deliveries", drop_excess).await
    }

    /// Announces the next links that have expired to a receiver, each once. Returns their number, which is
    /// [`EXPIRED_BATCH`] if there may be more.
    pub async fn announce_expired(&self, receiver: &str) -> Result<usize, StoreError> {
        let announce = |pool: sqlx::PgPool| async move {
            let mut transaction = begin(&pool).await?;
            let position = sqlx::query_as(POSITION).bind(receiver);
            let position: Option<(Time, String)> =
                position.fetch_optional(&mut *transaction).await?;
            let Some((at, code)) = position else {
                return Ok(0);
            };
            let expired = sqlx::query_as(EXPIRED).bind(at).bind(code);
            let expired = expired.bind(EXPIRED_BATCH as i64);
            let expired: Vec<(Time, String)> = expired.fetch_all(&mut *transaction).await?;
            let Some((at, code)) = expired.last() else {
                return Ok(0);
            };
            let news = expired.iter().map(|(at, code)| {
                let identity = expiry_identity(receiver, code, at.to_jiff());
                (code.as_str(), *at, identity)
            });
            let (codes, times, identities): (Vec<&str>, Vec<Time>, Vec<Uuid>) = news.collect();
            let announce = sqlx::query(ANNOUNCE).bind(receiver).bind(EXPIRY);
            let announce = announce.bind(codes).bind(times).bind(identities);
            announce.execute(&mut *transaction).await?;
            let advance = sqlx::query(ADVANCE).bind(receiver).bind(at).bind(code);
            advance.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(expired.len())
        };
        self.0.run("INSERT webhook_deliveries", announce).await
    }
}

/// Returns the identity of the message about an expiry. It is always the same, because a database that was restored from a
/// backup announces again what has expired since.
fn expiry_identity(receiver: &str, code: &str, at: Timestamp) -> Uuid {
    let digest: [u8; 32] = Sha256::digest(format!("{receiver} {EXPIRY} {code} {at}")).into();
    Uuid::from_bytes(digest.first_chunk().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_an_expiry_is_that_of_its_receiver_link_and_time() {
        let identity = |receiver: &str, code: &str, at: &str| {
            expiry_identity(receiver, code, at.parse().unwrap()).to_string()
        };
        let one = identity("crm", "a", "2030-01-01T00:00:00.5Z");
        assert_eq!(one, identity("crm", "a", "2030-01-01T00:00:00.5Z"));
        for other in [
            identity("audit", "a", "2030-01-01T00:00:00.5Z"),
            identity("crm", "b", "2030-01-01T00:00:00.5Z"),
            identity("crm", "a", "2030-01-01T00:00:00.6Z"),
        ] {
            assert_ne!(one, other);
        }
    }
}
