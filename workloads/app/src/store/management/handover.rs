//! The transfer of links from one client to another, which is then their creator.

use serde_json::json;
use shortener_common::database::{StoreError, begin};
use sqlx::PgConnection;

use super::{Management, ownership::Owner};
use crate::store::audit::{Action, Cause};

/// The maximum number of links that one request transfers.
pub const MAX_LINKS: usize = 1000;

/// Locks links in the order of their codes: what is read of other tables afterwards is no older than the lock.
macro_rules! lock {
    ($condition:literal) => {
        concat!(
            "SELECT code FROM links WHERE created_by = $1",
            $condition,
            " AND NOT EXISTS (SELECT FROM link_owners WHERE link_owners.code = links.code) \
            ORDER BY code LIMIT $2 FOR UPDATE"
        )
    };
}
const LOCK_ALL: &str = lock!("");
const LOCK_NAMED: &str = lock!(" AND code = ANY($3)");

const OWNER: &str = "SELECT ARRAY[uid, namespace, name] FROM link_owners WHERE code = ANY($1) ORDER BY code LIMIT 1";

const MOVE: &str = "WITH moved AS (UPDATE links SET created_by = $3 WHERE code = ANY($1) AND created_by = $2 \
    AND NOT EXISTS (SELECT FROM link_owners WHERE link_owners.code = links.code) RETURNING code) \
    INSERT INTO audit_log (actor, action, subject, reason, detail) \
    SELECT $4, $5, code, $6, $7::json FROM moved ORDER BY code";

/// Links that change hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    pub from: String,
    pub to: String,
    /// Codes, at most [`MAX_LINKS`]; `None` for all links of the client.
    pub codes: Option<Vec<String>>,
}

/// The result of a [`Handover`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandedOver {
    Done {
        transferred: u64,
        /// True if the client has more links that can be transferred.
        remaining: bool,
    },
    /// One of the named links belongs to this ShortLink. Nothing was changed.
    Owned(Owner),
}

impl Management {
    /// Transfers up to [`MAX_LINKS`] links, in the order of their codes. Links of ShortLinks stay as they are. The audit log
    /// gets an entry for each link in the same transaction.
    ///
    /// # Errors
    /// Fails if the database is down. All of these links or none of them may then have been transferred.
    pub async fn hand_over(
        &self,
        handover: &Handover,
        cause: &Cause,
    ) -> Result<HandedOver, StoreError> {
        self.0
            .run("UPDATE links", |pool| async move {
                let mut transaction = begin(&pool).await?;
                let mut codes = lock(&mut transaction, handover).await?;
                if let Some(named) = &handover.codes {
                    let owner = sqlx::query_scalar(OWNER).bind(named);
                    if let Some(owner) = owner.fetch_optional(&mut *transaction).await? {
                        return Ok(HandedOver::Owned(Owner::of_columns(owner)));
                    }
                }
                let remaining = codes.len() > MAX_LINKS;
                codes.truncate(MAX_LINKS);
                let detail = json!({"from": handover.from, "to": handover.to});
                let change = sqlx::query(MOVE)
                    .bind(codes)
                    .bind(&handover.from)
                    .bind(&handover.to)
                    .bind(&cause.by)
                    .bind(Action::LinkTransferred.as_str())
                    .bind(cause.reason.as_deref())
                    .bind(detail.to_string());
                let transferred = change.execute(&mut *transaction).await?.rows_affected();
                transaction.commit().await?;
                Ok(HandedOver::Done {
                    transferred,
                    remaining,
                })
            })
            .await
    }
}

/// Returns the codes of the next links, and one more if there are more.
async fn lock(
    connection: &mut PgConnection,
    handover: &Handover,
) -> Result<Vec<String>, sqlx::Error> {
    let named = handover.codes.as_ref();
    let lock = sqlx::query_scalar(named.map_or(LOCK_ALL, |_| LOCK_NAMED));
    let lock = lock.bind(&handover.from).bind(MAX_LINKS as i64 + 1);
    let lock = named.into_iter().fold(lock, |lock, codes| lock.bind(codes));
    lock.fetch_all(connection).await
}
