//! Idempotency keys of requests for links. A key and its link are written in one transaction.

use jiff_sqlx::Timestamp as Time;
use shortener_common::database::{StoreError, begin};
use sqlx::{PgExecutor, PgPool};

use super::{Links, NewLink, Outcome};
use crate::store::Link;

/// Claims the key of a request unless it is claimed already. A key expires after a day, longer than any client retries.
/// A second request waits for the end of the first one here.
const CLAIM: &str = "INSERT INTO link_keys (key, body_sha256) VALUES ($1, $2) \
    ON CONFLICT (key) DO UPDATE SET body_sha256 = excluded.body_sha256, code = NULL, created_at = now() \
    WHERE link_keys.created_at < now() - interval '1 day'";

const CLAIMED: &str = "UPDATE link_keys SET code = $2 WHERE key = $1";

/// Reads the claim of another request. It has a link: both are written in one transaction.
const HOLDER: &str = "SELECT body_sha256 = $2, links.code, links.is_template, links.created_at, links.expires_at \
    FROM link_keys JOIN links ON links.code = link_keys.code \
    WHERE key = $1 AND link_keys.created_at >= now() - interval '1 day'";

/// The idempotency key of a request, with what it stands for.
#[derive(Clone, Debug)]
pub struct RequestKey {
    pub key: String,
    /// The SHA-256 of the body.
    pub body_sha256: [u8; 32],
}

impl Links {
    /// Stores a link under its key, or finds that of an earlier request.
    pub(super) async fn create_once(
        &self,
        pool: PgPool,
        link: &NewLink,
        once: &RequestKey,
    ) -> Result<Outcome, sqlx::Error> {
        let mut transaction = begin(&pool).await?;
        let claim = sqlx::query(CLAIM)
            .bind(&once.key)
            .bind(&once.body_sha256[..]);
        let claimed = claim.execute(&mut *transaction).await?;
        if claimed.rows_affected() == 0 {
            let earlier = repeated(&mut *transaction, &link.url, once).await?;
            return earlier.ok_or(sqlx::Error::RowNotFound);
        }
        let outcome = match link.reuse && link.expires_at.is_none() {
            true => self.find_or_insert(&mut transaction, link).await?,
            false => self.insert(&mut transaction, link).await?,
        };
        // A request that failed leaves its key free.
        if let Outcome::Created(stored) | Outcome::Reused(stored) = &outcome {
            let claimed = sqlx::query(CLAIMED).bind(&once.key).bind(&stored.code);
            claimed.execute(&mut *transaction).await?;
            transaction.commit().await?;
        }
        Ok(outcome)
    }

    /// Finds the link of an earlier request to this destination under its key, and stores nothing; `None` if no request
    /// holds the key.
    pub async fn repeated(
        &self,
        url: &str,
        once: &RequestKey,
    ) -> Result<Option<Outcome>, StoreError> {
        let find = |pool: PgPool| async move { repeated(&pool, url, once).await };
        self.database.look_up("SELECT link_keys", find).await
    }
}

/// Returns the link of an earlier request with this key.
async fn repeated(
    executor: impl PgExecutor<'_>,
    url: &str,
    once: &RequestKey,
) -> Result<Option<Outcome>, sqlx::Error> {
    let holder = sqlx::query_as(HOLDER)
        .bind(&once.key)
        .bind(&once.body_sha256[..]);
    let row: Option<(bool, String, bool, Time, Option<Time>)> =
        holder.fetch_optional(executor).await?;
    Ok(
        row.map(|(same_body, code, template, created_at, expires_at)| {
            if !same_body {
                return Outcome::OtherBody;
            }
            Outcome::Repeated(Link {
                code,
                url: url.to_owned(),
                template,
                created_at: created_at.to_jiff(),
                expires_at: expires_at.map(Time::to_jiff),
            })
        }),
    )
}
