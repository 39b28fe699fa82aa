//! The management of links in PostgreSQL: takedown, change and list. The database is the truth; what the cache holds is
//! removed after each change, see [`super::cached`].

mod change;
mod erasure;
mod export;
mod handover;
mod import;
mod listing;
pub mod ownership;
mod record;
mod transfer;

use jiff_sqlx::Timestamp as Time;
use shortener_common::database::{Database, StoreError};

use self::record::columns;
pub(super) use self::record::takedown;
pub use self::{
    change::{Change, Changed, Edit},
    erasure::{Erased, PSEUDONYM, STEPS},
    export::{ExportPage, OWN_CLICKS, OWN_LINKS},
    handover::{HandedOver, Handover, MAX_LINKS as MAX_HANDOVER},
    import::{Import, Imported, Summary},
    listing::{Filter, IN_ORDER, Listing, Order, Page, Position},
    record::{How, LinkRecord, LinkState, LinkTakedown},
    transfer::PortableLink,
};
use super::{Takedown, audit::Audit, webhooks::Outbox};
use crate::{
    code::Code,
    rights::{Found, Rights},
};

/// The maximum number of links that are claimed at once.
pub const BATCH: usize = 100;

const FIND: &str = concat!("SELECT ", columns!(), " FROM links WHERE code = $1");

/// `SKIP LOCKED` makes two replicas claim different links. A link whose replica ends meanwhile becomes due again.
const CLAIM: &str = "UPDATE links SET purge_due_at = now() + interval '10 seconds' \
    WHERE code IN (SELECT code FROM links WHERE purge_due_at <= now() ORDER BY purge_due_at LIMIT $1 FOR UPDATE SKIP LOCKED) \
    RETURNING code, disabled_as, notice, purge_due_at";

/// Leaves a link alone that was changed again meanwhile.
const PURGED: &str = "UPDATE links SET purge_due_at = NULL \
    WHERE code = $1 AND purge_due_at = $2";

/// A link that has to be removed from the cache once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub code: String,
    /// The takedown, if the link is down.
    pub takedown: Option<Takedown>,
    /// The end of the claim.
    until: Time,
}

/// The management of the links of one stack; cheap to clone.
#[derive(Clone, Debug)]
pub struct Management(Database);

impl Management {
    /// Returns the management of the links in this database.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Returns the log of the changes.
    pub fn audit(&self) -> Audit {
        Audit::new(self.0.clone())
    }

    /// Returns the outbox of webhooks.
    pub fn outbox(&self) -> Outbox {
        Outbox::new(self.0.clone())
    }

    /// Reads a link.
    pub async fn find(
        &self,
        code: Code<'_>,
        rights: &Rights,
    ) -> Result<Found<LinkRecord>, StoreError> {
        let link: Option<LinkRecord> = self
            .0
            .look_up("SELECT links", |pool| async move {
                let find = sqlx::query_as(FIND).bind(code.as_str());
                find.fetch_optional(&pool).await
            })
            .await?;
        Ok(match link {
            Some(link) if rights.include(link.created_by.as_deref()) => Found::Some(link),
            Some(_) => Found::Foreign,
            None => Found::Unknown,
        })
    }

    /// Claims up to [`BATCH`] links that have to be removed from the cache once more, for a limited time.
    pub async fn claim(&self) -> Result<Vec<Due>, StoreError> {
        let rows: Vec<(String, Option<String>, Option<String>, Time)> = self
            .0
            .run("UPDATE links", |pool| async move {
                let claim = sqlx::query_as(CLAIM).bind(BATCH as i64);
                claim.fetch_all(&pool).await
            })
            .await?;
        let due = |(code, disabled_as, notice, until): (_, Option<String>, _, _)| Due {
            code,
            takedown: disabled_as.map(|how| takedown(&how, notice)),
            until,
        };
        Ok(rows.into_iter().map(due).collect())
    }

    /// Records that the cache has removed a link.
    pub async fn purged(&self, due: &Due) -> Result<(), StoreError> {
        self.0
            .run("UPDATE links", |pool| async move {
                let purged = sqlx::query(PURGED).bind(&due.code).bind(due.until);
                purged.execute(&pool).await
            })
            .await
            .map(drop)
    }
}
